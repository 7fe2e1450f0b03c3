/** Which rows the figure of named rows puts below each other. */

import type { Quantity } from "../../lib/types";
import { bank } from "./engine";

export interface NamedRow {
  title: string;
  note?: string;
  cells: Quantity[];
  head: number | null;
  isMarked: boolean;
}

interface NamedRows {
  label: string;
  features: readonly string[];
  rows: NamedRow[];
}

export function rowsOf(kind: string, sentence: string): NamedRows {
  const solved = bank(sentence);
  const { last, features } = solved;
  const row = (field: string) => solved.row(field, last);
  const plain = { head: null, isMarked: false };
  if (kind === "residual") {
    return {
      label: `Token ${last + 1} before and after attention`,
      features,
      rows: [
        { title: "x", note: "as it came", cells: row("x"), ...plain },
        { title: "+ output", note: "both heads", cells: row("output"), ...plain },
        { title: "= updated", cells: row("updated"), head: null, isMarked: true },
      ],
    };
  }
  if (kind !== "cut") throw new Error(`rows of=${kind} is not known: use residual or cut`);
  const without = bank(sentence, "without-head-1").row("output", last);
  const cut = features.map((_, i) => solved.at("output_cut", last, i));
  return {
    label: "Taking head 1 away before W O, and blanking the first two numbers after it",
    features,
    rows: [
      { title: "output", note: "both heads", cells: row("output"), ...plain },
      { title: "head 1 off", note: "before W_O", cells: without, head: 1, isMarked: true },
      { title: "slice cut", note: "after W_O", cells: cut, ...plain },
    ],
  };
}
