/** Roots and logarithms of whole numbers, to as many binary digits as asked for. */

import { type Double, scaledDouble } from "./double";
import type { Whole } from "./fraction";

const DIGITS = 256;

/** The whole part of the root of a whole number. */
export function wholeRoot(n: bigint): bigint {
  if (n < 2n) return n;
  let guess = 1n << BigInt((n.toString(2).length + 1) >> 1);
  for (;;) {
    const next = (guess + n / guess) >> 1n;
    if (next >= guess) return guess;
    guess = next;
  }
}

/** sqrt(n) * 2^bits, cut to a whole number. */
export function fixedRoot(n: Whole, bits: number): bigint {
  return wholeRoot(BigInt(n) << BigInt(2 * bits));
}

/** 2 artanh(1/n), scaled. */
function twiceArtanh(top: bigint, bottom: bigint, bits: number): bigint {
  let part = (top << BigInt(bits + 1)) / bottom;
  let [sum, n] = [0n, 1n];
  while (part !== 0n) {
    sum += part / n;
    part = (part * top * top) / (bottom * bottom);
    n += 2n;
  }
  return sum;
}

/** ln(n) * 2^bits of a whole number from 1, right but for its last few digits. */
export function fixedLog(n: Whole, bits: number): bigint {
  const fine = bits + 32;
  const given = BigInt(n);
  const exponent = given.toString(2).length - 1;
  // n = 2^exponent * m with 1 <= m < 2, and ln m = 2 artanh((m - 1) / (m + 1)).
  const unit = 1n << BigInt(exponent);
  const logM = given === unit ? 0n : twiceArtanh(given - unit, given + unit, fine);
  const log2 = twiceArtanh(1n, 3n, fine);
  return (logM + BigInt(exponent) * log2) >> 32n;
}

function remembered(compute: (n: Whole) => Double): (n: Whole) => Double {
  const known = new Map<Whole, Double>();
  return (n) => {
    let found = known.get(n);
    if (found === undefined) {
      if (known.size > 2000) known.clear();
      found = compute(n);
      known.set(n, found);
    }
    return found;
  };
}

export const rootDouble = remembered((n) => scaledDouble(fixedRoot(n, DIGITS), DIGITS));
export const logDouble = remembered((n) => scaledDouble(fixedLog(n, DIGITS), DIGITS));
