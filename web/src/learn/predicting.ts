/** Compare a prediction with the outcome; the terminal uses the same rule. */

import { add, negative } from "../numbers/arithmetic";
import type { Num } from "../numbers/exact";
import { isError, type NumberError, plainText } from "../numbers/parse";
import { roundedText, shortExact } from "../numbers/show";
import { howClose, LEAST_DIGITS, typedNumber } from "./typed";

export const DIRECTIONS = ["higher", "lower", "same"] as const;
export type Direction = (typeof DIRECTIONS)[number];

export interface Judged {
  readonly isRight: boolean;
  readonly direction: Direction;
}

/** Numbers closer than this, relative to their size, are the same computed twice. */
const SAME = 1e-28;

export function directionOf(before: Num, after: Num): Direction {
  const gap = add(after, negative(before)).value;
  if (Math.abs(gap) <= SAME * Math.max(1, Math.abs(after.value))) return "same";
  return gap > 0 ? "higher" : "lower";
}

/** Judge a prediction: one of the directions, their first letters, or a number. */
export function judged(text: string, before: Num, after: Num): Judged | NumberError {
  const direction = directionOf(before, after);
  const typed = plainText(text).toLowerCase();
  const word = DIRECTIONS.find((one) => typed === one || typed === one.charAt(0));
  if (word) return { isRight: word === direction, direction };
  const number = typedNumber(text);
  if (isError(number)) return { error: `${number.error}; or higher, lower or same` };
  const close = howClose(number, after);
  if (close !== "coarse") return { isRight: close !== "other", direction };
  const says = `has too few digits: give ${LEAST_DIGITS} decimals, or a fraction`;
  return { error: `answer (${number.text}) ${says}; or higher, lower or same` };
}

/** What a log says of an experiment: the number before and after, and which way it went. */
export function outcomeText(before: Num, after: Num): string {
  const way = directionOf(before, after);
  return `${loggedText(before)} becomes ${loggedText(after)} (${way})`;
}

/** A number as in the log: the exact form if it is short, and a decimal. */
export function loggedText(number: Num): string {
  const exact = shortExact(number);
  const decimals = roundedText(number.value);
  if (exact === null) return decimals;
  const isWhole = /^-?\d+$/.test(exact);
  return isWhole || exact === decimals ? exact : `${exact} = ${decimals}`;
}
