/** What-if questions: the same worksheet with one thing changed; the given one stays as it is. */

import { ZERO } from "../numbers/arithmetic";
import type { Matrix, Row, Sheet, SheetHead } from "./sheet";

export interface SolveOptions {
  /** Whether later sources are hidden; as the worksheet says unless given. */
  causal?: boolean;
  /** Heads, counted from 0, that are removed before W_O: their values become zero. */
  headsOff?: readonly number[];
  /** All heads joined into one of their joined width. */
  wide?: boolean;
  /** Every query zero. */
  zeroQuery?: boolean;
}

function cleared(rows: Matrix): Matrix {
  return rows.map(clearedRow);
}

function clearedRow(row: Row): Row {
  return row.map(() => ZERO);
}

function changedHeads(sheet: Sheet, change: (head: SheetHead, index: number) => SheetHead): Sheet {
  return { ...sheet, given: { ...sheet.given, heads: sheet.given.heads.map(change) } };
}

/** Silence heads (W_V and b_V become zero), so that they add nothing to the output. */
export function withoutHeads(sheet: Sheet, heads: readonly number[]): Sheet {
  return changedHeads(sheet, (head, index) =>
    heads.includes(index)
      ? { ...head, W_V: cleared(head.W_V), b_V: head.b_V && clearedRow(head.b_V) }
      : head,
  );
}

/** Make every query zero (W_Q and b_Q), so that each receiver weighs all it sees alike. */
export function zeroQuery(sheet: Sheet): Sheet {
  return changedHeads(sheet, (head) => ({
    ...head,
    W_Q: cleared(head.W_Q),
    b_Q: head.b_Q && clearedRow(head.b_Q),
  }));
}

type MatrixName = "W_Q" | "W_K" | "W_V";
type BiasName = "b_Q" | "b_K" | "b_V";

function joinedMatrix(heads: readonly SheetHead[], name: MatrixName): Matrix {
  const rows = heads[0]?.[name] ?? [];
  return rows.map((_, i) => heads.flatMap((head) => head[name][i] ?? []));
}

function joinedBias(heads: readonly SheetHead[], name: BiasName, of: MatrixName): Row | null {
  if (heads.every((head) => head[name] === null)) return null;
  return heads.flatMap((head) => head[name] ?? clearedRow(head[of][0] ?? []));
}

/** Join all heads into one of their joined width, with one softmax; a scale that is given stays. */
export function oneWideHead(sheet: Sheet): Sheet {
  const { heads } = sheet.given;
  const wide: SheetHead = {
    label: "one wide head",
    W_Q: joinedMatrix(heads, "W_Q"),
    W_K: joinedMatrix(heads, "W_K"),
    W_V: joinedMatrix(heads, "W_V"),
    b_Q: joinedBias(heads, "b_Q", "W_Q"),
    b_K: joinedBias(heads, "b_K", "W_K"),
    b_V: joinedBias(heads, "b_V", "W_V"),
  };
  return { ...sheet, given: { ...sheet.given, heads: [wide] } };
}

/** The worksheet that is solved: heads off first, then zero queries, one wide head, the mask. */
export function changedSheet(sheet: Sheet, options: SolveOptions): Sheet {
  let changed = sheet;
  if (options.headsOff?.length) changed = withoutHeads(changed, options.headsOff);
  if (options.zeroQuery) changed = zeroQuery(changed);
  if (options.wide) changed = oneWideHead(changed);
  const isCausal = options.causal ?? sheet.isCausal;
  return isCausal === changed.isCausal ? changed : { ...changed, isCausal };
}
