/** The worksheets that exercises are drawn as: small whole numbers, weights that are fractions. */

import { type Solution, type SolveOptions, solve } from "../../engine/attention";
import type { Matrix, Row, Sheet, SheetHead } from "../../engine/sheet";
import type { Num } from "../../numbers/exact";
import { isError, parseNumber } from "../../numbers/parse";
import type { Draws } from "./drawing";
import { labels } from "./form";
import { at, range } from "./sums";

/** T and D of a mixing sheet, and the numbers whose logarithms are its key features. */
export const POSITIONS = 4;
export const FEATURES = 6;
const KEY_FACTORS = [1, 2, 3, 4];
/** Entries of projections: often nothing, so that a sum stays short. */
const SMALL = [0, 0, 1, -1, 2];

/** A drawn worksheet and every number of it. */
export interface Solved {
  readonly sheet: Sheet;
  readonly steps: Solution;
}

/** The number that a text says; the text is ours. */
export function num(text: string): Num {
  const read = parseNumber(text);
  if (isError(read)) throw new Error(read.error);
  return read;
}

/** Let the engine work a drawn worksheet out. */
export function solved(sheet: Sheet): Solved {
  return { sheet, steps: solve(sheet, "main") };
}

/** The numbers of the same worksheet with something changed. */
export function again(drawn: Solved, options: SolveOptions, scale?: Num): Solution {
  const { sheet } = drawn;
  const changed = scale ? { ...sheet, given: { ...sheet.given, scale } } : sheet;
  return solve(changed, "main", options);
}

/** Whole numbers as numbers of the engine, each times a factor such as `*sqrt(2)`. */
export function numbers(rows: readonly (readonly number[])[], factor = ""): Num[][] {
  return rows.map((row) => row.map((n) => num(n === 0 ? "0" : `${n}${factor}`)));
}

export function head(W_Q: Matrix, W_K: Matrix, W_V: Matrix): SheetHead {
  return { label: "", W_Q, W_K, W_V, b_Q: null, b_K: null, b_V: null };
}

export function noughts(rows: number, columns: number): Num[][] {
  return numbers(Array.from({ length: rows }, () => Array<number>(columns).fill(0)));
}

/** A worksheet with one sentence; its tokens are the numbers of the positions. */
export function sheetOf(
  X: Matrix,
  heads: readonly SheetHead[],
  W_O: Matrix,
  isCausal: boolean,
  b_O: Row | null = null,
): Sheet {
  const tokens = X.map((_, t) => String(t + 1));
  return {
    name: "exercise",
    title: "Exercise",
    features: labels("feature", at(X, 0).length),
    isCausal,
    hasResidual: false,
    vocabulary: [],
    sequences: [{ name: "main", tokens, tokenKeys: null, target: null, candidates: [] }],
    isDecimal: false,
    given: {
      scale: null,
      heads,
      W_O,
      b_O,
      prediction: null,
      token_embedding: null,
      position_embedding: null,
      sequences: { main: { X } },
    },
  };
}

/**
 * Draw a causal worksheet of two or three heads with rational weights.
 *
 * T = 4 positions, D = 6 features, joined value width 6. Feature 1 is the query's sign, features 2 and 3
 * are logarithms of small whole numbers, features 4 to 6 are values. Queries and keys are one number
 * wide, so that a score is plus or minus such a logarithm.
 */
export function mixingSheet(draws: Draws, hasBias: boolean): Solved {
  const numHeads = draws.choose([2, 3]);
  const width = FEATURES / numHeads;
  const x = range(0, POSITIONS).map(() => position(draws));
  const heads = range(0, numHeads).map(() => mixingHead(draws, width));
  const W_O = numbers(draws.matrix(FEATURES, FEATURES, [0, 0, 0, 1, -1, 2]));
  const bias = hasBias ? at(numbers([draws.row(FEATURES, [1, -1, 2, -2, 3])]), 0) : null;
  return solved(sheetOf(x, heads, W_O, true, bias));
}

function position(draws: Draws): Row {
  const sign = draws.choose([1, 1, -1]);
  const logs = draws.row(2, KEY_FACTORS);
  const values = draws.row(3, [-2, -1, 0, 1, 2, 3, 4, 5, 6]);
  const texts = logs.map((n) => (n > 1 ? `ln(${n})` : "0"));
  return [String(sign), ...texts, ...values.map(String)].map(num);
}

function mixingHead(draws: Draws, width: number): SheetHead {
  const feature = draws.between(1, 2);
  const sign = draws.choose([1, -1]);
  const column = (entry: (i: number) => number) =>
    numbers(range(0, FEATURES).map((i) => [entry(i)]));
  const values = numbers(draws.matrix(3, width, SMALL));
  return head(
    column((i) => (i === 0 ? 1 : 0)),
    column((i) => (i === feature ? sign : 0)),
    [...noughts(3, width), ...values],
  );
}
