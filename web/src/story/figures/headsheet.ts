/** The columns of one head's sum, for the sheet that works it line by line. */

import type { Quantity } from "../../engine/types";
import { bank, numberNamed } from "./engine";
import { filled, labels } from "./surface";

export interface SheetColumn {
  title: string;
  group: string;
  cells: Quantity[];
  total?: Quantity | undefined;
  width: number;
  decimals: number;
}

export interface SheetGroup {
  title: string;
  /** The build with which it appears. */
  from: number;
  columns: SheetColumn[];
}

export interface HeadSheetData {
  label: string;
  names: string[];
  /** The source with the largest weight. */
  marked: number;
  totalName: string;
  groups: SheetGroup[];
}

export type Part = "scores" | "message";
type Spec = [title: string, field: (source: number) => string, decimals: number, width: number];

/** The sum of the last token as receiver. */
export function headSheet(sentence: string, head: number, part: Part): HeadSheetData {
  const says = labels.headSheet;
  const solved = bank(sentence);
  const last = solved.last;
  const sources = solved.tokens.map((_, source) => source);
  const name = (field: string, index: string) =>
    `river-and-cheque:${sentence}.${field}[${head}]${index}`;
  const to =
    (field: string, rest = "") =>
    (source: number) =>
      name(field, `[${last}][${source}]${rest}`);
  const from = (field: string, i: number) => (source: number) => name(field, `[${source}][${i}]`);
  const group = (title: string, build: number, specs: Spec[], totals: string[] = []) => ({
    title,
    from: build,
    columns: specs.map(([own, field, decimals, width], at) => ({
      title: own,
      group: title,
      cells: sources.map((source) => numberNamed(field(source))),
      total: totals[at] ? numberNamed(totals[at]) : undefined,
      width,
      decimals,
    })),
  });
  const weights = solved.row("attn_weights", head, last);
  const marked = weights.reduce(
    (best, { value }, at) => ((value ?? 0) > (weights[best]?.value ?? 0) ? at : best),
    0,
  );
  const q = (i: number) => name("q", `[${last}][${i}]`);
  const scores = [
    group(says.key, 0, [
      ["k 1", from("k", 0), 1, 48],
      ["k 2", from("k", 1), 1, 48],
    ]),
    group(says.query, 1, [
      ["q 1 × k 1", to("query_key_products", "[0]"), 2, 74],
      ["q 2 × k 2", to("query_key_products", "[1]"), 2, 74],
    ]),
    group(says.dots, 2, [["q · k", to("dots"), 2, 62]]),
    group(says.scaled, 3, [[says.score, to("scores"), 3, 66]]),
  ];
  const message = [
    group(says.score, 0, [["", to("scores"), 3, 56]]),
    group(says.exp, 1, [[says.expScore, to("exp_scores"), 3, 82]], [name("exp_sum", `[${last}]`)]),
    group(
      says.share,
      2,
      [[says.weight, to("attn_weights"), 3, 62]],
      [name("weight_sum", `[${last}]`)],
    ),
    group(says.value, 3, [
      ["v 1", from("v", 0), 1, 46],
      ["v 2", from("v", 1), 1, 46],
    ]),
    group(says.weighted, 4, [
      ["1", to("weighted_values", "[0]"), 3, 60],
      ["2", to("weighted_values", "[1]"), 3, 60],
    ]),
    group(says.running, 5, [
      ["1", to("running_message", "[0]"), 3, 60],
      ["2", to("running_message", "[1]"), 3, 60],
    ]),
  ];
  return {
    label: filled(says[part], {
      head: head + 1,
      receiver: last + 1,
      token: solved.tokens[last] ?? "",
      query: [0, 1].map((i) => numberNamed(q(i)).value).join(", "),
    }),
    names: solved.names,
    marked,
    totalName: says.sum,
    groups: part === "scores" ? scores : message,
  };
}
