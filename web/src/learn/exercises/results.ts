/** Results of exercises: the same records as in the terminal, and what was right so far. */

import { plainAnswer } from "../attempts";
import type { Line } from "../records";
import { typedNumbers } from "../typed";
import type { Mark } from "./marking";
import { type Exercise, KINDS, LAST_SEED } from "./shipped";

export interface Result {
  when: string;
  /** `kind/seed`. */
  exercise: string;
  typed: string;
  right: boolean;
  /** Names of the known mistakes that give exactly these numbers. */
  misconceptions: readonly string[];
}

/** The record of an answer that was judged. */
export function resultOf(one: Exercise, typed: string, mark: Mark, when: string): Result {
  return {
    when,
    exercise: one.id,
    typed: plainAnswer(typed),
    right: mark.isRight,
    misconceptions: mark.misconceptions.map(({ name }) => name),
  };
}

/** By exercise that was tried: whether any answer to it was right. */
export type Standing = ReadonlyMap<string, boolean>;

export function standingOf(lines: readonly Line[]): Standing {
  const found = new Map<string, boolean>();
  for (const { fields } of lines) {
    const id = String(fields.exercise);
    found.set(id, found.get(id) === true || fields.right === true);
  }
  return found;
}

export interface Count {
  right: number;
  tried: number;
}

/** How many exercises of a kind, or of all kinds, were tried, and how many of them are right so far. */
export function countOf(standing: Standing, kind: string | null = null): Count {
  const known = kind === null ? KINDS.map(({ name }) => name) : [kind];
  const tried = [...standing].filter(([id]) => known.includes(id.split("/")[0] ?? ""));
  return { right: tried.filter(([, isRight]) => isRight).length, tried: tried.length };
}

/** `2 of 3 right so far`; of what was never tried, that. */
export function countText({ right, tried }: Count): string {
  return tried === 0 ? "not tried yet" : `${right} of ${tried} right so far`;
}

/** The first seed from 1 on whose exercise of a kind has not been tried; 0 where all were. */
export function freshSeed(standing: Standing, kind: string): number {
  for (let seed = 1; seed <= LAST_SEED; seed += 1)
    if (!standing.has(`${kind}/${seed}`)) return seed;
  return 0;
}

/** Fields that were filled as one answer; one field may hold several numbers. */
export function joinedAnswer(fields: readonly string[]): string {
  return fields
    .map((text) => text.replace(/[\s,;]+$/, "").trim())
    .filter((text) => text !== "")
    .join(", ");
}

/** How many numbers the fields hold; 0 where they cannot be read. */
export function numTyped(fields: readonly string[]): number {
  const found = typedNumbers(joinedAnswer(fields));
  return "error" in found ? 0 : found.length;
}
