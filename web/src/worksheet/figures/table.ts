/** Rows and columns of a table of numbers. */

import { isPlainCount } from "../../engine/sheet";
import type { Quantity } from "../../engine/types";

export interface Column {
  title: string;
  /** Named above the first column of a group. */
  group?: string;
  /** A new group begins here: a line is drawn, and the decimals are aligned separately. */
  starts?: boolean;
}

export interface Row {
  label: string;
  /** A position, counted from 1, set before the label. */
  index?: number;
  cells: (Quantity | null)[];
  /** The source position that this row speaks of, counted from 0. */
  source?: number;
  isMarked?: boolean;
  isDim?: boolean;
  isTotal?: boolean;
}

/** Columns of one matrix under one title. */
export function group(title: string, columns: readonly string[]): Column[] {
  return columns.map((name, at) => ({ title: name, group: title, starts: at === 0 }));
}

/** 1, 2, ... as column titles. */
export function counted(length: number): string[] {
  return Array.from({ length }, (_, at) => String(at + 1));
}

function placeOf(label: string, at: number): Pick<Row, "label" | "index"> {
  return isPlainCount(label, at) ? { label } : { label, index: at + 1 };
}

/** One row a position, the receiver marked; the row speaks of its position as a source. */
export function tokenRows(
  tokens: readonly string[],
  cells: (position: number) => (Quantity | null)[],
  receiver: number | null,
): Row[] {
  return tokens.map((label, at) => ({
    ...placeOf(label, at),
    cells: cells(at),
    source: at,
    isMarked: at === receiver,
  }));
}

/** One row a source; sources that the receiver may not see are dimmed. */
export function sourceRows(
  tokens: readonly string[],
  receiver: number,
  cells: (source: number) => (Quantity | null)[],
): Row[] {
  return tokens.map((label, at) => ({
    ...placeOf(label, at),
    cells: cells(at),
    source: at,
    isDim: at > receiver,
  }));
}

/** One row a receiver of a grid over all sources. */
export function gridRows(tokens: readonly string[], grid: Quantity[][], receiver: number): Row[] {
  return grid.map((cells, at) => ({
    ...placeOf(tokens[at] ?? "", at),
    cells,
    isMarked: at === receiver,
  }));
}
