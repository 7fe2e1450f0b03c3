/** Records of the quiz, of explanations and of predictions, as the terminal writes them. */

import type { Fields, Line } from "./records";

/** Whether a point was covered; null where nobody has judged it. */
export type Flag = boolean | null;

export interface QuizAttempt {
  /** When it began; with the question, the name of the attempt. */
  when: string;
  question: string;
  /** The numbers as they were typed; "" for one that was left out. */
  typed: readonly string[];
  right: readonly Flag[];
  answer: string;
  covered: readonly Flag[];
}

export interface HalfAttempt {
  when: string;
  topic: string;
  /** explain or apply. */
  half: string;
  text: string;
  covered: readonly Flag[];
  /** The latest answer to each point's follow-up question. */
  answers: readonly (string | null)[];
}

export interface Prediction {
  when: string;
  /** Such as worksheet:two-routes. */
  where: string;
  try: string;
  prediction: string;
  outcome: string;
  right: Flag;
}

/** Characters of one answer. */
export const LONGEST_TEXT = 10_000;

/** An answer without control characters and outer spaces. */
export function plainAnswer(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Cs}]/gu, " ")
    .trim()
    .slice(0, LONGEST_TEXT);
}

/** The last record with these fields, which is the learner's current state; null if there is none. */
export function latest(lines: readonly Line[], wanted: Fields): Fields | null {
  const names = Object.keys(wanted);
  const found = lines.findLast(({ fields }) =>
    names.every((name) => fields[name] === wanted[name]),
  );
  return found?.fields ?? null;
}

/** A list of true, false and null in a record, made as long as it should be. */
export function flagsOf(fields: Fields | null, name: string, count: number): Flag[] {
  const listed = fields?.[name];
  const values: readonly unknown[] = Array.isArray(listed) ? listed : [];
  return Array.from({ length: count }, (_, at) => {
    const value = values[at];
    return typeof value === "boolean" ? value : null;
  });
}

export function numTrue(flags: readonly Flag[]): number {
  return flags.filter((flag) => flag === true).length;
}

export interface Tally {
  right: number;
  judged: number;
  made: number;
}

/** How often a learner's predictions were right. */
export function tallyOf(lines: readonly Line[]): Tally {
  const judged = lines.filter(({ fields }) => typeof fields.right === "boolean");
  const right = judged.filter(({ fields }) => fields.right === true);
  return { right: right.length, judged: judged.length, made: lines.length };
}

/**
 * The first point that is neither covered nor asked about already; null where none is left.
 *
 * @param covered one flag a point
 * @param answers what was answered to the follow-up of each point; null where none was asked
 */
export function firstGap(
  covered: readonly boolean[],
  answers: readonly (string | null)[],
): number | null {
  const at = covered.findIndex(
    (isCovered, point) => !isCovered && (answers[point] ?? null) === null,
  );
  return at < 0 ? null : at;
}
