/**
 * Numbers of the engine, and what is known of each exactly.
 *
 * An exact number is a sum of terms such as -3/5 * sqrt(2) * ln(3); a fraction is the sum with one plain
 * term. Text is written so that `parseNumber`, and Python, read the same number.
 */

import { type Double, doubleOf, doubleProduct, doubleSum, scaledDouble } from "./double";
import {
  absolute,
  type Fraction,
  fraction,
  fractionDouble,
  fractionText,
  NOUGHT,
  plus,
  power,
  times,
  type Whole,
} from "./fraction";
import { fixedLog, fixedRoot, logDouble, rootDouble } from "./irrational";

export interface Term {
  readonly coefficient: Fraction;
  /** Under the root; 1 for none. */
  readonly root: Whole;
  /** Bases of the logarithms with their powers, in order. */
  readonly logs: readonly (readonly [Whole, number])[];
}

/** One number. */
export interface Num {
  /** The nearest float64; minus infinity for a blocked score. */
  readonly value: number;
  /** What `value` leaves out. */
  readonly low: number;
  /** What is known exactly; null where only a decimal number is left, and for a blocked score. */
  readonly exact: Exact | null;
}

export class Exact {
  #text: string | undefined;

  constructor(
    /** The number, where it is a fraction. */
    readonly ratio: Fraction | null,
    private readonly sum: readonly Term[],
  ) {}

  get terms(): readonly Term[] {
    if (this.ratio === null) return this.sum;
    return this.ratio.num === 0 ? [] : [{ coefficient: this.ratio, root: 1, logs: [] }];
  }

  /** 40/7, ln(2), 3*sqrt(2)/5. */
  text(): string {
    this.#text ??= this.ratio === null ? this.sumText() : fractionText(this.ratio);
    return this.#text;
  }

  private sumText(): string {
    return joined(this.sum).reduce((text, [coefficient, factors]) => {
      const term = termText(coefficient, factors);
      if (text === "") return term;
      return term.startsWith("-") ? `${text} - ${term.slice(1)}` : `${text} + ${term}`;
    }, "");
  }

  equals(other: Exact): boolean {
    return this.text() === other.text();
  }
}

export function isBlocked(number: Num): boolean {
  return number.value === Number.NEGATIVE_INFINITY;
}

/** Whether a number is known exactly; minus infinity, the score of a blocked key, is. */
export function isExact(number: Num): boolean {
  return number.exact !== null || isBlocked(number);
}

/** A number that is known only as a decimal one. */
export function decimal({ value, low }: Double): Num {
  return { value, low, exact: null };
}

export function ratio(given: Fraction): Num {
  return { ...fractionDouble(given), exact: new Exact(given, []) };
}

export function integer(value: number): Num {
  return ratio({ num: value, den: 1 });
}

/** A sum of terms, none of which is 0 or like another. */
export function symbolic(terms: readonly Term[]): Num {
  const [first] = terms;
  if (first === undefined) return ratio(NOUGHT);
  if (terms.length === 1 && first.root === 1 && first.logs.length === 0) {
    return ratio(first.coefficient);
  }
  return { ...termsDouble(terms), exact: new Exact(null, terms) };
}

function termDouble(term: Term): Double {
  let value = fractionDouble(term.coefficient);
  if (term.root !== 1) value = doubleProduct(value, rootDouble(term.root));
  for (const [base, times] of term.logs) {
    for (let n = 0; n < times; n += 1) value = doubleProduct(value, logDouble(base));
  }
  return value;
}

const CANCELS = 1e-10;

/** The value of a sum of terms; where they nearly cancel, it is taken again with more digits. */
export function termsDouble(terms: readonly Term[]): Double {
  let [total, size] = [doubleOf(0), 0];
  for (const term of terms) {
    const value = termDouble(term);
    total = doubleSum(total, value);
    size = Math.max(size, Math.abs(value.value));
  }
  return Math.abs(total.value) > CANCELS * size ? total : fineDouble(terms);
}

const FINE = 4096;

function fineDouble(terms: readonly Term[]): Double {
  let total = 0n;
  for (const { coefficient, root, logs } of terms) {
    let value = (BigInt(coefficient.num) << BigInt(FINE)) / BigInt(coefficient.den);
    if (root !== 1) value = (value * fixedRoot(root, FINE)) >> BigInt(FINE);
    for (const [base, times] of logs) {
      for (let n = 0; n < times; n += 1) value = (value * fixedLog(base, FINE)) >> BigInt(FINE);
    }
    total += value;
  }
  return scaledDouble(total, FINE);
}

/** Terms that differ only in their coefficient, in one. */
export function collected(terms: Iterable<Term>): Term[] {
  const kinds = new Map<string, Term>();
  for (const term of terms) {
    const kind = `${term.root};${term.logs.map((log) => log.join("^")).join("*")}`;
    const known = kinds.get(kind);
    const coefficient = known ? plus(known.coefficient, term.coefficient) : term.coefficient;
    if (coefficient.num === 0) kinds.delete(kind);
    else kinds.set(kind, { ...term, coefficient });
  }
  return [...kinds.values()];
}

function compared(a: Whole, b: Whole): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function inOrder(a: Term, b: Term): number {
  let order = a.logs.length - b.logs.length;
  for (let i = 0; order === 0 && i < a.logs.length; i += 1) {
    const [left, right] = [a.logs[i] ?? [1, 0], b.logs[i] ?? [1, 0]];
    order = compared(left[0], right[0]) || left[1] - right[1];
  }
  return order || compared(a.root, b.root);
}

const MOST_LOGS = 20;
const LARGEST_LOG = 10 ** 6;

type Written = [coefficient: Fraction, factors: string[]];

/** Terms in order, whole multiples of logarithms written as one: 2 ln 2 - ln 3 is ln(4/3). */
function joined(terms: readonly Term[]): Written[] {
  const sorted = [...terms].sort(inOrder);
  const plain = sorted.filter(
    ({ root, logs }) => root === 1 && logs.length === 1 && logs[0]?.[1] === 1,
  );
  const single = plain.length > 0 ? joinedLog(plain) : null;
  if (single === null) return sorted.map((term) => [term.coefficient, factors(term)]);
  const others = sorted.filter((term) => !plain.includes(term));
  return [...others.map((term): Written => [term.coefficient, factors(term)]), single];
}

function joinedLog(plain: readonly Term[]): Written | null {
  let product: Fraction = { num: 1, den: 1 };
  for (const { coefficient, logs } of plain) {
    if (coefficient.den !== 1 || absolute(coefficient.num) > MOST_LOGS) return null;
    product = times(product, power({ num: logs[0]?.[0] ?? 1, den: 1 }, Number(coefficient.num)));
  }
  if (product.num > LARGEST_LOG || product.den > LARGEST_LOG) return null;
  if (product.num >= product.den) return [fraction(1), [`ln(${fractionText(product)})`]];
  return [fraction(-1), [`ln(${fractionText({ num: product.den, den: product.num })})`]];
}

function factors({ root, logs }: Term): string[] {
  const bases = logs.flatMap(([base, times]) => Array<string>(times).fill(`ln(${base})`));
  return root === 1 ? bases : [`sqrt(${root})`, ...bases];
}

function termText({ num, den }: Fraction, names: string[]): string {
  const size = absolute(num);
  const leading = size === 1 && names.length > 0 ? [] : [String(size)];
  return `${num < 0 ? "-" : ""}${[...leading, ...names].join("*")}${den === 1 ? "" : `/${den}`}`;
}
