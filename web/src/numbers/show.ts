/** How a number is written: decimals rounded for display only, or its exact text. */

import type { NumberMode, Quantity } from "../engine/types";
import type { Num } from "./exact";

export const MAX_DECIMALS = 3;
const MINUS = "\u2212";
const MINUS_INFINITY = `${MINUS}\u221e`;

/** The fewest decimals, up to three, that write a value without rounding; else three. */
export function neededDecimals(value: number | null): number {
  if (value === null) return 0;
  for (let decimals = 0; decimals < MAX_DECIMALS; decimals += 1) {
    if (Math.abs(Number(value.toFixed(decimals)) - value) < 1e-9) return decimals;
  }
  return MAX_DECIMALS;
}

/** The decimals of a field to type in: those of its column, or more where its number needs them. */
export function fieldDecimals(value: number | null, ofColumn = 0): number {
  return Math.max(ofColumn, neededDecimals(value));
}

/** One count of decimals for a whole table, so that its columns line up. */
export function sharedDecimals(quantities: Quantity[]): number {
  return quantities.reduce((most, { value }) => Math.max(most, neededDecimals(value)), 0);
}

export function decimalText(value: number | null, decimals: number): string {
  if (value === null) return MINUS_INFINITY;
  if (Math.abs(value) >= LARGE) return largeText(value);
  const text = value.toFixed(decimals);
  if (Number(text) === 0) return text.replace("-", "");
  return text.replace("-", MINUS);
}

/** From here on `toFixed` does not round, but writes all digits and a power of ten. */
const LARGE = 1e21;
const LARGE_DIGITS = 4;

function largeText(value: number): string {
  const size = Math.abs(value);
  const text =
    size === Number.POSITIVE_INFINITY ? "\u221e" : `${Number(size.toPrecision(LARGE_DIGITS))}`;
  return value < 0 ? `${MINUS}${text}` : text;
}

/** `-sqrt(2)*log(3)/2` as a person writes it. */
export function exactText(exact: string): string {
  return exact
    .replace(/\blog\(/g, "ln(")
    .replace(/\bsqrt\((\d+)\)/g, "\u221a$1")
    .replace(/\*/g, "\u00b7")
    .replace(/-/g, MINUS);
}

/** Exact text that is longer than this is shown as decimals, and marked. */
const LONGEST = 24;

/** The exact text that a mode shows: a fraction, or also roots and logarithms; null for decimals. */
export function shownExact({ exact }: Quantity, mode: NumberMode): string | null {
  if (mode === "decimals" || exact === null || exact.length > LONGEST) return null;
  return mode === "fractions" && /[a-z]/.test(exact) ? null : exactText(exact);
}

export function quantityText(quantity: Quantity, mode: NumberMode, decimals: number): string {
  if (mode === "decimals") return decimalText(quantity.value, decimals);
  return shownExact(quantity, mode) ?? decimalText(quantity.value, MAX_DECIMALS);
}

/** Why a number stands as a decimal where exact ones are wanted; null where it is exact as shown. */
export function whyDecimal(quantity: Quantity, mode: NumberMode): string | null {
  if (mode === "decimals" || quantity.value === null) return null;
  if (shownExact(quantity, mode) !== null) return null;
  if (quantity.exact === null) return "only its decimals are known";
  if (quantity.exact.length > LONGEST) return "its exact form is long: open it to read it";
  return `no fraction: it is ${exactText(quantity.exact)}`;
}

/** Full precision: the shortest text that reads back as the same double. */
export function valueText(value: number | null): string {
  return value === null ? "-Infinity" : String(value);
}

/** In a sentence or a formula, longer exact text is written as decimals. */
const LONGEST_WRITTEN = 16;

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
export function shortExact(number: Num, longest = LONGEST_WRITTEN): string | null {
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
