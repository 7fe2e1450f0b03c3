/**
 * What a learner types, read: fractions, decimals, percentages, roots, logarithms, several at once.
 *
 * A decimal number matches every number that rounds to it; any other number is exact. The rules are
 * the terminal's.
 */

import { add, multiply, negative } from "../numbers/arithmetic";
import { decimal, type Num, ratio } from "../numbers/exact";
import { fraction, power } from "../numbers/fraction";
import { isError, NUMBER_FORM, type NumberError, parseNumber, quoted } from "../numbers/parse";

/** A rounded decimal needs so many significant digits, or so many decimals: 3.71, 0.008. */
export const LEAST_DIGITS = 3;
const LEAST_HALF = 0.5 * 10 ** -LEAST_DIGITS;
/** Limits on one answer: characters and numbers. */
export const MAX_TEXT = 600;
export const MAX_NUMBERS = 24;
const DECIMAL =
  /^[+-]?\s*(?:(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,3}))?|[0-9]+[eE]([+-]?[0-9]{1,3}))$/;
const WHOLE = /^[+-]?\s*[0-9]+$/;
const SIGNS: Readonly<Record<string, string>> = {
  "\u2212": "-",
  "\u2013": "-",
  "\u00d7": "*",
  "\u22c5": "*",
  "\u00b7": "*",
  "\u00f7": "/",
  "\u2044": "/",
};
const PAIRS: Readonly<Record<string, string>> = { "(": ")", "[": "]", "{": "}" };
const FORM = "type fractions or decimals with a point, such as 1/3, 0.333, 33.3%, ln 2, 3*sqrt(2)";

/** One number as it was typed. */
export interface Typed {
  readonly text: string;
  readonly value: Num;
  /** The largest distance of a number that rounds to it; null if the number is exact. */
  readonly halfUnit: Num | null;
  /** Significant digits of a decimal number. */
  readonly digits: number;
}

/** Read an answer: numbers between commas, semicolons or spaces, brackets around them or not. */
export function typedNumbers(text: string): readonly Typed[] | NumberError {
  const parts = cut(text);
  if (isError(parts)) return parts;
  if (parts.length > MAX_NUMBERS) {
    return { error: `answer (${parts.length} numbers) has more than ${MAX_NUMBERS}: use fewer` };
  }
  const found: Typed[] = [];
  for (const [i, text] of parts.entries()) {
    const read = typedOf(text, `number ${i + 1}`);
    if (isError(read)) return read;
    found.push(read);
  }
  return found;
}

/** Read an answer of one number. */
export function typedNumber(text: string): Typed | NumberError {
  const parts = cut(text);
  if (isError(parts)) return parts;
  if (parts.length > 1) {
    return { error: `answer (${parts.length} numbers) must be one number: ${FORM}` };
  }
  return typedOf(parts[0] ?? "", "answer");
}

function cut(text: string): readonly string[] | NumberError {
  const length = [...text].length;
  if (length > MAX_TEXT) {
    return {
      error:
        `answer (${length} characters) is longer than ${MAX_TEXT}: use short fractions, or ` +
        `decimals with ${LEAST_DIGITS} digits`,
    };
  }
  const parts = partsOf(unwrapped(plain(text)));
  return parts.length > 0 ? parts : { error: `answer () is empty: ${FORM}` };
}

/** Signs as a keyboard has them; 3\u221a2 and 2ln2 become products. */
function plain(text: string): string {
  const signs = text.replace(/[\u2212\u2013\u00d7\u22c5\u00b7\u00f7\u2044]/g, (c) => SIGNS[c] ?? c);
  const words = signs
    .replace(/\u221a/g, "sqrt ")
    .toLowerCase()
    .trim();
  return words.replace(/(?<=[0-9)])(?=ln|sqrt)/g, "*");
}

/** Take brackets away that enclose the whole answer. */
function unwrapped(text: string): string {
  let inner = text;
  while (inner !== "" && closing(inner) === inner.length - 1) inner = inner.slice(1, -1).trim();
  return inner;
}

/** Where the bracket that a text begins with is closed, or -1. */
function closing(text: string): number {
  if (!((text[0] ?? "") in PAIRS)) return -1;
  const opened: string[] = [];
  for (let place = 0; place < text.length; place += 1) {
    const sign = text[place] ?? "";
    if (sign in PAIRS) opened.push(PAIRS[sign] ?? "");
    else if (opened.length > 0 && sign === opened[opened.length - 1]) {
      opened.pop();
      if (opened.length === 0) return place;
    }
  }
  return -1;
}

function partsOf(text: string): string[] {
  if (!/[,;]/.test(text)) return spaced(text);
  const parts = text.split(/[,;]/).map((one) => one.trim());
  return parts[parts.length - 1] === "" ? parts.slice(0, -1) : parts;
}

