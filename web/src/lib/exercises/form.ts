/** What an exercise consists of; the same form as `manyheads quiz exercises --json`. */

import type { Matrix, Row } from "../../engine/sheet";
import { integer, isExact, type Num } from "../../numbers/exact";
import { fractionStyle, pythonFloat } from "../../numbers/numbertext";

/** One thing that is given: a named table of exact numbers. */
export interface GivenTable {
  readonly name: string;
  readonly rows: Matrix;
  readonly rowLabels: readonly string[];
  readonly columnLabels: readonly string[];
}

/** A known way to go wrong, and the numbers that it gives. */
export interface Misconception {
  /** Unique in its exercise, such as `scale:model-width` or `forgot-exp`. */
  readonly name: string;
  /** The fault's id in the catalogue; null for a slip that code does not make. */
  readonly fault: string | null;
  readonly says: string;
  readonly values: Row;
}

/** An exercise as one draw gives it, before anybody has looked whether it is a good one. */
export interface Draft {
  readonly prompt: string;
  readonly given: readonly GivenTable[];
  readonly asks: readonly string[];
  readonly answer: Row;
  readonly misconceptions: readonly Misconception[];
  readonly working: readonly string[];
}

export interface Exercise extends Draft {
  /** `kind/seed`. */
  readonly id: string;
  readonly kind: string;
  readonly seed: number;
  readonly title: string;
}

/** Numbers for a reader: `1/2, ln(2), 0`. */
export function shown(numbers: Row): string {
  return numbers.map(fractionStyle).join(", ");
}

/** A number as JSON has it: exact where that is known, else `~` and its nearest float64. */
export function numberText(number: Num): string {
  return isExact(number) ? (number.exact?.text() ?? "-inf") : `~${pythonFloat(number.value)}`;
}

/** A misconception that no code makes, so that the catalogue has none of it. */
export function slip(name: string, values: Row, says: string): Misconception {
  return { name, fault: null, says, values };
}

/** A misconception that is a known fault; `name` begins with the fault's id, as `scale:none`. */
export function fault(name: string, values: Row, says: string): Misconception {
  return { name, fault: name.split(":")[0] ?? name, says, values };
}

/** `word 1`, `word 2`, ... */
export function labels(word: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${word} ${i + 1}`);
}

/** A given table whose rows and columns are counted from 1. */
export function table(name: string, rows: Matrix, rowWord: string, columnWord: string): GivenTable {
  return {
    name,
    rows,
    rowLabels: labels(rowWord, rows.length),
    columnLabels: labels(columnWord, rows[0]?.length ?? 0),
  };
}

/** Named whole numbers, one a row. */
export function facts(values: Readonly<Record<string, number>>): GivenTable {
  return {
    name: "facts",
    rows: Object.values(values).map((value) => [integer(value)]),
    rowLabels: Object.keys(values),
    columnLabels: ["value"],
  };
}

/** Whole numbers as exact ones. */
export function whole(...numbers: number[]): Row {
  return numbers.map(integer);
}
