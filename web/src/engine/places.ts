/**
 * Places of given numbers: `heads.0.W_Q[3][1]`, `token_embedding["to be"][0]`, counted from 0.
 * `heads[0].W_Q[3][1]` is read as well; written is the first form, which edits and `data-quantity` use.
 */

import { type NumberError, quoted } from "../numbers/parse";

export type Key = string | number;

const WORD = /^[\p{L}_][\p{L}\p{N}_-]*$/u;
const STEP =
  /\.?([\p{L}_][\p{L}\p{N}_-]*)|\.([0-9]{1,6})(?![\p{L}\p{N}_])|\[([0-9]{1,6})\]|\[("(?:[^"\\]|\\.)*")\]/uy;
const MAX_PLACE = 300;
const EXAMPLE = "write it like heads.0.W_Q[3][1], from 0";

/** Read a place into its steps. */
export function placeKeys(place: string): Key[] | NumberError {
  const keys: Key[] = [];
  let end = 0;
  while (end < place.length && place.length <= MAX_PLACE) {
    STEP.lastIndex = end;
    const found = STEP.exec(place);
    if (!found || (end === 0 && (found[2] !== undefined || place.startsWith(".")))) break;
    const [text, word, dotted, index, name] = found;
    if (word !== undefined && end > 0 && !text.startsWith(".")) break;
    const key = word ?? (name === undefined ? Number(dotted ?? index) : unquoted(name));
    if (key === null) break;
    keys.push(key);
    end = STEP.lastIndex;
  }
  if (keys.length > 0 && end === place.length) return keys;
  return { error: `place (${quoted(place)}) cannot be read: ${EXAMPLE}` };
}

function unquoted(text: string): string | null {
  try {
    return String(JSON.parse(text));
  } catch {
    return null;
  }
}

/** Write a place from its steps: `("heads", 0, "W_Q", 3, 1)` is `heads.0.W_Q[3][1]`. */
export function placeText(keys: readonly Key[]): string {
  return keys.reduce<string>((place, key, at) => {
    if (typeof key === "number")
      return at === 1 && keys[0] === "heads" ? `${place}.${key}` : `${place}[${key}]`;
    if (!WORD.test(key)) return `${place}[${JSON.stringify(key)}]`;
    return place === "" ? key : `${place}.${key}`;
  }, "");
}
