/** Where the story's figures get their numbers: the page's engine, and sums of its answers. */

import {
  editSheet,
  givenNumber,
  isError,
  type Num,
  type Sheet,
  type Solution,
  type SolveOptions,
  sheetFromData,
  solve,
} from "../../engine/attention";
import type { Quantity } from "../../engine/types";
import { catalog } from "../../engine/types";
import { computedNumber } from "./computed";
import { isStudyName, studyNumber } from "./study";
import { trainingNumber } from "./training";

const SOLVED = /^([a-z0-9-]+):([a-z0-9-]+)(?:\?([a-z0-9-]+))?\.([A-Za-z_]+)((?:\[\d+\])*)$/;
const SHAPE = /^shape:([a-z0-9-]+):([a-z0-9-]+)\.([A-Za-z_]+)\[(\d)\]$/;
const GIVEN = /^([a-z0-9-]+):([A-Za-z_]+(?:\.[A-Za-z0-9_]+)*(?:\[\d+\])*)$/;

interface Variant extends SolveOptions {
  /** Given numbers that are replaced, by place. */
  edits?: Readonly<Record<string, string>>;
}

/** What a name such as `river-and-cheque:river?wide.output[9][0]` changes before solving. */
const VARIANTS: Record<string, Variant> = {
  "": {},
  wide: { wide: true },
  "without-head-1": { headsOff: [0] },
  "without-head-2": { headsOff: [1] },
  /** The row of the last token gets much water. */
  "last-changed": { edits: { "position_embedding[9][0]": "3" } },
};

const sheets = new Map(catalog.worksheets.map((data) => [data.name, sheetFromData(data)]));
const solved = new Map<string, Answers>();

function quantity(name: string, { value, exact }: Num): Quantity {
  return { name, value: Number.isFinite(value) ? value : null, exact: exact?.text() ?? null };
}

function indexText(index: number[]): string {
  return index.map((i) => `[${i}]`).join("");
}

/** Answers of one sentence, and sums of them that the figures show beside them. */
export class Answers {
  constructor(
    readonly worksheet: string,
    /** The sequence, with the change that was made to the worksheet: `river?wide`. */
    readonly label: string,
    readonly solution: Solution,
  ) {}

  get tokens(): readonly string[] {
    return this.solution.tokens;
  }

  get last(): number {
    return this.tokens.length - 1;
  }

  get features(): readonly string[] {
    return this.solution.sheet.features;
  }

  /** `6 river`, as axes name a source. */
  get names(): string[] {
    return this.tokens.map((token, at) => `${at + 1} ${token}`);
  }

  at(field: string, ...index: number[]): Quantity {
    const name = `${this.worksheet}:${this.label}.${field}${indexText(index)}`;
    const sum = SUMS[field];
    if (sum)
      return { name, value: sum((of, ...at) => this.value(of, ...at), this, index), exact: null };
    return quantity(name, this.solution.get(field, ...index));
  }

  row(field: string, ...index: number[]): Quantity[] {
    const { length } = this.solution.row(field, ...index);
    return Array.from({ length }, (_, i) => this.at(field, ...index, i));
  }

  matrix(field: string, ...index: number[]): Quantity[][] {
    const length = this.solution.shape(field)[index.length] ?? 0;
    return Array.from({ length }, (_, i) => this.row(field, ...index, i));
  }

  given(place: string): Quantity {
    const found = givenNumber(this.solution.sheet, place);
    if (isError(found)) throw new Error(found.error);
    return quantity(`${this.worksheet}:${place}`, found);
  }

  /** A given matrix of so many rows and columns. */
  givenMatrix(place: string, rows: number, columns: number): Quantity[][] {
    return Array.from({ length: rows }, (_, i) =>
      Array.from({ length: columns }, (_, j) => this.given(`${place}[${i}][${j}]`)),
    );
  }

  private value(field: string, ...index: number[]): number {
    return this.solution.get(field, ...index).value;
  }
}

type Value = (field: string, ...index: number[]) => number;
type SumRule = (value: Value, answers: Answers, index: number[]) => number;

function total(count: number, term: (at: number) => number): number {
  return Array.from({ length: count }, (_, at) => term(at)).reduce((sum, part) => sum + part, 0);
}