function count(text: string, sign: string): number {
  return text.split(sign).length - 1;
}

/** Cut at spaces, but not around an operator, after a function, or inside brackets. */
function spaced(text: string): string[] {
  const parts: string[] = [];
  let isOpen = false;
  for (const word of text.split(/\s+/).filter((one) => one !== "")) {
    const before = parts[parts.length - 1];
    if (before === undefined || !(isOpen || continues(before, word))) parts.push(word);
    else parts[parts.length - 1] = `${before} ${word}`;
    const last = parts[parts.length - 1] ?? "";
    isOpen = count(last, "(") > count(last, ")");
  }
  return parts;
}

/** Whether a word belongs to the number before it. */
function continues(before: string, word: string): boolean {
  const isSign = word === "+" || word === "-" || "*/)%".includes(word[0] ?? " ");
  const afterSign = /(?:[*/(]| \+| -)$/.test(before) || before === "+" || before === "-";
  return isSign || afterSign || /(?:ln|sqrt|log)$/.test(before);
}

function typedOf(text: string, place: string): Typed | NumberError {
  const isPercent = text.endsWith("%");
  const body = (isPercent ? text.slice(0, -1) : text).trim();
  if (body === "") return { error: `${place} (${quoted(text)}) is missing: ${FORM}` };
  const read = parseNumber(body, place);
  if (isError(read)) return { error: read.error.replace(NUMBER_FORM, FORM) };
  const value = isPercent ? multiply(read, ratio(fraction(1, 100))) : read;
  return { text, value, ...precisionOf(body, isPercent) };
}

function precisionOf(body: string, isPercent: boolean): { halfUnit: Num | null; digits: number } {
  const found = DECIMAL.exec(body);
  if (!found && !(isPercent && WHOLE.test(body))) return { halfUnit: null, digits: 0 };
  const mantissa = (body.split(/e/i)[0] ?? "").replace(/^[+\- ]+/, "");
  const places = (mantissa.split(".")[1] ?? "").length + (isPercent ? 2 : 0);
  const exponent = Number(found?.[1] ?? found?.[2] ?? 0) - places;
  const unit = ratio(power({ num: 10, den: 1 }, exponent));
  const digits = mantissa.replace(/\./g, "").replace(/^0+/, "").length;
  return { halfUnit: multiply(unit, ratio(fraction(1, 2))), digits };
}

export type Closeness = "same" | "rounded" | "coarse" | "other";

/** Two numbers that are nearer are one and the same; decimals keep about 31 digits. */
const SAME = 1e-25;

/**
 * How a typed number compares with a value. `coarse` rounds the value to fewer significant digits, and
 * fewer decimals, than are wanted.
 */
export function howClose(typed: Typed, value: Num): Closeness {
  const gap = add(typed.value, negative(value));
  const distance = gap.value < 0 ? negative(gap) : gap;
  if (distance.value < SAME) return "same";
  if (typed.halfUnit === null) return "other";
  const isNear = add(distance, negative(typed.halfUnit)).value <= SAME;
  if (!isNear && !isMachines(typed, value, distance)) return "other";
  const isFine =
    typed.digits >= LEAST_DIGITS || (typed.digits > 0 && typed.halfUnit.value <= LEAST_HALF);
  return isFine ? "rounded" : "coarse";
}

/** From so many significant digits on, a number is taken for a machine's, whose last ones are off. */
const MACHINE_DIGITS = 12;
const MACHINE = 1e-12;

function isMachines({ digits }: Typed, value: Num, distance: Num): boolean {
  return digits >= MACHINE_DIGITS && distance.value <= MACHINE * Math.max(1, Math.abs(value.value));
}

export interface Wanted {
  readonly value: number;
  /** Such as "4/7"; null where only decimals are known. */
  readonly exact: string | null;
}

export interface Mark {
  readonly isRight: boolean;
  /** Why it is not; "" where it is. */
  readonly says: string;
}

/** Mark an answer: the number itself, or its decimals rounded to as many digits as were typed. */
export function marked(typed: string, wanted: Wanted): Mark {
  if (typed.trim() === "") return { isRight: false, says: "" };
  const read = typedNumber(typed);
  if (isError(read)) return { isRight: false, says: `${read.error}.` };
  const close = howClose(read, numberOf(wanted));
  if (close !== "coarse") return { isRight: close !== "other", says: "" };
  const says = `Close, but with too few digits: use a fraction, or ${LEAST_DIGITS} digits.`;
  return { isRight: false, says };
}

function numberOf({ exact, value }: Wanted): Num {
  const read = exact === null ? null : parseNumber(exact);
  return read === null || isError(read) ? decimal({ value, low: 0 }) : read;
}
