/**
 * Arithmetic on the engine's numbers: exact as long as the result is short, decimal from there on.
 * Where it stops being exact is the same as in the Python engine, so both know the same numbers exactly.
 */

import {
  doubleExponential,
  doubleOf,
  doubleProduct,
  doubleQuotient,
  doubleSum,
  isGreater,
} from "./double";
import {
  collected,
  decimal,
  integer,
  isBlocked,
  type Num,
  ratio,
  symbolic,
  type Term,
  termsDouble,
} from "./exact";
import { logFactors, perfectRoot, rootParts, rootProduct } from "./factors";
import {
  absolute,
  bitLength,
  type Fraction,
  fraction,
  fractionDouble,
  inverse,
  NOUGHT,
  plus,
  power,
  times,
  type Whole,
  wholeProduct,
} from "./fraction";

export const ZERO = integer(0);
export const ONE = integer(1);
export const MINUS_ONE = integer(-1);
/** The masked score of a blocked key. */
export const BLOCKED: Num = { value: Number.NEGATIVE_INFINITY, low: 0, exact: null };

/** A longer fraction, a sum of more terms, a row of more symbolic products continues as a decimal. */
const MAX_BITS = 2048;
const MAX_TERMS = 32;
const MAX_PRODUCTS = 16;

function isLong(number: Whole): boolean {
  return typeof number === "bigint" && bitLength(number) > MAX_BITS;
}

function tidyRatio(given: Fraction): Num {
  if (isLong(given.num) || isLong(given.den)) return decimal(fractionDouble(given));
  return ratio(given);
}

function tidySum(terms: Term[]): Num {
  if (terms.length > MAX_TERMS) return decimal(termsDouble(terms));
  const made = symbolic(terms);
  return made.exact?.ratio ? tidyRatio(made.exact.ratio) : made;
}

export function isZero(number: Num): boolean {
  return number.exact?.ratio?.num === 0;
}

export function isPositive(number: Num): boolean {
  return number.value > 0;
}

export function add(a: Num, b: Num): Num {
  if (a.exact === null || b.exact === null) return decimal(doubleSum(a, b));
  if (a.exact.ratio && b.exact.ratio) return tidyRatio(plus(a.exact.ratio, b.exact.ratio));
  return tidySum(collected([...a.exact.terms, ...b.exact.terms]));
}

/** Multiply; an exact zero makes the product an exact zero. */
export function multiply(a: Num, b: Num): Num {
  if (isZero(a) || isZero(b)) return ZERO;
  if (a.exact === null || b.exact === null) return decimal(doubleProduct(a, b));
  if (a.exact.ratio && b.exact.ratio) return tidyRatio(times(a.exact.ratio, b.exact.ratio));
  const [left, right] = [a.exact.terms, b.exact.terms];
  if (left.length * right.length > MAX_TERMS) return decimal(doubleProduct(a, b));
  return tidySum(collected(left.flatMap((one) => right.map((other) => termProduct(one, other)))));
}

function termProduct(a: Term, b: Term): Term {
  const { outer, inner } = rootProduct(a.root, b.root);
  const plain = times(a.coefficient, b.coefficient);
  const logs = new Map<Whole, number>(a.logs);
  for (const [base, count] of b.logs) logs.set(base, (logs.get(base) ?? 0) + count);
  const sorted = [...logs].sort(([left], [right]) => (left < right ? -1 : 1));
  return {
    coefficient: outer === 1 ? plain : times(plain, fraction(outer)),
    root: inner,
    logs: sorted,
  };
}

export function negative(number: Num): Num {
  return multiply(MINUS_ONE, number);
}

/** The sum of the products of two equally long rows. */
export function dot(left: readonly Num[], right: readonly Num[]): Num {
  const pairs: [Num, Num][] = [];
  let [symbols, total] = [0, NOUGHT];
  left.forEach((a, i) => {
    const b = right[i] ?? ZERO;
    if (isZero(a) || isZero(b)) return;
    pairs.push([a, b]);
    const [one, other] = [a.exact?.ratio, b.exact?.ratio];
    if (!one || !other) symbols += 1;
    else if (symbols === 0) total = plus(total, times(one, other));
  });
  if (symbols === 0) return tidyRatio(total);
  if (symbols > MAX_PRODUCTS) {
    return decimal(pairs.reduce((sum, [a, b]) => doubleSum(sum, doubleProduct(a, b)), doubleOf(0)));
  }
  return pairs.reduce((sum, [a, b]) => add(sum, multiply(a, b)), ZERO);
}

