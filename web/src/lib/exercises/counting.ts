/** Kinds `parameter-count` and `byte-count`: what a layer stores, what scores and cache take. */

import type { Row } from "../../engine/sheet";
import type { Draws } from "./drawing";
import { type Draft, facts, type Misconception, slip, whole } from "./form";

interface Layer {
  readonly dim: number;
  readonly heads: number;
  readonly groups: number;
  readonly width: number;
}

/** H and G. */
const HEADS = [
  [3, 1],
  [4, 2],
  [6, 2],
  [6, 3],
  [4, 1],
  [8, 2],
] as const;
const WIDTHS = [3, 4, 5, 7, 9, 10];

/** Numbers stored by each part of a layer. */
interface Parts {
  /** W_Q, W_K and W_V of all heads. */
  readonly inputs: number;
  readonly inputBiases: number;
  readonly output: number;
  readonly outputBias: number;
}

function storedParts({ dim, heads, groups, width }: Layer): Parts {
  const rows = (heads + 2 * groups) * width;
  return {
    inputs: rows * dim,
    inputBiases: rows,
    output: heads * width * dim,
    outputBias: dim,
  };
}

function everything({ inputs, inputBiases, output, outputBias }: Parts): number {
  return inputs + inputBiases + output + outputBias;
}

/** The weights of the input projections, and everything. */
function askedOf(parts: Parts): Row {
  return whole(parts.inputs, everything(parts));
}

export function drawParameterCount(draws: Draws): Draft | null {
  const [heads, groups] = draws.choose(HEADS);
  const width = draws.choose(WIDTHS);
  const dim = 2 * draws.between(8, 30);
  if (dim === heads * width) return null;
  const layer = { dim, heads, groups, width };
  const parts = storedParts(layer);
  return {
    prompt:
      `${heads} query heads share ${groups} key/value head${groups > 1 ? "s" : ""}; each is ` +
      `${width} wide, for queries, keys and values. All four projections have biases. How many ` +
      "numbers do W_Q, W_K and W_V hold together, and how many does the whole layer hold?",
    given: [
      facts({
        "model width": dim,
        "query heads": heads,
        "key/value heads": groups,
        "head width": width,
      }),
    ],
    asks: ["W_Q, W_K and W_V", "whole layer"],
    answer: askedOf(parts),
    misconceptions: miscounted(layer, parts),
    working: countingOf(layer, parts),
  };
}

function countingOf({ dim, heads, groups, width }: Layer, parts: Parts): string[] {
  const [wide, narrow] = [heads * width, groups * width];
  return [
    `widths: queries ${wide}, keys ${narrow}, values ${narrow}, together ${wide + 2 * narrow}`,
    `times the model width ${dim}: ${parts.inputs}`,
    `their biases: ${parts.inputBiases}`,
    `W_O: ${wide} times ${dim} = ${parts.output}, b_O ${parts.outputBias}`,
    `together: ${everything(parts)}`,
  ];
}

function miscounted(layer: Layer, parts: Parts): Misconception[] {
  const { dim, heads, groups, width } = layer;
  const wide = heads * width;
  const wrong = (name: string, other: Parts, says: string) =>
    slip(name, askedOf(other), `That is what you get when ${says}`);
  const found = [
    wrong(
      "counted-one-head",
      { ...parts, inputs: 3 * dim * width, inputBiases: 3 * width },
      `the input projections are counted for one head of ${heads}.`,
    ),
    wrong(
      "full-key-value-heads",
      storedParts({ ...layer, groups: heads }),
      `keys and values are counted for ${heads} heads; they have ${groups}.`,
    ),
    wrong(
      "counted-queries-only",
      { ...parts, inputs: wide * dim, inputBiases: wide },
      "W_Q alone is counted, without W_K and W_V.",
    ),
    wrong("forgot-biases", { ...parts, inputBiases: 0, outputBias: 0 }, "the biases are left out."),
    wrong(
      "forgot-output",
      { ...parts, output: 0, outputBias: 0 },
      "W_O and b_O are left out of the whole layer.",
    ),
    wrong(
      "square-output",
      { ...parts, output: dim * dim },
      `W_O is taken to be ${dim} by ${dim}; the joined heads are ${wide} wide.`,
    ),
    wrong(
      "model-wide-heads",
      storedParts({ ...layer, width: dim }),
      `every head is taken to be ${dim} wide, like the model; each is ${width} wide.`,
    ),
  ];
  if (dim % heads !== 0) return found;
  const divided = storedParts({ ...layer, width: dim / heads });
  const says = `a head is taken to be ${dim}/${heads} wide; it is ${width} wide, as given.`;
  return [...found, wrong("divided-width", divided, says)];
}

