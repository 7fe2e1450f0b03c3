/**
 * Exact fractions of whole numbers of any length.
 *
 * A whole number is a `number` while that holds it exactly and a `bigint` beyond; each value has one
 * form, so `===` compares. A fraction is in lowest terms, its denominator positive.
 */

import { type Double, doubleOf, quotientOfWholes, scaledDouble } from "./double";

export type Whole = number | bigint;

export interface Fraction {
  readonly num: Whole;
  readonly den: Whole;
}

/** The one form of a whole number. */
export function whole(value: bigint): Whole {
  const near = Number(value);
  return Number.isSafeInteger(near) ? near : value;
}

export function wholeProduct(a: Whole, b: Whole): Whole {
  if (typeof a === "number" && typeof b === "number") {
    const product = a * b + 0; // never minus nought
    if (Number.isSafeInteger(product)) return product;
  }
  return whole(BigInt(a) * BigInt(b));
}

export function wholeSum(a: Whole, b: Whole): Whole {
  if (typeof a === "number" && typeof b === "number") {
    const sum = a + b;
    if (Number.isSafeInteger(sum)) return sum;
  }
  return whole(BigInt(a) + BigInt(b));
}

/** Divide where nothing is left over. */
export function wholeQuotient(a: Whole, b: Whole): Whole {
  if (typeof a === "number" && typeof b === "number") return a / b + 0;
  return whole(BigInt(a) / BigInt(b));
}

/** The largest whole number that divides both; positive, or 0 where both are 0. */
export function commonDivisor(a: Whole, b: Whole): Whole {
  let [left, right] = [absolute(a), absolute(b)];
  while (right !== 0) {
    if (typeof left === "number" && typeof right === "number") {
      [left, right] = [right, left % right];
    } else {
      const rest: bigint = BigInt(left) % BigInt(right);
      [left, right] = [right, whole(rest)];
    }
  }
  return left;
}

export function absolute(a: Whole): Whole {
  return a < 0 ? whole(-BigInt(a)) : a;
}

/** How many binary digits a whole number has, sign aside. */
export function bitLength(a: Whole): number {
  if (a === 0) return 0;
  return typeof a === "number" ? Math.abs(a).toString(2).length : absolute(a).toString(2).length;
}

export const NOUGHT: Fraction = { num: 0, den: 1 };
export const UNIT: Fraction = { num: 1, den: 1 };

/** A fraction in lowest terms; the denominator must not be 0. */
export function fraction(num: Whole, den: Whole = 1): Fraction {
  if (den === 1) return { num, den };
  const divisor = den < 0 ? wholeProduct(-1, commonDivisor(num, den)) : commonDivisor(num, den);
  if (divisor === 1) return { num, den };
  return { num: wholeQuotient(num, divisor), den: wholeQuotient(den, divisor) };
}

export function plus(a: Fraction, b: Fraction): Fraction {
  if (a.den === b.den) return fraction(wholeSum(a.num, b.num), a.den);
  const top = wholeSum(wholeProduct(a.num, b.den), wholeProduct(b.num, a.den));
  return fraction(top, wholeProduct(a.den, b.den));
}

export function times(a: Fraction, b: Fraction): Fraction {
  return fraction(wholeProduct(a.num, b.num), wholeProduct(a.den, b.den));
}

/** One divided by a fraction other than 0. */
export function inverse(a: Fraction): Fraction {
  return fraction(a.den, a.num);
}

/** A fraction to a whole power; a negative power needs a fraction other than 0. */
export function power(a: Fraction, exponent: number): Fraction {
  const base = exponent < 0 ? inverse(a) : a;
  const size = BigInt(Math.abs(exponent));
  return { num: whole(BigInt(base.num) ** size), den: whole(BigInt(base.den) ** size) };
}

/** The value to about 31 significant digits, the leading part rounded to the nearest float64. */
export function fractionDouble({ num, den }: Fraction): Double {
  if (den === 1 && typeof num === "number") return doubleOf(num);
  if (typeof num === "number" && typeof den === "number") return quotientOfWholes(num, den);
  const shift = 130 - bitLength(num) + bitLength(den);
  const top = shift > 0 ? BigInt(num) << BigInt(shift) : BigInt(num);
  const bottom = shift < 0 ? BigInt(den) << BigInt(-shift) : BigInt(den);
  return scaledDouble(top / bottom, shift);
}

export function fractionText({ num, den }: Fraction): string {
  return den === 1 ? String(num) : `${num}/${den}`;
}
