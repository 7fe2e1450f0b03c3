/**
 * The arithmetic behind one number: how it is made, with the actual numbers, each of which can be
 * explained in turn, down to the given ones.
 */

import { isZero } from "../numbers/arithmetic";
import { isBlocked, type Num } from "../numbers/exact";
import { isError } from "../numbers/parse";
import { decimalStyle, exactText, fractionStyle } from "../numbers/show";
import type { Solution } from "./attention";
import { fieldsOf, labelOf } from "./fields";
import { placeKeys, placeText } from "./places";
import { pythonLine } from "./pythonline";
import { type Kind, type Part, quantityText, type Recipe, recipeOf } from "./rules";
import { givenNumber, headDim } from "./sheet";

export type { Kind, Part } from "./rules";

/** A number as a formula writes it. */
export interface Written extends Part {
  readonly text: string;
  /** Whether its minus stands before it, as the sign that subtracts it. */
  readonly isTurned?: boolean;
}

/** A piece of a formula: plain text, or the text of a number that can be explained in turn. */
export type Piece = string | Written;

export type NumberStyle = "decimals" | "fractions";

export interface Explanation extends Part {
  /** What it is, counted from 1; "given" for a given number. */
  readonly label: string;
  readonly kind: Kind;
  /** The rule in words and symbols. */
  readonly rule: string;
  /** The rule with the actual numbers in it, rounded to read. */
  readonly formula: string;
  /** The formula in pieces, so that its numbers can be clicked. */
  readonly pieces: readonly Piece[];
  /** Every number that it is made of, once. */
  readonly terms: readonly Part[];
  /** The same numbers as factors of the terms that are added; other kinds have one factor a term. */
  readonly products: readonly (readonly Part[])[];
  /** How many terms are left out because they are exactly zero. */
  readonly zeroTerms: number;
  readonly isGiven: boolean;
  /** A line of Python that sets `value`. */
  readonly python: string;
}

interface Place {
  /** Under its full name. */
  quantity: string;
  /** A solved number's field and index; null for a given one. */
  field: string | null;
  index: number[];
  value: Num;
}

function placeOf(solution: Solution, quantity: string): Place | null {
  const { sheet, sequence } = solution;
  const prefix = `${sheet.name}:`;
  const text = quantity.startsWith(prefix) ? quantity.slice(prefix.length) : quantity;
  const keys = placeKeys(text);
  if (isError(keys)) return null;
  const solved = keys[0] === sequence.name ? keys.slice(1) : keys;
  const field = fieldsOf(sheet).find(({ name }) => name === solved[0]);
  if (field) return solvedPlace(solution, field.name, solved.slice(1));
  const value = givenNumber(sheet, text);
  if (isError(value)) return null;
  return { quantity: prefix + placeText(keys), field: null, index: [], value };
}

function solvedPlace(
  solution: Solution,
  field: string,
  keys: readonly (string | number)[],
): Place | null {
  const shape = solution.shape(field);
  const index = keys.filter((key) => typeof key === "number");
  const fits = index.length === keys.length && index.length === shape.length;
  if (!fits || index.some((i, at) => i >= (shape[at] ?? 0))) return null;
  const quantity = quantityText(solution.sheet.name, solution.sequence.name, field, index);
  return { quantity, field, index, value: solution.get(field, ...index) };
}

/** Whether there is a number of this name in this solution. */
export function canExplain(solution: Solution, quantity: string): boolean {
  return placeOf(solution, quantity) !== null;
}

/** A number by its name; the worksheet's name and the sentence may be left out. */
export function numberNamed(solution: Solution, quantity: string): Num {
  return known(solution, quantity).value;
}

function known(solution: Solution, quantity: string): Place {
  const place = placeOf(solution, quantity);
  if (!place) throw new Error(`no number ${quantity} in ${solution.sheet.name}`);
  return place;
}

/** Explain one number; throws where there is none of that name, see `canExplain`. */
export function explain(
  solution: Solution,
  quantity: string,
  style: NumberStyle = solution.sheet.isDecimal ? "decimals" : "fractions",
): Explanation {
  const place = known(solution, quantity);
  if (place.field === null) return explainGiven(solution, place, style);
  const { recipe, zeroTerms } = withoutZeros(
    solution,
    recipeOf(solution, place.field, place.index),
  );
  const field = fieldsOf(solution.sheet).find(({ name }) => name === place.field);
  return {
    ...made(solution, place, recipe, style),
    label: field ? labelOf(solution.sheet, solution.sequence.name, field, place.index) : "",
    rule: field?.rule ?? "",
    zeroTerms,
  };
}

function explainGiven(solution: Solution, place: Place, style: NumberStyle): Explanation {
  const { sheet } = solution;
  const isRoot = place.quantity === `${sheet.name}:scale` && sheet.given.scale === null;
  const width = headDim(sheet);
  return {
    ...made(solution, place, { kind: isRoot ? "root" : "given", terms: [] }, style),
    label: isRoot ? `scale, one over the root of the head width ${width}` : "given",
    rule: isRoot ? "scale = 1/sqrt(head width)" : "as given in the worksheet",
    zeroTerms: 0,
  };
}

