/** Kind `layout-conversion`: where one entry of a head's matrix stands in a packed one. */

import type { Row } from "../../engine/sheet";
import type { Draws } from "./drawing";
import { type Draft, facts, fault, type Misconception, slip, whole } from "./form";

/** H and d; D is H * d. */
const SIZES = [
  [3, 5],
  [4, 5],
  [3, 7],
  [5, 4],
  [4, 6],
  [5, 3],
  [6, 4],
] as const;
const TARGETS = {
  torch: "nn.MultiheadAttention's in_proj_weight, (3D, D): rows are outputs, blocks q, k, v",
  gpt2: "GPT-2's c_attn.weight (Conv1D), (D, 3D): columns are outputs, blocks q, k, v",
  nanogpt: "nanoGPT's c_attn.weight (nn.Linear), (3D, D): rows are outputs, blocks q, k, v",
  interleaved:
    "a query_key_value.weight as in BLOOM and GPT-NeoX, (3D, D): rows are outputs, " +
    "q, k and v of head 0, then of head 1, and so on",
} as const;
type Target = keyof typeof TARGETS;
const NAMES: readonly Target[] = ["torch", "gpt2", "nanogpt", "interleaved"];
const BEGINS = "That is what you get when ";

/** W_Q[h][i][j], or of W_K or W_V; everything counts from 0. */
interface Entry {
  /** 0 for W_Q, 1 for W_K, 2 for W_V. */
  readonly part: number;
  readonly head: number;
  readonly feature: number;
  readonly column: number;
  readonly numHeads: number;
  readonly width: number;
}

function outputInBlocks({ part, head, column, numHeads, width }: Entry): number {
  return part * numHeads * width + head * width + column;
}

/** Which output where q, k and v of one head lie side by side. */
function outputByHead({ part, head, column, width }: Entry): number {
  return (head * 3 + part) * width + column;
}

function inOutput(target: Target, output: number, { feature }: Entry): [number, number] {
  return target === "gpt2" ? [feature, output] : [output, feature];
}

/** Row and column in a packed matrix, from 0. */
function placeIn(target: Target, entry: Entry): [number, number] {
  const output = target === "interleaved" ? outputByHead(entry) : outputInBlocks(entry);
  return inOutput(target, output, entry);
}

export function drawLayoutConversion(draws: Draws): Draft {
  const [numHeads, width] = draws.choose(SIZES);
  const target = draws.choose(NAMES);
  const part = draws.below(3);
  const head = draws.below(numHeads);
  const feature = draws.below(numHeads * width);
  const column = draws.below(width);
  const entry: Entry = { part, head, feature, column, numHeads, width };
  const name = `W_${"QKV"[part]}[${head}][${feature}][${column}]`;
  return {
    prompt:
      "x W_Q[h] are head h's queries, so W_Q[h] is (D, d), and likewise W_K and W_V. Where does " +
      `${name} (head, row, column) stand in ${TARGETS[target]}? Everything counts from 0.`,
    given: [facts({ heads: numHeads, "head width": width, "model width": numHeads * width })],
    asks: ["row", "column"],
    answer: whole(...placeIn(target, entry)),
    misconceptions: misplaced(target, entry),
    working: workingOf(target, entry),
  };
}

function workingOf(target: Target, entry: Entry): string[] {
  const { part, head, column, width, numHeads, feature } = entry;
  const [row, place] = placeIn(target, entry);
  const before =
    target === "interleaved"
      ? `${head} * 3 * ${width} for the heads before, ${part} * ${width} for the parts before`
      : `${part} * ${numHeads * width} for the blocks before, ${head} * ${width} for the heads before`;
  return [
    `output ${target === "gpt2" ? place : row}: ${before}, then ${column}`,
    `input ${feature}`,
    `row ${row}, column ${place}`,
  ];
}

function misplaced(target: Target, entry: Entry): Misconception[] {
  const [row, column] = placeIn(target, entry);
  const side = target === "gpt2" ? "columns" : "rows";
  const found = [
    fault(
      "weight-transposed",
      whole(column, row),
      `${BEGINS}row and column change places: the outputs are the ${side} here.`,
    ),
    otherwisePacked(target, entry),
    slip(
      "counted-from-one",
      whole(row + 1, column + 1),
      "That is the place counted from 1; here everything counts from 0.",
    ),
    slip(
      "forgot-head",
      whole(...placeIn(target, { ...entry, head: 0 })),
      `${BEGINS}the entry is looked for in head 0; it belongs to head ${entry.head}.`,
    ),
    ofAnotherPart(target, entry),
  ];
  return target === "interleaved" ? found : [...found, headMinor(target, entry)];
}

function ofAnotherPart(target: Target, entry: Entry): Misconception {
  const values: Row = whole(...placeIn(target, { ...entry, part: entry.part ? 0 : 1 }));
  if (entry.part === 0) {
    const says = `${BEGINS}the order is taken to be k, q, v; it is q, k, v.`;
    return fault("unpack-order", values, says);
  }
  const says = `${BEGINS}the entry is looked for in W_Q; it belongs to W_${"QKV"[entry.part]}.`;
  return slip("forgot-part", values, says);
}

function otherwisePacked(target: Target, entry: Entry): Misconception {
  const isTogether = target === "interleaved";
  const output = isTogether ? outputInBlocks(entry) : outputByHead(entry);
  const says = isTogether
    ? "all queries come first; here q, k and v of one head lie together."
    : "q, k and v of one head lie together; here all queries come first.";
  return fault("packed-layout", whole(...inOutput(target, output, entry)), `${BEGINS}${says}`);
}

function headMinor(target: Target, entry: Entry): Misconception {
  const { part, column, numHeads, width, head } = entry;
  const output = part * numHeads * width + column * numHeads + head;
  const says = `${BEGINS}outputs alternate between the heads; the ${width} of one head lie side by side.`;
  return fault("head-order", whole(...inOutput(target, output, entry)), says);
}
