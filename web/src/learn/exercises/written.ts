/** How an exercise is written on the page: its sentences, its tables, and the names of its numbers. */

import { isExact, type Num } from "../../numbers/exact";
import { decimalText, exactText, neededDecimals } from "../../numbers/show";
import type { GivenTable } from "./shipped";

/** A sentence with its signs as a person writes them: `-8*sqrt(10)/5` with minus, dot and root. */
export function readable(text: string): string {
  return text
    .replace(/\bsqrt\((\d+)\)/g, "\u221a$1")
    .replace(/\*/g, "\u00b7")
    .replace(/(?<![\w)])-(?=[\d\u221al])| - /g, (found) => found.replace("-", "\u2212"));
}

export type Piece = string | { readonly base: string; readonly below: string };

/** A sentence in pieces, so that the letter of `W_Q` can be set below the line. */
export function piecesOf(text: string): Piece[] {
  return text
    .split(/\b([Wb]_[QKVO])\b/)
    .map((piece, at) => (at % 2 === 0 ? piece : { base: piece[0] ?? "", below: piece[2] ?? "" }));
}

/** The exact form where it is known, else decimals. */
export function numberShown(number: Num): string {
  if (!isExact(number) || !number.exact) return decimalShown(number);
  return exactText(number.exact.text());
}

export function decimalShown({ value }: Num): string {
  return decimalText(value === Number.NEGATIVE_INFINITY ? null : value, neededDecimals(value));
}

/** Whether a number is shown with its decimals too: it is exact and not an integer. */
export function isBroken(number: Num): boolean {
  return number.exact !== null && !/^-?\d+$/.test(number.exact.text());
}

export interface Headed {
  /** What all columns are, such as "source"; "" where each has a name of its own. */
  readonly word: string;
  readonly titles: readonly string[];
}

/** The names of columns, shortened to their numbers where they differ in nothing else. */
export function headed({ columnLabels }: Pick<GivenTable, "columnLabels">): Headed {
  const found = columnLabels.map((label) => /^(.+) (\d+)$/.exec(label));
  const [first] = found;
  const word = first?.[1] ?? "";
  if (columnLabels.length > 1 && word !== "" && found.every((one) => one?.[1] === word)) {
    return { word, titles: found.map((one) => one?.[2] ?? "") };
  }
  return { word: "", titles: columnLabels };
}

/** Whether a table is a list of facts: one column that says nothing. */
export function isList({ columnLabels }: Pick<GivenTable, "columnLabels">): boolean {
  return columnLabels.length === 1 && columnLabels[0] === "value";
}
