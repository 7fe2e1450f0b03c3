/** Which rows the figure of named rows puts below each other; `of` says which. */

import type { Quantity } from "../../engine/types";
import { answers, bank, numberNamed } from "./engine";
import { filled, labels } from "./surface";

export interface NamedRow {
  title: string;
  note?: string;
  cells: Quantity[];
  /** Whose colour the row has, or each of its columns. */
  head: number | null;
  headOfColumn?: (column: number) => number | null;
  isMarked: boolean;
}

interface NamedRows {
  label: string;
  columns: readonly string[];
  rows: NamedRow[];
}

const says = labels.rows;
const plain = { head: null, isMarked: false };
const named = (name: string, count: number) =>
  Array.from({ length: count }, (_, i) => numberNamed(`${name}[${i}]`));
const byHead = (column: number) => Math.floor(column / 2);

const KINDS: Record<string, (sentence: string) => NamedRows> = {
  residual(sentence) {
    const solved = bank(sentence);
    const row = (field: string) => solved.row(field, solved.last);
    return {
      label: filled(says.residual, { token: solved.last + 1 }),
      columns: solved.features,
      rows: [
        { title: "x", note: says.came, cells: row("x"), ...plain },
        { title: says.added, note: says.both, cells: row("output"), ...plain },
        { title: says.updated, cells: row("updated"), head: null, isMarked: true },
      ],
    };
  },
  cut(sentence) {
    const solved = bank(sentence);
    const { last, features } = solved;
    const without = bank(sentence, "without-head-1").row("output", last);
    const cut = features.map((_, i) => solved.at("output_cut", last, i));
    return {
      label: says.cut,
      columns: features,
      rows: [
        { title: says.output, note: says.both, cells: solved.row("output", last), ...plain },
        { title: says.off, note: says.before, cells: without, head: 1, isMarked: true },
        { title: says.sliced, note: says.after, cells: cut, ...plain },
      ],
    };
  },
  shifted() {
    const solved = answers("two-routes", "main");
    const of = (field: string) => [0, 1, 2].map((s) => solved.at(field, 0, 2, s));
    return {
      label: says.shifted,
      columns: [1, 2, 3].map((source) => filled(says.source, { source })),
      rows: [
        { title: says.score, cells: of("scores"), ...plain },
        { title: says.exp, cells: of("exp_scores"), ...plain },
        {
          title: says.weight,
          note: says.ofSum,
          cells: of("attn_weights"),
          head: 0,
          isMarked: true,
        },
        { title: says.less, note: says.largest, cells: of("shifted_scores"), ...plain },
        { title: says.exp, note: says.noneAbove, cells: of("shifted_exp"), ...plain },
        {
          title: says.weight,
          note: says.same,
          cells: of("shifted_weights"),
          head: 0,
          isMarked: true,
        },
      ],
    };
  },
  bias() {
    const solved = answers("three-heads", "main");
    const at = (field: string) => [0, 1, 2, 3].map((t) => solved.at(field, 2, t, 0));
    const bias = [0, 1, 2, 3].map(() => solved.given("heads.2.b_V[0]"));
    return {
      label: says.bias,
      columns: [1, 2, 3, 4].map((position) => filled(says.position, { position })),
      rows: [
        { title: "x W_V", note: says.differs, cells: at("value_without_bias"), ...plain },
        { title: "+ b_V", note: says.everywhere, cells: bias, head: 2, isMarked: false },
        { title: says.value, cells: at("v"), head: null, isMarked: true },
      ],
    };
  },
  moved(sentence) {
    const solved = bank(sentence, "last-changed");
    const all = (field: string) => solved.tokens.map((_, t) => solved.at(field, t));
    return {
      label: says.moved,
      columns: solved.tokens.map((_, t) => String(t + 1)),
      rows: [
        { title: says.joined, note: says.before, cells: all("concat_moved"), ...plain },
        {
          title: says.output,
          note: says.after,
          cells: all("output_moved"),
          head: null,
          isMarked: true,
        },
      ],
    };
  },
  gradient(sentence) {
    const { features } = bank(sentence);
    return {
      label: says.gradient,
      columns: features.map((_, i) => String(i + 1)),
      rows: [
        { title: says.row, note: says.atRow, cells: named("training:row-gradient", 4), ...plain },
        {
          title: says.joined,
          note: says.atJoined,
          cells: named("training:joined-gradient", 4),
          head: null,
          headOfColumn: byHead,
          isMarked: true,
        },
      ],
    };
  },
  step(sentence) {
    const { features } = bank(sentence);
    return {
      label: says.step,
      columns: features,
      rows: [0, 1, 2, 3].map((row) => ({
        title: filled(says.rowOf, { row: row + 1 }),
        note: filled(says.ofHead, { head: byHead(row) + 1 }),
        cells: named(`training:w-o[${row}]`, 4),
        head: byHead(row),
        isMarked: false,
      })),
    };
  },
};

export function rowsOf(kind: string, sentence: string): NamedRows {
  const make = KINDS[kind];
  if (!make) throw new Error(`rows of=${kind} is not known: use ${Object.keys(KINDS).join(", ")}`);
  return make(sentence);
}
