/** A worksheet as the engine takes it: everything given, as numbers; and edits of single numbers. */

import { isPositive, reciprocal, squareRoot } from "../numbers/arithmetic";
import type { Num } from "../numbers/exact";
import { isError, type NumberError, parseNumber, plainText, quoted } from "../numbers/parse";
import { type Key, placeKeys, placeText } from "./places";
import type * as page from "./types";

export type Row = readonly Num[];
export type Matrix = readonly Row[];

export interface SheetHead {
  readonly label: string;
  readonly W_Q: Matrix;
  readonly W_K: Matrix;
  readonly W_V: Matrix;
  readonly b_Q: Row | null;
  readonly b_K: Row | null;
  readonly b_V: Row | null;
}

export interface SheetPrediction {
  readonly W_hidden: Matrix;
  readonly b_hidden: Row | null;
  readonly W_vocab: Matrix;
  readonly b_vocab: Row | null;
}

/** Given numbers under the names of the worksheet file, so that a place leads to its number. */
export interface Given {
  /** What each q·k is multiplied by; null for 1/sqrt(head width). */
  readonly scale: Num | null;
  readonly heads: readonly SheetHead[];
  readonly W_O: Matrix;
  readonly b_O: Row | null;
  readonly prediction: SheetPrediction | null;
  readonly token_embedding: Readonly<Record<string, Row>> | null;
  readonly position_embedding: Matrix | null;
  /** Rows given whole; a sequence whose rows come from the embeddings is absent. */
  readonly sequences: Readonly<Record<string, { readonly X: Matrix }>>;
}

export interface SheetSequence {
  readonly name: string;
  readonly tokens: readonly string[];
  /** The row of `token_embedding` that each token takes; null where X is given. */
  readonly tokenKeys: readonly string[] | null;
  readonly target: string | null;
  readonly candidates: readonly string[];
}

export interface Sheet {
  readonly name: string;
  readonly title: string;
  readonly features: readonly string[];
  readonly isCausal: boolean;
  readonly hasResidual: boolean;
  readonly vocabulary: readonly string[];
  readonly sequences: readonly SheetSequence[];
  /** Whether it is written, and so read, in decimals such as 0.25. */
  readonly isDecimal: boolean;
  readonly given: Given;
}

/**
 * What each column of the output is called: the feature that the residual sum adds it to, else a
 * number of its own, since the output's coordinates are then none of the input's.
 */
export function outputNames(sheet: Sheet): readonly string[] {
  return sheet.hasResidual ? sheet.features : sheet.features.map((_, at) => `output ${at + 1}`);
}

export function headDim(sheet: Sheet): number {
  return sheet.given.heads[0]?.W_Q[0]?.length ?? 0;
}

/** The width of a head's values. */
export function valueDim(sheet: Sheet): number {
  return sheet.given.heads[0]?.W_V[0]?.length ?? 0;
}

/** What each q·k is multiplied by: as given, else 1/sqrt(head width). */
export function scaleOf(sheet: Sheet): Num {
  return sheet.given.scale ?? rootScale(headDim(sheet));
}

function rootScale(width: number): Num {
  return reciprocal(squareRoot({ num: width, den: 1 }));
}

/** A sequence by name, else the first. */
export function sequenceOf(sheet: Sheet, name: string): SheetSequence {
  const found = sheet.sequences.find((sequence) => sequence.name === name) ?? sheet.sequences[0];
  if (!found) throw new Error(`${sheet.name} has no sequence`);
  return found;
}

type Tree<T> = page.Nested<T>;

function numberOf(value: number | null, exact: string | null): Num {
  if (value === null) return { value: Number.NEGATIVE_INFINITY, low: 0, exact: null };
  if (exact === null) return { value, low: 0, exact: null };
  const read = parseNumber(exact);
  if (isError(read)) throw new Error(read.error);
  return read;
}

function numbersOf(values: Tree<number | null>, exact: Tree<string | null>): Tree<Num> {
  if (!Array.isArray(values)) return numberOf(values, exact as string | null);
  return values.map((value, i) => numbersOf(value, (exact as Tree<string | null>[])[i] ?? null));
}

function row(numbers: page.Numbers): Row {
  return numbersOf(numbers.values, numbers.exact) as Num[];
}

function matrix(numbers: page.Numbers): Matrix {
  return numbersOf(numbers.values, numbers.exact) as Num[][];
}

function optional<T>(numbers: page.Numbers | null, read: (numbers: page.Numbers) => T): T | null {
  return numbers === null ? null : read(numbers);
}

function headOf(head: page.Head): SheetHead {
  return {
    label: head.label,
    W_Q: matrix(head.W_Q),
    W_K: matrix(head.W_K),
    W_V: matrix(head.W_V),
    b_Q: optional(head.b_Q, row),
    b_K: optional(head.b_K, row),
    b_V: optional(head.b_V, row),
  };
}

