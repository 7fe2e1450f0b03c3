/** Which rows the figure of named rows puts below each other. */

import type { Quantity } from "../../engine/types";
import { bank } from "./engine";
import { filled, labels } from "./surface";

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
  const says = labels.rows;
  const solved = bank(sentence);
  const { last, features } = solved;
  const row = (field: string) => solved.row(field, last);
  const plain = { head: null, isMarked: false };
  if (kind === "residual") {
    return {
      label: filled(says.residual, { token: last + 1 }),
      features,
      rows: [
        { title: "x", note: says.came, cells: row("x"), ...plain },
        { title: says.added, note: says.both, cells: row("output"), ...plain },
        { title: says.updated, cells: row("updated"), head: null, isMarked: true },
      ],
    };
  }
  if (kind !== "cut") throw new Error(`rows of=${kind} is not known: use residual or cut`);
  const without = bank(sentence, "without-head-1").row("output", last);
  const cut = features.map((_, i) => solved.at("output_cut", last, i));
  return {
    label: says.cut,
    features,
    rows: [
      { title: says.output, note: says.both, cells: row("output"), ...plain },
      { title: says.off, note: says.before, cells: without, head: 1, isMarked: true },
      { title: says.sliced, note: says.after, cells: cut, ...plain },
    ],
  };
}
