/**
 * Which exercises an address or a form asks for: one, or a sheet of several, as the terminal draws them.
 *
 * Whatever is written leads somewhere; what was wrong with it is said in one line.
 */

import type { NumberError } from "../../numbers/parse";
import { KINDS, type Kind, LARGEST_SEED } from "./kinds";
import { at } from "./sums";

/** Exercises on one sheet. */
export const MAX_COUNT = 1000;
/** Shown where no seed, or none that can be used, has been asked for yet. */
const FIRST_SEED = 1;
const QUOTED = 40;

interface Stands {
  /** What was wrong with what was asked; "" for nothing. */
  readonly trouble: string;
}

export interface One extends Stands {
  readonly page: "one";
  readonly kind: Kind;
  readonly seed: number;
}

export interface SheetAsked extends Stands {
  readonly page: "sheet";
  readonly seed: number;
  readonly count: number;
  /** The exercise of it that is shown, from 1; null for the list of all. */
  readonly number: number | null;
}

export type Assigned = (Stands & { readonly page: "kinds" }) | One | SheetAsked;

/** What was shown last, which stays where something else cannot be shown. */
export interface Last {
  readonly seed: number;
  readonly count: number;
}

export const NO_LAST: Last = { seed: FIRST_SEED, count: KINDS.length };

/** A seed as it is typed, or why it is none. */
export function readSeed(text: string): number | NumberError {
  const seed = wholeNumber(text);
  if (seed !== null && seed <= LARGEST_SEED) return seed;
  return {
    error: `seed (${cut(text)}) must be a whole number from 0 to ${LARGEST_SEED}: use another`,
  };
}

/** A count of exercises as it is typed, or why it is none. */
export function readCount(text: string): number | NumberError {
  const count = wholeNumber(text);
  if (count !== null && count >= 1 && count <= MAX_COUNT) return count;
  return { error: `count (${cut(text)}) must be 1 to ${MAX_COUNT}: use one of them` };
}

function wholeNumber(text: string): number | null {
  return /^[0-9]{1,10}$/.test(text.trim()) ? Number(text) : null;
}

function cut(text: string): string {
  return [...text].slice(0, QUOTED).join("");
}

/** The seed after one; after the largest comes 0. */
export function nextSeed(seed: number, steps = 1): number {
  return (seed + steps) % (LARGEST_SEED + 1);
}

/** One exercise of a sheet, by its place from 0: the kinds in turn, each round with the next seed. */
export function onSheet(seed: number, index: number): { kind: Kind; seed: number } {
  const round = Math.floor(index / KINDS.length);
  return { kind: at(KINDS, index % KINDS.length), seed: nextSeed(seed, round) };
}

/** What the parts of an address after `#learn/exercises/` ask for. */
export function assignedOf(asked: readonly string[], last: Last): Assigned {
  const [name = "", seed = "", ...rest] = asked;
  if (name === "") return { page: "kinds", trouble: "" };
  if (name === "sheet") return sheetOf(seed, rest, last);
  const kind = KINDS.find((one) => one.name === name);
  if (!kind) {
    return { page: "kinds", trouble: `kind (${cut(name)}) is not known: choose one of these` };
  }
  const [number, trouble] = kept(seed, readSeed, last.seed);
  return { page: "one", kind, seed: number, trouble };
}

function sheetOf(written: string, [count = "", number = ""]: string[], last: Last): SheetAsked {
  const [seed, wrongSeed] = kept(written, readSeed, last.seed);
  const [many, wrongCount] = kept(count, readCount, last.count);
  const place = wholeNumber(number);
  const isThere = place !== null && place >= 1 && place <= many;
  const missing =
    number === "" || isThere ? "" : `number (${cut(number)}) is not on this sheet: choose one`;
  const troubles = [wrongSeed, wrongCount, missing].filter((one) => one !== "");
  return {
    page: "sheet",
    seed,
    count: many,
    number: isThere ? place : null,
    trouble: troubles.join(". "),
  };
}

/** The number that was asked for; or the last good one, and why. Where nothing is written, no reason. */
function kept(
  text: string,
  read: (text: string) => number | NumberError,
  last: number,
): [number: number, trouble: string] {
  if (text === "") return [last, ""];
  const found = read(text);
  return typeof found === "number" ? [found, ""] : [last, found.error];
}

export function exerciseAddress(kind: string, seed: number): string {
  return `#learn/exercises/${kind}/${seed}`;
}

/** A sheet, or one exercise of it by its number from 1. */
export function sheetAddress(seed: number, count: number, number: number | null = null): string {
  const sheet = `#learn/exercises/sheet/${seed}/${count}`;
  return number === null ? sheet : `${sheet}/${number}`;
}
