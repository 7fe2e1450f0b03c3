/** How a number is written: decimals rounded for display only, or its exact text. */

import type { NumberMode, Quantity } from "./types";

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
  const text = value.toFixed(decimals);
  if (Number(text) === 0) return text.replace("-", "");
  return text.replace("-", MINUS);
}

/** `-sqrt(2)*log(3)/2` as a person writes it. */
export function exactText(exact: string): string {
  return exact
    .replace(/\blog\(/g, "ln(")
    .replace(/\bsqrt\((\d+)\)/g, "\u221a$1")
    .replace(/\*/g, "\u00b7")
    .replace(/-/g, MINUS);
}

export function quantityText(quantity: Quantity, mode: NumberMode, decimals: number): string {
  if (mode === "fractions" && quantity.exact !== null) return exactText(quantity.exact);
  if (mode === "fractions") return decimalText(quantity.value, MAX_DECIMALS);
  return decimalText(quantity.value, decimals);
}

/** Full precision: the shortest text that reads back as the same double. */
export function valueText(value: number | null): string {
  return value === null ? "-Infinity" : String(value);
}
