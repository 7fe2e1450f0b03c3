/**
 * Which exercises an address or a form asks for: one exercise, or a sheet of several, in the order of
 * `manyheads quiz exercises`. A wrong address shows what it can, with one line that says what is wrong.
 */

import type { NumberError } from "../../numbers/parse";
import { KINDS, type Kind, LAST_SEED } from "./shipped";

/** Maximum number of exercises on a sheet. */
export const MAX_COUNT = 1000;
const LARGEST_SEED = 2 ** 32 - 1;
const FIRST_SEED = 1;
const QUOTED = 40;

interface Asked {
  /** What is wrong with the address; "" for nothing. */
  readonly trouble: string;
}

export interface KindsAsked extends Asked {
  readonly page: "kinds";
}

export interface OneAsked extends Asked {
  readonly page: "one";
  readonly kind: Kind;
  readonly seed: number;
}

export interface SheetAsked extends Asked {
  readonly page: "sheet";
  readonly seed: number;
  readonly count: number;
  /** The exercise of the sheet that is shown, from 1; null for the list of all. */
  readonly number: number | null;
}

export type Assigned = KindsAsked | OneAsked | SheetAsked;

/** What was shown last; it is shown again where the address asks for something that does not exist. */
export interface Last {
  readonly seed: number;
  readonly count: number;
}

export const NO_LAST: Last = { seed: FIRST_SEED, count: KINDS.length };

/** The command that draws the same exercises as an address of this page. */
export function commandOf(seed: number, count: number, kind = ""): string {
  const words = ["manyheads quiz exercises", kind, `--seed ${seed} --count ${count}`];
  return words.filter((word) => word !== "").join(" ");
}

/** A seed as it is typed, or why the page has no exercise for it. */
export function readSeed(text: string, kind = "", count = 1): number | NumberError {
  const seed = wholeNumber(text);
  if (seed === null || seed > LARGEST_SEED) {
    return {
      error: `seed (${cut(text)}) must be a whole number from 0 to ${LAST_SEED}: use another`,
    };
  }
  if (seed <= LAST_SEED) return seed;
  const command = commandOf(seed, count, kind);
  return {
    error: `seed (${seed}) must be at most ${LAST_SEED} on this page: use another, or run ${command}`,
  };
}

/** A count of exercises as it is typed, or why it is wrong. */
export function readCount(text: string): number | NumberError {
  const count = wholeNumber(text);
  if (count !== null && count >= 1 && count <= MAX_COUNT) return count;
  return {
    error: `count (${cut(text)}) must be a whole number from 1 to ${MAX_COUNT}: use another`,
  };
}

/** The seed and the count of a sheet as they are typed, or what is wrong with them. */
export function readSheet(seedText: string, countText: string): Last | NumberError {
  const count = readCount(countText);
  const seed = readSeed(seedText, "", typeof count === "number" ? count : 1);
  if (typeof seed === "number" && typeof count === "number") {
    const error = tooLong(seed, count);
    return error === "" ? { seed, count } : { error };
  }
  const reasons = [seed, count].flatMap((one) => (typeof one === "number" ? [] : [one.error]));
  return { error: reasons.join(". ") };
}

/** Why a sheet has exercises that are not on this page; "" where it has none. */
function tooLong(seed: number, count: number): string {
  const last = seed + Math.floor((count - 1) / KINDS.length);
  if (last <= LAST_SEED) return "";
  return (
    `count (${count}) from seed ${seed} on needs seeds up to ${last}, and this page has 0 to ` +
    `${LAST_SEED}: use fewer exercises or a smaller seed, or run ${commandOf(seed, count)}`
  );
}

function wholeNumber(text: string): number | null {
  return /^[0-9]{1,10}$/.test(text.trim()) ? Number(text) : null;
}

function cut(text: string): string {
  return [...text].slice(0, QUOTED).join("");
}

/** The seed after one; 0 after the last one of the page. */
export function nextSeed(seed: number): number {
  return seed < LAST_SEED ? seed + 1 : 0;
}

/** One exercise of a sheet by its index from 0: the kinds in turn, each round with the next seed. */
export function onSheet(seed: number, index: number): { kind: Kind; seed: number } {
  const kind = KINDS[index % KINDS.length];
  if (!kind) throw new Error(`index (${index}) must be a whole number from 0`);
  return { kind, seed: seed + Math.floor(index / KINDS.length) };
}

/** What the parts of an address after `#learn/exercises/` ask for. */
export function assignedOf(asked: readonly string[], last: Last): Assigned {
  const [name = "", seed = "", ...rest] = asked;
  if (name === "") return { page: "kinds", trouble: "" };
  if (name === "sheet") return sheetOf(seed, rest, last);
  const kind = KINDS.find((one) => one.name === name);
  if (!kind) {
    return { page: "kinds", trouble: `kind (${cut(name)}) does not exist: choose one of these` };
  }
  const [number, trouble] = valueOr(last.seed, seed, (text) => readSeed(text, name));
  return { page: "one", kind, seed: number, trouble };
}

function sheetOf(written: string, [count = "", number = ""]: string[], last: Last): Assigned {
  const [many, wrongCount] = valueOr(last.count, count, readCount);
  const [seed, wrongSeed] = valueOr(last.seed, written, (text) => readSeed(text, "", many));
  const trouble = tooLong(seed, many);
  if (trouble !== "") return { page: "kinds", trouble };
  const place = wholeNumber(number);
  const isThere = place !== null && place >= 1 && place <= many;
  const missing =
    number === "" || isThere
      ? ""
      : `number (${cut(number)}) must be a whole number from 1 to ${many}: choose an exercise`;
  const troubles = [wrongSeed, wrongCount, missing].filter((one) => one !== "");
  return {
    page: "sheet",
    seed,
    count: many,
    number: isThere ? place : null,
    trouble: troubles.join(". "),
  };
}

/** The number that a text asks for; or the other number, and why. An empty text needs no reason. */
function valueOr(
  other: number,
  text: string,
  read: (text: string) => number | NumberError,
): [number: number, trouble: string] {
  if (text === "") return [other, ""];
  const found = read(text);
  return typeof found === "number" ? [found, ""] : [other, found.error];
}

export function exerciseAddress(kind: string, seed: number): string {
  return `#learn/exercises/${kind}/${seed}`;
}

/** A sheet, or one exercise of it by its number from 1. */
export function sheetAddress(seed: number, count: number, number: number | null = null): string {
  const sheet = `#learn/exercises/sheet/${seed}/${count}`;
  return number === null ? sheet : `${sheet}/${number}`;
}
