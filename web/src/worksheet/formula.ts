/** A formula as parts to show: its result, its numbers, and the text between them. */

import type { Explanation } from "../engine/explain";

export interface FormulaPart {
  text: string;
  /** The full name of a number that can be explained in turn. */
  number?: string;
  isResult?: boolean;
}

const MINUS = "\u2212";
/** No line is broken here. */
const JOINED = "\u2060";

/** The text between numbers, without a break after an opening bracket or before a closing one. */
function between(text: string): string {
  return text.replace(/[(^]$/, `$&${JOINED}`).replace(/^\)/, `${JOINED}$&`);
}

/**
 * The parts in order, the result first. Where a negative number is subtracted as a positive one, it is
 * written with its own sign in brackets, so that the text of a number is always that number.
 */
export function formulaParts({ pieces }: Explanation): FormulaPart[] {
  const [result, ...rest] = pieces;
  const parts: FormulaPart[] = [
    { text: typeof result === "string" ? result : (result?.text ?? ""), isResult: true },
  ];
  for (const piece of rest) {
    if (typeof piece === "string") {
      parts.push({ text: between(piece) });
      continue;
    }
    const before = parts.at(-1);
    if (!piece.isTurned || !before) {
      parts.push({ text: piece.text, number: piece.quantity });
      continue;
    }
    before.text = before.text.replace(MINUS, "+");
    const number = { text: MINUS + piece.text, number: piece.quantity };
    parts.push({ text: between("(") }, number, { text: between(")") });
  }
  return parts;
}
