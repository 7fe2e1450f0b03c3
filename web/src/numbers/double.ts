/**
 * Numbers of about 31 significant digits: the sum of two float64, the second below the rounding error
 * of the first. With them what has no exact form stays right to the last digit of a float64.
 *
 * Source: Dekker 1971, "A floating-point technique for extending the available precision".
 */

export interface Double {
  /** The number rounded to the nearest float64. */
  readonly value: number;
  /** What rounding left out. */
  readonly low: number;
}

const SPLIT = 134217729; // 2^27 + 1

export function doubleOf(value: number): Double {
  return { value, low: 0 };
}

function normal(value: number, low: number): Double {
  const sum = value + low;
  return Number.isFinite(sum) ? { value: sum, low: low - (sum - value) } : { value: sum, low: 0 };
}

/** The rounding error of a product of two float64, itself exact; 0 where a part would leave float64. */
function productError(a: number, b: number, product: number): number {
  const bigA = SPLIT * a;
  const bigB = SPLIT * b;
  const highA = bigA - (bigA - a);
  const highB = bigB - (bigB - b);
  const [lowA, lowB] = [a - highA, b - highB];
  const error = highA * highB - product + highA * lowB + lowA * highB + lowA * lowB;
  return Number.isFinite(error) ? error : 0;
}

export function doubleSum(a: Double, b: Double): Double {
  const sum = a.value + b.value;
  if (!Number.isFinite(sum)) return doubleOf(sum);
  const back = sum - a.value;
  const error = a.value - (sum - back) + (b.value - back);
  const lowSum = a.low + b.low;
  const lowBack = lowSum - a.low;
  const lowError = a.low - (lowSum - lowBack) + (b.low - lowBack);
  const first = normal(sum, error + lowSum);
  return normal(first.value, first.low + lowError);
}

export function doubleProduct(a: Double, b: Double): Double {
  const product = a.value * b.value;
  if (product === 0 || !Number.isFinite(product)) return doubleOf(product);
  const error = productError(a.value, b.value, product);
  return normal(product, error + (a.value * b.low + a.low * b.value));
}

export function doubleQuotient(a: Double, b: Double): Double {
  const first = a.value / b.value;
  if (first === 0 || !Number.isFinite(first)) return doubleOf(first);
  const rest = doubleSum(a, doubleNegative(doubleProduct(doubleOf(first), b)));
  const second = rest.value / b.value;
  const last = doubleSum(rest, doubleNegative(doubleProduct(doubleOf(second), b)));
  const tail = normal(second, last.value / b.value);
  return doubleSum(doubleOf(first), tail);
}

/** A quotient of whole numbers below 2^53. */
export function quotientOfWholes(a: number, b: number): Double {
  const value = a / b;
  const product = value * b;
  return { value, low: (a - product - productError(value, b, product)) / b };
}

export function doubleNegative({ value, low }: Double): Double {
  return { value: -value, low: -low };
}

/** Whether a is greater than b. */
export function isGreater(a: Double, b: Double): boolean {
  return a.value > b.value || (a.value === b.value && a.low > b.low);
}

/** 2^exponent, also where it is below the smallest normal float64 or beyond the largest. */
function scaled(value: number, exponent: number): number {
  if (exponent < -1000) return value * 2 ** -1000 * 2 ** Math.max(exponent + 1000, -1074);
  if (exponent > 1000) return value * 2 ** 1000 * 2 ** Math.min(exponent - 1000, 1023);
  return value * 2 ** exponent;
}

/** The number `whole / 2^shift`. */
export function scaledDouble(whole: bigint, shift: number): Double {
  const digits = (whole < 0n ? -whole : whole).toString(2).length;
  const excess = Math.max(0, digits - 160);
  const top = whole >> BigInt(excess);
  const value = Number(top);
  const low = Number(top - BigInt(value));
  const exponent = excess - shift;
  const high = scaled(value, exponent);
  return Number.isFinite(high) ? { value: high, low: scaled(low, exponent) } : doubleOf(high);
}

const LN2: Double = { value: Math.LN2, low: 2.319046813846299e-17 };
const TERMS = 12;
const HALVINGS = 9;

/** 1/n! for n from 1. */
const FACTORIALS: Double[] = Array.from({ length: TERMS }, (_, index) => {
  let factorial = 1;
  for (let n = 2; n <= index + 1; n += 1) factorial *= n;
  return quotientOfWholes(1, factorial);
});

/** e to the power of a number, which is halved often, summed as a series of e^r - 1, and squared back. */
export function doubleExponential(x: Double): Double {
  if (x.value < -746 || x.value > 710) return doubleOf(x.value < 0 ? 0 : Number.POSITIVE_INFINITY);
  const turns = Math.round(x.value / LN2.value);
  const reduced = doubleSum(x, doubleProduct(doubleOf(-turns), LN2));
  const r = { value: reduced.value / 2 ** HALVINGS, low: reduced.low / 2 ** HALVINGS };
  let sum = doubleOf(0);
  for (let n = TERMS - 1; n >= 0; n -= 1) {
    sum = doubleProduct(r, doubleSum(sum, FACTORIALS[n] ?? doubleOf(0)));
  }
  for (let n = 0; n < HALVINGS; n += 1) {
    const twice = { value: 2 * sum.value, low: 2 * sum.low }; // (1 + s)^2 - 1 = 2 s + s^2
    sum = doubleSum(twice, doubleProduct(sum, sum));
  }
  const result = doubleSum(doubleOf(1), sum);
  const value = scaled(result.value, turns);
  return Number.isFinite(value) ? { value, low: scaled(result.low, turns) } : doubleOf(value);
}
