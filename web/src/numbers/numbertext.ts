/** Numbers inside a formula: rounded to read, or as short exact text; and as Python writes them. */

import type { Num } from "./exact";

/** Longer exact text is shown as decimals. */
const LONGEST = 16;

/** Digits beyond the last one written, enough to tell a tie. */
const MORE = 30;

/** `toFixed` and its kin round a tie away from zero; here a tie goes to the even digit, as in Python. */
function rounded(value: number, digits: number, write: Writer): string {
  const text = write(value, digits);
  const [mantissa = "", exponent] = write(value, digits + MORE).split("e");
  if (!mantissa.endsWith(`5${"0".repeat(MORE - 1)}`)) return text;
  const cut = mantissa.slice(0, -MORE);
  if (Number(cut.slice(-1)) % 2 === 1) return text;
  return exponent === undefined ? cut : `${cut}e${exponent}`;
}

type Writer = (value: number, digits: number) => string;

/** 1.50e-7 as Python writes it: 1.50e-07. */
function pythonExponent(text: string): string {
  return text.replace(/e([+-])(\d)$/, "e$10$2");
}

/** `%.{digits}g` of a number whose exponent is small. */
function significant(value: number, digits: number): string {
  const text = rounded(value, digits, (near, count) => near.toPrecision(count));
  return /[.]/.test(text) && !text.includes("e") ? text.replace(/\.?0+$/, "") : text;
}

/** With 3 decimals, or as a power of ten where it is small or large. */
export function roundedText(value: number): string {
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (value === 0) return "0";
  if (Math.abs(value) < 0.0005 || Math.abs(value) >= 1e6) {
    return pythonExponent(rounded(value, 2, (near, count) => near.toExponential(count)));
  }
  const text = rounded(value, 3, (near, count) => near.toFixed(count));
  return Number.isInteger(value) ? text.replace(/\.000$/, "") : text;
}

/** Exact text where that is known and not too long, else null. */
export function shortExact(number: Num, longest = LONGEST): string | null {
  const text = number.exact?.text() ?? null;
  return text !== null && text.length <= longest ? text : null;
}

/** Exact text where that is known and not too long, else rounded. */
export function fractionStyle(number: Num): string {
  return shortExact(number) ?? roundedText(number.value);
}

/** 0.25 where decimals end early, else rounded: 3.005, 0.00642. */
export function decimalStyle(number: Num): string {
  const { value, exact } = number;
  const den = exact?.ratio?.den;
  if (typeof den === "number" && 10000 % den === 0) {
    return Math.abs(value) < 1e9 ? significant(value, 10) : roundedText(value);
  }
  const size = Math.abs(value);
  return size >= 1e-4 && size < 0.0995 ? significant(value, 3) : roundedText(value);
}

/** Full precision, as Python's `repr` of the same float64. */
export function pythonFloat(value: number): string {
  if (!Number.isFinite(value)) return `float("${value > 0 ? "inf" : "-inf"}")`;
  const size = Math.abs(value);
  if (size >= 1e16 || (size !== 0 && size < 1e-4)) {
    return pythonExponent(value.toExponential());
  }
  const text = String(value);
  return /[.e]/.test(text) ? text : `${text}.0`;
}

/** A number in a line of Python: short exact text with `log` for ln, else all digits of the float64. */
export function pythonNumber(number: Num): string {
  const text = shortExact(number, 40);
  const written = text === null ? pythonFloat(number.value) : text.replace(/ln\(/g, "log(");
  return /^[0-9.]+$|^float/.test(written) ? written : `(${written})`;
}
