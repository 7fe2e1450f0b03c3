/** Marking: an answer is right, agrees with a known mistake, or is wrong in another way. */

import type { Row } from "../../engine/sheet";
import { isError } from "../../numbers/parse";
import { type Closeness, howClose, LEAST_DIGITS, type Typed, typedNumbers } from "../typed";
import type { Exercise, Misconception } from "./shipped";

export interface Mark {
  /** Whether every number is right. */
  readonly isRight: boolean;
  /** False where it cannot be judged: unreadable, too few numbers or digits; try again. */
  readonly isJudged: boolean;
  /** The known mistakes that give exactly these numbers. */
  readonly misconceptions: readonly Misconception[];
  /** One line to the learner. */
  readonly says: string;
}

/**
 * Mark what a learner typed: the numbers asked, in order.
 *
 * A decimal with at least three significant digits or decimals counts as any number that rounds to it;
 * everything else must be exact. A misconception is named only where every number agrees.
 */
export function mark(exercise: Exercise, typed: string): Mark {
  const numbers = typedNumbers(typed);
  if (isError(numbers)) {
    return { isRight: false, isJudged: false, misconceptions: [], says: numbers.error };
  }
  const closeness = closenessOf(numbers, exercise.answer);
  if (agrees(closeness)) {
    return { isRight: true, isJudged: true, misconceptions: [], says: "Right." };
  }
  const found = exercise.misconceptions.filter(({ values }) =>
    agrees(closenessOf(numbers, values)),
  );
  return {
    isRight: false,
    isJudged: found.length > 0 || closeness.includes("other"),
    misconceptions: found,
    says: messageFor(exercise, numbers, closeness, found),
  };
}

/** How close each number is to its value; empty where their counts differ. */
function closenessOf(numbers: readonly Typed[], values: Row): Closeness[] {
  if (numbers.length !== values.length) return [];
  return values.flatMap((value, i) => {
    const number = numbers[i];
    return number ? [howClose(number, value)] : [];
  });
}

function agrees(closeness: readonly Closeness[]): boolean {
  return closeness.length > 0 && closeness.every(isRight);
}

function isRight(how: Closeness): boolean {
  return how === "same" || how === "rounded";
}

function messageFor(
  { asks }: Exercise,
  numbers: readonly Typed[],
  closeness: readonly Closeness[],
  found: readonly Misconception[],
): string {
  if (found.length > 0) return `Not right. ${found.map(({ says }) => says).join(" Or: ")}`;
  if (closeness.length === 0) {
    const count = numbers.length;
    const typed = `${count} number${count > 1 ? "s" : ""}`;
    return `You typed ${typed}; type ${asks.length}: ${asks.join(", ")}.`;
  }
  if (!closeness.includes("other")) {
    const coarse = numbers[closeness.indexOf("coarse")]?.text ?? "";
    return `${coarse} has too few digits: type ${LEAST_DIGITS} decimals or a fraction.`;
  }
  const right = closeness.filter(isRight).length;
  const verb = right === 1 ? "is" : "are";
  return `Not right: ${right} of ${closeness.length} numbers ${verb} right, and no known mistake gives these numbers.`;
}