/** What decides how many bytes scores and a cache take. */
interface Run {
  readonly batch: number;
  readonly layers: number;
  readonly heads: number;
  readonly groups: number;
  readonly width: number;
  readonly length: number;
  /** Bytes of one number. */
  readonly item: number;
}

/** Bytes of one layer's scores, (B, H, T, T), and of all layers' keys and values. */
function bytesOf({ batch, layers, heads, groups, width, length, item }: Run): [number, number] {
  return [batch * heads * length ** 2 * item, 2 * layers * batch * groups * length * width * item];
}

export function drawByteCount(draws: Draws): Draft {
  const layers = draws.choose([3, 5, 7]);
  const [heads, groups] = draws.choose([
    [8, 2],
    [6, 2],
    [8, 4],
  ] as const);
  const width = draws.choose([16, 24, 32]);
  const batch = draws.choose([2, 3]);
  const length = draws.choose([20, 50, 100]);
  const [kind, item] = draws.choose([
    ["float16", 2],
    ["float32", 4],
  ] as const);
  const run: Run = { batch, layers, heads, groups, width, length, item };
  const [scores, cache] = bytesOf(run);
  return {
    prompt:
      `A batch of sequences goes through ${layers} layers in ${kind} (${item} bytes a number). ` +
      "How many bytes do the scores of one layer take, all heads, and how many does the cache " +
      "of keys and values take, all layers?",
    given: [
      facts({
        batch,
        layers,
        "query heads": heads,
        "key/value heads": groups,
        "head width": width,
        positions: length,
        "bytes a number": item,
      }),
    ],
    asks: ["bytes of scores", "bytes of the cache"],
    answer: whole(scores, cache),
    misconceptions: mismeasured(run),
    working: [
      `scores: ${batch} * ${heads} * ${length} * ${length} * ${item} = ${scores}`,
      `cache: 2 * ${layers} * ${batch} * ${groups} * ${length} * ${width} * ${item} = ${cache}`,
    ],
  };
}

function mismeasured(run: Run): Misconception[] {
  const [scores, cache] = bytesOf(run);
  const wrong = (name: string, values: readonly [number, number], says: string) =>
    slip(name, whole(...values), `That is what you get when ${says}`);
  return [
    wrong(
      "counted-one-head",
      bytesOf({ ...run, heads: 1, groups: 1 }),
      "one head is counted; there is a table for each.",
    ),
    wrong(
      "forgot-batch",
      bytesOf({ ...run, batch: 1 }),
      `one sequence is counted; the batch has ${run.batch}.`,
    ),
    wrong(
      "counted-numbers",
      bytesOf({ ...run, item: 1 }),
      `numbers are counted; each takes ${run.item} bytes.`,
    ),
    wrong(
      "cache-for-every-query-head",
      [scores, bytesOf({ ...run, groups: run.heads })[1]],
      `all ${run.heads} heads have keys and values of their own; ${run.groups} do.`,
    ),
    wrong("forgot-values", [scores, cache / 2], "keys alone are cached; values are too."),
    wrong("one-layer-cached", [scores, cache / run.layers], "one layer's cache is counted."),
    wrong(
      "row-for-table",
      [scores / run.length, cache],
      `each query has one score; it has one with each of ${run.length} sources.`,
    ),
  ];
}
