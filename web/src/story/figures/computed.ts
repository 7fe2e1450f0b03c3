/**
 * Numbers that the story works out itself, each under a name that any other program can work out
 * again: plain arithmetic on given numbers, on shapes, and on answers of the engine.
 */

import type { Quantity } from "../../engine/types";

type Rule = (...indices: number[]) => number;

/** Two sources of two numbers each, and the weights that each coordinate asks for. */
const VALUES = [
  [10, 1],
  [2, 8],
];
const WEIGHTS = [
  [0.8, 0.2],
  [0.2, 0.8],
];

/** The study's block, as its plans have it; and the layer of the worksheet. */
const STUDY = { width: 64, context: 64 };
/** Units of the hidden layer in all three models of the study. */
const HIDDEN = 256;
const LAYER = { width: 4, context: 10 };
const FLOAT32_BYTES = 4;
/** An image of 8 x 8 pixels in patches of 4 x 4, each turned into a row as wide as the worksheet's. */
const IMAGE = { side: 8, patch: 4, width: 4, heads: 2 };
/** Cross-attention: receivers of one sentence, sources of another. */
const CROSS = { receivers: 3, sources: 5 };
/** An image with three colours, as the first patches of a vision transformer have it. */
const RGB = { side: 32, patch: 8, channels: 3 };
/** The CLS row after attention, and the weights of three classes, chosen by hand. */
const CLS = [2, 0, 1, -1];
const CLASSES = [
  [1, 0, 0],
  [0, 1, 0],
  [0.5, 0, 1],
  [0, 1, 0.5],
];
/** Words that the model of the generation figure sees. */
const WINDOW = 6;
const PATCHES = (IMAGE.side / IMAGE.patch) ** 2;

function entry(table: number[][], row: number, column: number): number {
  const value = table[row]?.[column];
  if (value === undefined) throw new Error(`no number [${row}][${column}]`);
  return value;
}

/** The sum over sources of weight times value, with the weights of one head. */
function message(head: number, coordinate: number): number {
  return VALUES.reduce(
    (sum, _, source) => sum + entry(WEIGHTS, head, source) * entry(VALUES, source, coordinate),
    0,
  );
}

function classScore(at: number): number {
  return CLS.reduce((sum, x, i) => sum + x * entry(CLASSES, i, at), 0);
}

function classShare(at: number): number {
  const all = [0, 1, 2].map((other) => Math.exp(classScore(other)));
  return Math.exp(classScore(at)) / all.reduce((sum, one) => sum + one, 0);
}

const RULES: Record<string, Rule> = {
  "two-source:values": (source, i) => entry(VALUES, source, i),
  "two-source:weights": (head, source) => entry(WEIGHTS, head, source),
  /** The message of one head alone, with weights of that head for both coordinates. */
  "two-source:one-head": (head, i) => message(head, i),
  /** Head i gives coordinate i. */
  "two-source:message": (i) => message(i, i),
  "layer:weights": () => 4 * LAYER.width ** 2,
  "layer:biases": () => 4 * LAYER.width,
  "layer:parameters": () => 4 * LAYER.width ** 2 + 4 * LAYER.width,
  "layer:in-proj-weight": () => 3 * LAYER.width ** 2,
  "layer:in-proj-bias": () => 3 * LAYER.width,
  "layer:out-proj-weight": () => LAYER.width ** 2,
  "layer:out-proj-bias": () => LAYER.width,
  "layer:scores": (heads) => heads * LAYER.context ** 2,
  "mask:allowed": () => (LAYER.context * (LAYER.context + 1)) / 2,
  "mask:blocked": () => (LAYER.context * (LAYER.context - 1)) / 2,
  "accounting:width": () => STUDY.width,
  "accounting:context": () => STUDY.context,
  "accounting:head-width": (heads) => STUDY.width / heads,
  "accounting:parameters": () => 4 * STUDY.width ** 2,
  "accounting:scores": (heads) => heads * STUDY.context ** 2,
  "accounting:bytes": (heads) => heads * STUDY.context ** 2 * FLOAT32_BYTES,
  "patches:pixels": () => IMAGE.side ** 2,
  "patches:count": () => PATCHES,
  "patches:numbers": () => IMAGE.patch ** 2,
  "patches:rows": () => PATCHES + 1,
  "patches:width": () => IMAGE.width,
  "patches:embedding": () => IMAGE.patch ** 2 * IMAGE.width,
  "one:row": () => 1,
  "choices:probability": (count) => 1 / count,
  "choices:loss": (count) => Math.log(count),
  "choices:perplexity": (count) => Math.exp(Math.log(count)),
  "rgb:side": () => RGB.side,
  "rgb:patch": () => RGB.patch,
  "rgb:channels": () => RGB.channels,
  "rgb:numbers": () => RGB.patch ** 2 * RGB.channels,
  "rgb:count": () => (RGB.side / RGB.patch) ** 2,
  "rgb:rows": () => (RGB.side / RGB.patch) ** 2 + 1,
  "rgb:total": () => RGB.side ** 2 * RGB.channels,
  "classifier:row": (i) => CLS[i] ?? Number.NaN,
  "classifier:weights": (i, at) => entry(CLASSES, i, at),
  "classifier:scores": (at) => classScore(at),
  "classifier:shares": (at) => classShare(at),
  "window:size": () => WINDOW,
  "model:inputs": () => STUDY.context * STUDY.width,
  "model:hidden": () => HIDDEN,
  "model:mlp-weights": () => STUDY.context * STUDY.width * HIDDEN,
  "model:hidden-weights": () => STUDY.width * HIDDEN,
  "cross:receivers": () => CROSS.receivers,
  "cross:sources": () => CROSS.sources,
  "cross:scores": () => CROSS.receivers * CROSS.sources,
  "patches:scores": () => IMAGE.heads * (PATCHES + 1) ** 2,
};

const FORM = /^([a-z-]+:[a-z-]+)((?:\[\d+\])*)$/;

/** The number of that name, or null where the name is none of these. */
export function computedNumber(name: string): Quantity | null {
  const [, base = "", index = ""] = FORM.exec(name) ?? [];
  const rule = RULES[base];
  if (!rule) return null;
  const indices = [...index.matchAll(/\d+/g)].map(([digits]) => Number(digits));
  const value = rule(...indices);
  if (!Number.isFinite(value)) throw new Error(`no number is named ${name}`);
  return { name, value, exact: Number.isInteger(value) ? String(value) : null };
}
