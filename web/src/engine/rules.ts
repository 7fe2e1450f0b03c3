/** The rule behind each solved number: which other numbers it is made of, and how. */

import type { Num } from "../numbers/exact";
import { isHidden, type Solution, streamOf } from "./attention";
import { placeText } from "./places";
import { headDim, valueDim } from "./sheet";

/**
 * given: as in the worksheet. sum: products, added up. root: 1/sqrt(d). blocked: minus infinity. power: e
 * to a number. ratio: the first divided by the second. rectified: 0 where negative. softmax: e to the
 * first, divided by the sum of e to each.
 */
export type Kind =
  | "given"
  | "sum"
  | "root"
  | "blocked"
  | "power"
  | "ratio"
  | "rectified"
  | "softmax";

/** A number under its full name, as in `data-quantity`. */
export interface Part {
  readonly quantity: string;
  readonly value: Num;
}

/** How one number is made of others. */
export interface Recipe {
  readonly kind: Kind;
  /** Names of the factors of each term; every kind but `sum` has one factor a term. */
  readonly terms: readonly (readonly string[])[];
}

type Rule = (names: Names, index: number[]) => Recipe;

/** Names of numbers of one solution. */
class Names {
  constructor(readonly solution: Solution) {}

  of(field: string, ...index: number[]): string {
    const { sheet, sequence } = this.solution;
    return quantityText(sheet.name, sequence.name, field, index);
  }

  given(...keys: (string | number)[]): string {
    return `${this.solution.sheet.name}:${placeText(keys)}`;
  }
}

/** The name of a solved number: `river-and-cheque:river.output[9][0]`. */
export function quantityText(
  sheet: string,
  sequence: string,
  field: string,
  index: readonly number[],
): string {
  return `${sheet}:${sequence}.${field}${index.map((i) => `[${i}]`).join("")}`;
}

function sum(...terms: string[][]): Recipe {
  return { kind: "sum", terms };
}

function single(kind: Kind, ...names: string[]): Recipe {
  return { kind, terms: names.map((name) => [name]) };
}

function counted<T>(length: number, make: (i: number) => T): T[] {
  return Array.from({ length }, (_, i) => make(i));
}

function input(names: Names, [t = 0, i = 0]: number[]): Recipe {
  const { sheet, sequence } = names.solution;
  const key = sequence.tokenKeys?.[t];
  if (key === undefined) return sum([names.given("sequences", sequence.name, "X", t, i)]);
  const token = [names.given("token_embedding", key, i)];
  if (sheet.given.position_embedding === null) return sum(token);
  return sum(token, [names.given("position_embedding", t, i)]);
}

function projection(letter: "Q" | "K" | "V"): Rule {
  return (names, [h = 0, t = 0, i = 0]) => {
    const head = names.solution.sheet.given.heads[h];
    const terms = (head?.[`W_${letter}`] ?? []).map((_, j) => [
      names.of("x", t, j),
      names.given("heads", h, `W_${letter}`, j, i),
    ]);
    const bias = head?.[`b_${letter}`] ? [[names.given("heads", h, `b_${letter}`, i)]] : [];
    return sum(...terms, ...bias);
  };
}

function output(names: Names, [t = 0, i = 0]: number[]): Recipe {
  const { W_O, b_O } = names.solution.sheet.given;
  const terms = W_O.map((_, j) => [names.of("concat", t, j), names.given("W_O", j, i)]);
  return sum(...terms, ...(b_O ? [[names.given("b_O", i)]] : []));
}

function contribution(names: Names, [h = 0, t = 0, i = 0]: number[]): Recipe {
  const width = valueDim(names.solution.sheet);
  return sum(
    ...counted(width, (j) => [
      names.of("head_outputs", h, t, j),
      names.given("W_O", h * width + j, i),
    ]),
  );
}

function layer(part: "hidden" | "vocab"): Rule {
  return (names, [t = 0, i = 0]) => {
    const { sheet } = names.solution;
    const source = part === "hidden" ? streamOf(sheet) : "hidden";
    const { prediction } = sheet.given;
    const terms = (prediction?.[`W_${part}`] ?? []).map((_, j) => [
      names.of(source, t, j),
      names.given("prediction", `W_${part}`, j, i),
    ]);
    const bias = prediction?.[`b_${part}`] ? [[names.given("prediction", `b_${part}`, i)]] : [];
    return sum(...terms, ...bias);
  };
}

function probability(names: Names, [t = 0, word = 0]: number[]): Recipe {
  const others = names.solution.sheet.vocabulary.map((_, w) => w).filter((w) => w !== word);
  return single("softmax", ...[word, ...others].map((w) => names.of("logits", t, w)));
}

const RULES: Readonly<Record<string, Rule>> = {
  x: input,
  q: projection("Q"),
  k: projection("K"),
  v: projection("V"),
  dots: (names, [h = 0, t = 0, s = 0]) =>
    sum(
      ...counted(headDim(names.solution.sheet), (i) => [
        names.of("q", h, t, i),
        names.of("k", h, s, i),
      ]),
    ),
  scores: (names, index) => sum([names.of("dots", ...index), names.given("scale")]),
  masked_scores: (names, index) =>
    isHidden(names.solution.sheet, index[1] ?? 0, index[2] ?? 0)
      ? { kind: "blocked", terms: [] }
      : sum([names.of("scores", ...index)]),
  exp_scores: (names, index) => single("power", names.of("masked_scores", ...index)),
  exp_sum: (names, index) =>
    sum(...names.solution.tokens.map((_, s) => [names.of("exp_scores", ...index, s)])),
  attn_weights: (names, index) =>
    single("ratio", names.of("exp_scores", ...index), names.of("exp_sum", ...index.slice(0, 2))),
  weighted_values: (names, [h = 0, t = 0, s = 0, i = 0]) =>
    sum([names.of("attn_weights", h, t, s), names.of("v", h, s, i)]),
  head_outputs: (names, [h = 0, t = 0, i = 0]) =>
    sum(
      ...names.solution.tokens.map((_, s) => [
        names.of("attn_weights", h, t, s),
        names.of("v", h, s, i),
      ]),
    ),
  concat: (names, [t = 0, c = 0]) => {
    const width = valueDim(names.solution.sheet);
    return sum([names.of("head_outputs", Math.floor(c / width), t, c % width)]);
  },
  output,
  head_contributions: contribution,
  updated: (names, index) => sum([names.of("x", ...index)], [names.of("output", ...index)]),
  hidden_pre: layer("hidden"),
  hidden: (names, index) => single("rectified", names.of("hidden_pre", ...index)),
  logits: layer("vocab"),
  probabilities: probability,
};

/** Say how a solved number is made, before terms that are zero are left out. */
export function recipeOf(solution: Solution, field: string, index: number[]): Recipe {
  const rule = RULES[field];
  if (!rule) throw new Error(`no rule makes ${field}`);
  return rule(new Names(solution), index);
}