/** Plain sums of answers, each under a name of its own, so that they can be checked like answers. */
const SUMS: Record<string, SumRule> = {
  /** [head][receiver][source][i]: one product of the dot product. */
  query_key_products: (value, _, [h = 0, t = 0, s = 0, i = 0]) =>
    value("q", h, t, i) * value("k", h, s, i),
  /** [head][receiver][source][i]: weighted values up to and with that source. */
  running_message: (value, _, [h = 0, t = 0, s = 0, i = 0]) =>
    total(s + 1, (at) => value("weighted_values", h, t, at, i)),
  /** [head][receiver]: all weights of one receiver. */
  weight_sum: (value, { tokens }, [h = 0, t = 0]) =>
    total(tokens.length, (s) => value("attn_weights", h, t, s)),
  /** [head][source]: all weights that one source gets. */
  column_sum: (value, { tokens }, [h = 0, s = 0]) =>
    total(tokens.length, (t) => value("attn_weights", h, t, s)),
  /** [receiver][i]: the mean over heads of their messages. */
  head_average: (value, { solution }, [t = 0, i = 0]) => {
    const heads = solution.shape("head_outputs")[0] ?? 1;
    return total(heads, (h) => value("head_outputs", h, t, i)) / heads;
  },
  /** [head][source][i]: the value before its bias is added. */
  value_without_bias: (value, { solution }, [h = 0, s = 0, i = 0]) =>
    value("v", h, s, i) - givenValue(solution.sheet, `heads[${h}].b_V[${i}]`),
  /** [head][receiver][source]: scores after the largest of them is subtracted. */
  shifted_scores: (value, answers, [h = 0, t = 0, s = 0]) =>
    value("scores", h, t, s) - largestScore(value, answers, h, t),
  shifted_exp: (value, answers, index) =>
    Math.exp(SUMS.shifted_scores?.(value, answers, index) ?? 0),
  shifted_exp_sum: (value, answers, [h = 0, t = 0]) =>
    total(t + 1, (s) => SUMS.shifted_exp?.(value, answers, [h, t, s]) ?? 0),
  shifted_weights: (value, answers, [h = 0, t = 0, s = 0]) =>
    (SUMS.shifted_exp?.(value, answers, [h, t, s]) ?? 0) /
    (SUMS.shifted_exp_sum?.(value, answers, [h, t]) ?? 1),
  /** [receiver]: how far the joined row, or the output, is from its value in the given sentence. */
  concat_moved: (value, answers, [t = 0]) => moved("concat", value, answers, t),
  output_moved: (value, answers, [t = 0]) => moved("output", value, answers, t),
  /** [receiver][feature]: the output with its first half put to zero, which removes no head. */
  output_cut: (value, { features }, [t = 0, i = 0]) =>
    i < features.length / 2 ? 0 : value("output", t, i),
};

function givenValue(sheet: Sheet, place: string): number {
  const found = givenNumber(sheet, place);
  if (isError(found)) throw new Error(found.error);
  return found.value;
}

/** The largest score that a receiver of a causal sentence has. */
function largestScore(value: Value, _: Answers, head: number, receiver: number): number {
  return Math.max(
    ...Array.from({ length: receiver + 1 }, (_, s) => value("scores", head, receiver, s)),
  );
}

/** The largest change of one row of `field` against the sentence without its variant. */
function moved(field: string, value: Value, own: Answers, receiver: number): number {
  const before = answers(own.worksheet, own.label.replace(/\?.*$/, ""));
  const changes = before
    .row(field, receiver)
    .map(({ value: was }, i) => Math.abs(value(field, receiver, i) - (was ?? 0)));
  return Math.max(...changes);
}

function editedSheet(sheet: Sheet, edits: Readonly<Record<string, string>>): Sheet {
  return Object.entries(edits).reduce((given, [place, text]) => {
    const next = editSheet(given, place, text);
    if (isError(next)) throw new Error(next.error);
    return next;
  }, sheet);
}

export function answers(worksheet: string, sequence: string, variant = ""): Answers {
  const label = variant === "" ? sequence : `${sequence}?${variant}`;
  const known = solved.get(`${worksheet}:${label}`);
  if (known) return known;
  const sheet = sheets.get(worksheet);
  const options = VARIANTS[variant];
  if (!sheet?.sequences.some(({ name }) => name === sequence) || !options) {
    throw new Error(`${worksheet}:${label} is not a sentence of a worksheet`);
  }
  const given = editedSheet(sheet, options.edits ?? {});
  const made = new Answers(worksheet, label, solve(given, sequence, options));
  solved.set(`${worksheet}:${label}`, made);
  return made;
}

/** A sentence of the worksheet that the story works through. */
export const bank = (sequence: string, variant = "") =>
  answers("river-and-cheque", sequence, variant);

/** A number in the text: null where it is one of a study that this page was built without. */
export function numberInText(name: string): Quantity | null {
  return isStudyName(name) ? studyNumber(name) : numberNamed(name);
}

/** Any number of the story by its name; throws where there is none. */
export function numberNamed(name: string): Quantity {
  return (
    computedNumber(name) ??
    trainingNumber(name, bank("river")) ??
    shapeNumber(name) ??
    solvedNumber(name) ??
    givenNamed(name)
  );
}

function shapeNumber(name: string): Quantity | null {
  const found = SHAPE.exec(name);
  if (!found) return null;
  const [, worksheet = "", sequence = "", field = "", axis = ""] = found;
  const value = answers(worksheet, sequence).solution.shape(field)[Number(axis)];
  if (value === undefined) throw new Error(`no number is named ${name}`);
  return { name, value, exact: String(value) };
}

function solvedNumber(name: string): Quantity | null {
  const found = SOLVED.exec(name);
  const [, worksheet = "", sequence = "", variant, field = "", index = ""] = found ?? [];
  const isSequence = sheets.get(worksheet)?.sequences.some(({ name: own }) => own === sequence);
  if (!isSequence) return null;
  const indices = [...index.matchAll(/\d+/g)].map(([digits]) => Number(digits));
  return answers(worksheet, sequence, variant).at(field, ...indices);
}

function givenNamed(name: string): Quantity {
  const [, worksheet = "", place = ""] = GIVEN.exec(name) ?? [];
  const sequence = sheets.get(worksheet)?.sequences[0]?.name;
  if (!sequence) throw new Error(`no number is named ${name}`);
  return answers(worksheet, sequence).given(place);
}