export function total(numbers: readonly Num[]): Num {
  return numbers.reduce(add, ZERO);
}

/** The largest number; the first of equal ones. */
export function largest(numbers: readonly Num[]): Num {
  return numbers.reduce((most, number) => (isGreater(number, most) ? number : most));
}

/** One divided by a number other than 0; exact for fractions and for a + b sqrt(n). */
export function reciprocal(number: Num): Num {
  const { exact } = number;
  if (exact?.ratio) return ratio(inverse(exact.ratio));
  const terms = exact?.terms ?? [];
  const roots = new Set(terms.map(({ root }) => root).filter((root) => root !== 1));
  if (roots.size !== 1 || terms.some(({ logs }) => logs.length > 0)) {
    return decimal(doubleQuotient(doubleOf(1), number));
  }
  const [root] = roots as Set<Whole>;
  const part = (isPlain: boolean) =>
    terms.find((term) => (term.root === 1) === isPlain)?.coefficient ?? NOUGHT;
  const [plain, rooted] = [part(true), part(false)];
  const minus = { num: wholeProduct(-1, root ?? 1), den: 1 };
  const norm = plus(times(plain, plain), times(times(rooted, rooted), minus));
  const conjugate = add(ratio(times(fraction(2), plain)), negative(number));
  return multiply(conjugate, ratio(inverse(norm)));
}

/** The root of a fraction that is not negative. */
export function squareRoot({ num, den }: Fraction): Num {
  const [top, bottom] = [perfectRoot(num), perfectRoot(den)];
  if (top !== null && bottom !== null) return ratio(fraction(top, bottom));
  const [over, under] = [rootParts(num), rootParts(den)];
  const { outer, inner } = rootProduct(over.inner, under.inner);
  const size = wholeProduct(over.outer, outer);
  const coefficient = fraction(size, wholeProduct(under.outer, under.inner));
  return symbolic([{ coefficient, root: inner, logs: [] }]);
}

/** The natural logarithm of a positive fraction, in terms of logarithms of its factors. */
export function logarithm({ num, den }: Fraction): Num {
  const parts = ([n, sign]: [Whole, number]): Term[] =>
    logFactors(n).map(([base, count]) => ({
      coefficient: fraction(sign * count),
      root: 1,
      logs: [[base, 1]],
    }));
  return symbolic(collected([...parts([num, 1]), ...parts([den, -1])]));
}

/** e to the power of a number: exact for 0 and for sums of logarithms. */
export function exponential(number: Num): Num {
  if (isBlocked(number)) return ZERO;
  if (number.exact === null) return decimal(doubleExponential(number));
  let closed = ONE;
  for (const term of number.exact.terms) {
    const factor = termPower(term);
    if (factor === null) return decimal(doubleExponential(number));
    closed = multiply(closed, factor);
  }
  return closed;
}

/** exp(c ln n) = n^c where c is whole or half and the result is short, else null. */
function termPower({ coefficient: { num, den }, root, logs }: Term): Num | null {
  const [log] = logs;
  if (root !== 1 || logs.length !== 1 || !log || log[1] !== 1 || den > 2) return null;
  const base = log[0];
  if ((Number(absolute(num)) / Number(den)) * bitLength(base) > MAX_BITS / 2) return null;
  const wholePower = ratio(power({ num: base, den: 1 }, Math.floor(Number(num) / Number(den))));
  return den === 1 ? wholePower : multiply(wholePower, squareRoot({ num: base, den: 1 }));
}

/** Weights of one row of scores; a blocked key gets 0. */
export function softmax(scores: readonly Num[]): Num[] {
  const highest = negative(largest(scores.filter((score) => !isBlocked(score))));
  const powers = scores.map((score) =>
    isBlocked(score) ? ZERO : exponential(add(score, highest)),
  );
  const share = reciprocal(total(powers));
  return powers.map((one) => multiply(one, share));
}
