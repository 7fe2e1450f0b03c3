/** Whole numbers taken apart, as far as roots and logarithms need it. */

import {
  absolute,
  commonDivisor,
  type Whole,
  whole,
  wholeProduct,
  wholeQuotient,
} from "./fraction";
import { wholeRoot } from "./irrational";

const LOG_LIMIT = 1000;
const ROOT_LIMIT = 2 ** 15;

function remainder(n: Whole, divisor: number): Whole {
  return typeof n === "number" ? n % divisor : whole(n % BigInt(divisor));
}

/** Prime factors up to a limit with their powers, and what is left. */
function divided(n: Whole, limit: number): { found: [Whole, number][]; rest: Whole } {
  const found: [Whole, number][] = [];
  let rest = n;
  for (let p = 2; p <= limit && rest !== 1; p += p === 2 ? 1 : 2) {
    if (typeof rest === "number" && p * p > rest) break;
    let count = 0;
    for (; remainder(rest, p) === 0; count += 1) rest = wholeQuotient(rest, p);
    if (count > 0) found.push([p, count]);
  }
  return { found, rest };
}

/** The whole part of the e-th root, by halving an interval. */
function cutRoot(n: bigint, e: bigint): bigint {
  let low = 1n;
  let high = 1n << (BigInt(n.toString(2).length) / e + 1n);
  while (high - low > 1n) {
    const middle = (low + high) >> 1n;
    if (middle ** e <= n) low = middle;
    else high = middle;
  }
  return low;
}

/** A number as the highest power of a whole number: 1018081 is 1009 to the power of 2. */
function asPower(n: Whole): [Whole, number] {
  const given = BigInt(n);
  for (let e = given.toString(2).length; e > 1; e -= 1) {
    const base = cutRoot(given, BigInt(e));
    if (base > 1n && base ** BigInt(e) === given) return [whole(base), e];
  }
  return [n, 1];
}

/** Factors of a positive whole number with their powers; a large factor may stay composite. */
export function logFactors(n: Whole): [Whole, number][] {
  const { found, rest } = divided(n, LOG_LIMIT);
  return rest === 1 ? found : [...found, asPower(rest)];
}

const knownRoots = new Map<Whole, { outer: Whole; inner: Whole }>();

/** sqrt(n) as outer * sqrt(inner), with inner free of squares as far as they are found. */
export function rootParts(n: Whole): { outer: Whole; inner: Whole } {
  const known = knownRoots.get(n);
  if (known !== undefined) return known;
  const { found, rest } = divided(n, ROOT_LIMIT);
  let [outer, inner]: [Whole, Whole] = [1, 1];
  for (const [base, count] of rest === 1 ? found : [...found, asPower(rest)]) {
    outer = wholeProduct(outer, whole(BigInt(base) ** BigInt(count >> 1)));
    if (count % 2 === 1) inner = wholeProduct(inner, base);
  }
  if (knownRoots.size > 2000) knownRoots.clear();
  knownRoots.set(n, { outer, inner });
  return { outer, inner };
}

/** sqrt(a) * sqrt(b) as outer * sqrt(inner), for a and b free of squares. */
export function rootProduct(a: Whole, b: Whole): { outer: Whole; inner: Whole } {
  if (a === 1) return { outer: 1, inner: b };
  if (b === 1) return { outer: 1, inner: a };
  const outer = commonDivisor(a, b);
  return { outer, inner: wholeProduct(wholeQuotient(a, outer), wholeQuotient(b, outer)) };
}

/** The root of a whole number where that is whole, else null. */
export function perfectRoot(n: Whole): Whole | null {
  const root = wholeRoot(BigInt(absolute(n)));
  return root * root === BigInt(n) ? whole(root) : null;
}
