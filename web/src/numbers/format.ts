/** How a number is written: decimals rounded for display only, or its exact text. */

import type { NumberMode, Quantity } from "../engine/types";

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
