/** Marks a number that was typed, by computing it again; the terminal marks by the same rule. */

import { decimal, type Num } from "../numbers/exact";
import { isError, parseNumber } from "../numbers/parse";
import { howClose, LEAST_DIGITS, typedNumber } from "./typed";

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
  const says = `Close, but too few digits to tell: a fraction will do, or ${LEAST_DIGITS} digits.`;
  return { isRight: false, says };
}

function numberOf({ exact, value }: Wanted): Num {
  const read = exact === null ? null : parseNumber(exact);
  return read === null || isError(read) ? decimal({ value, low: 0 }) : read;
}