function made(
  solution: Solution,
  { quantity, value }: Place,
  recipe: Recipe,
  style: NumberStyle,
): Omit<Explanation, "label" | "rule" | "zeroTerms"> {
  const products = recipe.terms.map((names) =>
    names.map((name): Part => ({ quantity: name, value: numberNamed(solution, name) })),
  );
  const terms = [...new Map(products.flat().map((part) => [part.quantity, part])).values()];
  const width = headDim(solution.sheet);
  const pieces = formula({ quantity, value }, recipe.kind, products, terms, { style, width });
  return {
    quantity,
    value,
    kind: recipe.kind,
    formula: pieces.map((piece) => (typeof piece === "string" ? piece : piece.text)).join(""),
    pieces,
    terms,
    products,
    isGiven: recipe.kind === "given",
    python: copied(solution, { quantity, value }, recipe.kind, products, terms),
  };
}

/** The line of Python; where exponentials leave float64, a weight is computed from the scores. */
function copied(
  solution: Solution,
  { quantity, value }: Part,
  kind: Kind,
  products: readonly Part[][],
  terms: readonly Part[],
): string {
  const width = headDim(solution.sheet);
  const isLost = kind === "ratio" && terms.some((part) => !Number.isFinite(part.value.value));
  if (!isLost) return pythonLine(value, kind, products, terms, width);
  const [h = 0, t = 0, s = 0] = known(solution, quantity).index;
  const scores = solution.row("masked_scores", h, t);
  const own = scores[s] ?? value;
  const others = scores.filter((score, at) => at !== s && !isBlocked(score));
  const parts = [own, ...others].map((score): Part => ({ quantity, value: score }));
  return pythonLine(value, "softmax", products, parts, width);
}

/** Leave out terms that are exactly zero, unless all of them are. */
function withoutZeros(solution: Solution, recipe: Recipe): { recipe: Recipe; zeroTerms: number } {
  if (recipe.kind !== "sum") return { recipe, zeroTerms: 0 };
  const terms = recipe.terms.filter((names) =>
    names.every((name) => !isZero(numberNamed(solution, name))),
  );
  if (terms.length === 0) return { recipe, zeroTerms: 0 };
  return { recipe: { ...recipe, terms }, zeroTerms: recipe.terms.length - terms.length };
}

interface Writing {
  style: NumberStyle;
  width: number;
}

function formula(
  whole: Part,
  kind: Kind,
  products: readonly Part[][],
  terms: readonly Part[],
  writing: Writing,
): Piece[] {
  const start = numberPiece(whole, writing.style);
  const [first, second] = terms.map((part) => numberPiece(part, writing.style));
  if (kind === "given") return [start.text];
  if (kind === "root") return [start.text, ` = 1/\u221a${writing.width}`];
  if (kind === "blocked") return [start.text, " = blocked: the source comes after the receiver"];
  if (kind === "softmax") return [start.text, " = ", ...softmaxPieces(terms, writing.style)];
  if (kind === "sum" && terms.length === 1 && products.length === 1 && products[0]?.length === 1) {
    return [start.text, " = ", ...shown(first), ", the same number"];
  }
  if (kind === "sum") return [start.text, " = ", ...sumPieces(products, writing.style)];
  if (kind === "power") return [start.text, " = e^", ...shown(first, true)];
  if (kind === "rectified") return [start.text, " = max(0, ", ...shown(first), ")"];
  return [start.text, " = ", ...shown(first, true), " / ", ...shown(second, true)];
}

function numberPiece(part: Part, style: NumberStyle): Written {
  const text = style === "decimals" ? decimalStyle(part.value) : fractionStyle(part.value);
  const infinity = text === "-inf" && part.value.exact === null ? "-\u221e" : text;
  return { ...part, text: exactText(infinity) };
}

function shown(piece: Written | undefined, isInside = false): Piece[] {
  if (!piece) return [];
  return isInside && /^\u2212|[ /\u00b7]/.test(piece.text) ? ["(", piece, ")"] : [piece];
}

function softmaxPieces(terms: readonly Part[], style: NumberStyle): Piece[] {
  const powers = terms.map((part): Piece[] => ["e^", ...shown(numberPiece(part, style), true)]);
  const below = powers.flatMap((power, i): Piece[] => (i === 0 ? power : [" + ", ...power]));
  return [...(powers[0] ?? []), " / (", ...below, ")"];
}

/** Products, added up; a product that begins with a minus is subtracted. */
function sumPieces(products: readonly Part[][], style: NumberStyle): Piece[] {
  return products.flatMap((product, at): Piece[] => {
    const [first, ...others] = product.map((part) => numberPiece(part, style));
    if (!first) return [];
    const isSum = / /.test(first.text) && others.length > 0;
    const factors = others.flatMap((other): Piece[] => [" \u00d7 ", ...shown(other, true)]);
    if (isSum) return [at === 0 ? "(" : " + (", first, ")", ...factors];
    if (at === 0) return [first, ...factors];
    const isNegative = first.text.startsWith("\u2212");
    const positive = isNegative ? { ...first, text: first.text.slice(1), isTurned: true } : first;
    return [isNegative ? " \u2212 " : " + ", positive, ...factors];
  });
}