function predictionOf(prediction: page.Prediction): SheetPrediction {
  return {
    W_hidden: matrix(prediction.W_hidden),
    b_hidden: optional(prediction.b_hidden, row),
    W_vocab: matrix(prediction.W_vocab),
    b_vocab: optional(prediction.b_vocab, row),
  };
}

function sequenceFrom(sequence: page.Sequence): SheetSequence {
  const { name, tokens, token_keys: tokenKeys, target, candidates } = sequence;
  return { name, tokens, tokenKeys, target, candidates };
}

function embeddingOf(rows: Record<string, page.Numbers>): Record<string, Row> {
  return Object.fromEntries(Object.entries(rows).map(([token, numbers]) => [token, row(numbers)]));
}

/** X of every sequence that gives its rows whole. */
function givenRows(sequences: page.Sequence[]): Given["sequences"] {
  return Object.fromEntries(
    sequences.flatMap(({ name, X }) => (X ? [[name, { X: matrix(X) }]] : [])),
  );
}

/** The scale where it is another than 1/sqrt(head width). */
function ownScale(data: page.Worksheet, width: number): Num | null {
  const scale = numberOf(data.scale.values as number, data.scale.exact as string | null);
  return scale.value === rootScale(width).value ? null : scale;
}

/** The engine's worksheet from the one that Python exported. */
export function sheetFromData(data: page.Worksheet): Sheet {
  const heads = data.heads.map(headOf);
  const given: Given = {
    scale: ownScale(data, heads[0]?.W_Q[0]?.length ?? 1),
    heads,
    W_O: matrix(data.W_O),
    b_O: optional(data.b_O, row),
    prediction: data.prediction && predictionOf(data.prediction),
    token_embedding: data.token_embedding && embeddingOf(data.token_embedding),
    position_embedding: optional(data.position_embedding, matrix),
    sequences: givenRows(data.sequences),
  };
  return {
    name: data.name,
    title: data.title,
    features: data.features,
    isCausal: data.is_causal,
    hasResidual: data.residual,
    vocabulary: data.vocabulary ?? [],
    sequences: data.sequences.map(sequenceFrom),
    isDecimal: hasDecimals(given),
    given,
  };
}

/** Whether a number is one such as 0.25: no whole one, and ended by its decimals. */
function hasDecimals(tree: unknown): boolean {
  if (Array.isArray(tree)) return tree.some(hasDecimals);
  if (typeof tree !== "object" || tree === null) return false;
  if (!isNumber(tree)) return Object.values(tree).some(hasDecimals);
  const den = tree.exact?.ratio?.den ?? 1;
  return typeof den === "number" && den > 1 && 10000 % den === 0;
}

function isNumber(tree: unknown): tree is Num {
  return typeof tree === "object" && tree !== null && "low" in tree;
}

/** What stands at a place of the given numbers, or undefined. */
function at(tree: unknown, keys: readonly Key[]): unknown {
  return keys.reduce<unknown>((node, key) => {
    if (typeof node !== "object" || node === null || isNumber(node)) return undefined;
    return Object.hasOwn(node, key) ? (node as Record<Key, unknown>)[key] : undefined;
  }, tree);
}

/** The given number at a place, or why there is none; the scale may be the one that is implied. */
export function givenNumber(sheet: Sheet, place: string): Num | NumberError {
  const keys = placeKeys(place);
  if (isError(keys)) return keys;
  if (keys.length === 1 && keys[0] === "scale") return scaleOf(sheet);
  const found = at(sheet.given, keys);
  if (isNumber(found)) return found;
  const shown = placeText(keys);
  if (found === undefined || found === null) {
    return {
      error: `${shown} does not exist in ${sheet.name}: use a place such as heads.0.W_Q[0][0]`,
    };
  }
  return { error: `${shown} is not a single number: choose one, such as heads.0.W_Q[0][0]` };
}

function replaced(tree: unknown, keys: readonly Key[], number: Num): unknown {
  const [key, ...rest] = keys;
  if (key === undefined) return number;
  const old = (tree as Record<Key, unknown>)[key];
  if (Array.isArray(tree)) {
    return tree.map((entry, i) => (i === key ? replaced(old, rest, number) : entry));
  }
  return { ...(tree as object), [key]: replaced(old, rest, number) };
}

/** The same worksheet with one given number changed, or why that cannot be. */
export function editSheet(sheet: Sheet, place: string, text: string): Sheet | NumberError {
  const old = givenNumber(sheet, place);
  if (isError(old)) return old;
  const keys = placeKeys(place);
  if (isError(keys)) return keys;
  const shown = placeText(keys);
  const number = parseNumber(text, shown);
  if (isError(number)) return number;
  if (shown === "scale" && !isPositive(number)) {
    return { error: `scale (${quoted(text)}) must be positive: use a number above 0` };
  }
  const given = replaced(sheet.given, keys, number) as Given;
  return { ...sheet, given, isDecimal: sheet.isDecimal || /[0-9]\.[0-9]/.test(plainText(text)) };
}

/** Whether a token only repeats its own place, as in worksheets without words. */
export function isPlainCount(token: string, position: number): boolean {
  return token === String(position + 1);
}
