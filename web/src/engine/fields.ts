/**
 * The numbers of a solution by name: their axes, what they mean, and the rule that makes them.
 *
 * Axes: H heads, T receivers, S sources, D features, O outputs, d and v the widths of queries and values,
 * C joined width, J hidden units, V words. Every index counts from 0.
 */

import type { Key } from "./places";
import { headDim, type Sheet, sequenceOf, valueDim } from "./sheet";

export interface Field {
  readonly name: string;
  /** One letter an index, in order. */
  readonly axes: string;
  readonly title: string;
  readonly rule: string;
}

function field(name: string, axes: string, title: string, rule: string): Field {
  return { name, axes, title, rule };
}

export const ATTENTION_FIELDS: readonly Field[] = [
  field("x", "TD", "input", "x = token row + position row, or X as given"),
  field("q", "HTd", "query", "q = x W_Q + b_Q"),
  field("k", "HSd", "key", "k = x W_K + b_K"),
  field("v", "HSv", "value", "v = x W_V + b_V"),
  field("dots", "HTS", "dot product", "dot = sum of q times k"),
  field("scores", "HTS", "score", "score = dot times scale"),
  field("masked_scores", "HTS", "masked score", "score, or -infinity for a later source"),
  field("exp_scores", "HTS", "exponential", "e to the power of the masked score"),
  field("exp_sum", "HT", "sum of exponentials", "sum of exponentials over the sources"),
  field("attn_weights", "HTS", "weight", "weight = exponential / sum of exponentials"),
  field("weighted_values", "HTSv", "weighted value", "weight times value"),
  field("head_outputs", "HTv", "head output", "sum over the sources of weight times value"),
  field("concat", "TC", "concatenated heads", "head outputs, in the order of the heads"),
  field("output", "TO", "output", "output = concat W_O + b_O"),
  field("head_contributions", "HTO", "contribution", "head output times the head's rows of W_O"),
];

export const UPDATED_FIELDS: readonly Field[] = [
  field("updated", "TD", "updated row", "updated = x + output"),
];

export const PREDICTION_FIELDS: readonly Field[] = [
  field("hidden_pre", "TJ", "hidden sum", "hidden sum = row W_hidden + b_hidden"),
  field("hidden", "TJ", "hidden unit", "hidden = hidden sum, or 0 where that is negative"),
  field("logits", "TV", "logit", "logit = hidden W_vocab + b_vocab"),
  field("probabilities", "TV", "probability", "softmax of the logits over the words"),
];

/** The fields that a worksheet has, in the order of the sum. */
export function fieldsOf(sheet: Sheet): readonly Field[] {
  return [
    ...ATTENTION_FIELDS,
    ...(sheet.hasResidual ? UPDATED_FIELDS : []),
    ...(sheet.given.prediction ? PREDICTION_FIELDS : []),
  ];
}

export const AXES: Readonly<Record<string, string>> = {
  H: "head",
  T: "receiver",
  S: "source",
  D: "feature",
  O: "coordinate",
  d: "column",
  v: "column",
  C: "concat column",
  J: "hidden unit",
  V: "word",
};

/** How long an axis is. */
export function axisSize(sheet: Sheet, sequence: string, axis: string): number {
  const positions = sequenceOf(sheet, sequence).tokens.length;
  const { heads, prediction } = sheet.given;
  const sizes: Record<string, number> = {
    H: heads.length,
    T: positions,
    S: positions,
    D: heads[0]?.W_Q.length ?? 0,
    O: heads[0]?.W_Q.length ?? 0,
    d: headDim(sheet),
    v: valueDim(sheet),
    C: heads.length * valueDim(sheet),
    J: prediction?.W_hidden[0]?.length ?? 0,
    V: sheet.vocabulary.length,
  };
  return sizes[axis] ?? 0;
}

/** Say what a solved number is, counting from 1: weight of head 1 (setting), receiver 10 (the), ... */
export function labelOf(sheet: Sheet, sequence: string, field: Field, index: number[]): string {
  const { tokens } = sequenceOf(sheet, sequence);
  const named: Record<string, readonly string[]> = {
    H: sheet.given.heads.map(({ label }) => label),
    T: tokens,
    S: tokens,
    D: sheet.features,
    ...(sheet.hasResidual ? { O: sheet.features } : {}),
    V: sheet.vocabulary,
  };
  const parts = [...field.axes].map((axis, at) => {
    const i = index[at] ?? 0;
    const isFeature = axis === "O" && sheet.hasResidual;
    const plain = `${AXES[isFeature ? "D" : axis]} ${i + 1}`;
    const label = named[axis]?.[i] ?? plain;
    return [plain, String(i + 1)].includes(label.toLowerCase()) ? plain : `${plain} (${label})`;
  });
  return `${field.title} of ${parts.join(", ")}`;
}

type Label = (sheet: Sheet, index: number[], name: string) => string;

function feature(sheet: Sheet, at = 0): string {
  const name = sheet.features[at] ?? "";
  return /^\d*$/.test(name) ? `feature ${at + 1}` : name;
}

function output(sheet: Sheet, at = 0): string {
  return sheet.hasResidual ? feature(sheet, at) : one("output", at);
}

function one(what: string, at = 0): string {
  return `${what} ${at + 1}`;
}

function word(sheet: Sheet, at = 0): string {
  return `\u201c${sheet.vocabulary[at] ?? at + 1}\u201d`;
}

const PREDICTION: Readonly<Record<string, Label>> = {
  W_hidden: (sheet, [j, u]) => `W_hidden, ${output(sheet, j)}, ${one("unit", u)}`,
  b_hidden: (_, [u]) => `b_hidden, ${one("unit", u)}`,
  W_vocab: (sheet, [u, w]) => `W_vocab, ${one("unit", u)}, word ${word(sheet, w)}`,
  b_vocab: (sheet, [w]) => `b_vocab, word ${word(sheet, w)}`,
};

const PLAIN: Readonly<Record<string, Label>> = {
  scale: () => "scale",
  W_O: (sheet, [j, i]) => `W_O, ${one("row", j)}, ${output(sheet, i)}`,
  b_O: (sheet, [i]) => `b_O, ${output(sheet, i)}`,
  token_embedding: (sheet, [i], name) => `token row of \u201c${name}\u201d, ${feature(sheet, i)}`,
  position_embedding: (sheet, [t, i]) => `position row ${(t ?? 0) + 1}, ${feature(sheet, i)}`,
  sequences: (sheet, [t, i]) => `${one("row", t)} of X, ${feature(sheet, i)}`,
};

function headLabel(sheet: Sheet, name: string, index: number[]): string {
  const [head = 0, ...rest] = index;
  const column = one("column", rest.at(-1));
  const row = rest.length > 1 ? `${feature(sheet, rest[0])}, ` : "";
  return `${name} of head ${head + 1}, ${row}${column}`;
}

/** What a given number is, from the steps of its place. */
export function placeLabel(sheet: Sheet, keys: readonly Key[]): string {
  const [first = "", second = ""] = keys;
  const index = keys.filter((key) => typeof key === "number");
  if (first === "heads") return headLabel(sheet, String(keys[2]), index);
  const label = first === "prediction" ? PREDICTION[second] : PLAIN[first];
  return label?.(sheet, index, String(second)) ?? keys.join(" ");
}
