/** Given numbers as a reader names them, counted from 1: W_Q of head 1, water, column 2. */

import type { Key } from "./places";
import type { Sheet } from "./sheet";

type Label = (sheet: Sheet, index: number[], name: string) => string;

function feature(sheet: Sheet, at = 0): string {
  const name = sheet.features[at] ?? "";
  return /^\d*$/.test(name) ? `feature ${at + 1}` : name;
}

function one(what: string, at = 0): string {
  return `${what} ${at + 1}`;
}

function word(sheet: Sheet, at = 0): string {
  return `\u201c${sheet.vocabulary[at] ?? at + 1}\u201d`;
}

const PREDICTION: Readonly<Record<string, Label>> = {
  W_hidden: (sheet, [j, u]) => `W_hidden, ${feature(sheet, j)}, ${one("unit", u)}`,
  b_hidden: (_, [u]) => `b_hidden, ${one("unit", u)}`,
  W_vocab: (sheet, [u, w]) => `W_vocab, ${one("unit", u)}, word ${word(sheet, w)}`,
  b_vocab: (sheet, [w]) => `b_vocab, word ${word(sheet, w)}`,
};

const PLAIN: Readonly<Record<string, Label>> = {
  scale: () => "scale",
  W_O: (sheet, [j, i]) => `W_O, ${one("row", j)}, ${feature(sheet, i)}`,
  b_O: (sheet, [i]) => `b_O, ${feature(sheet, i)}`,
  token_embedding: (sheet, [i], name) => `token row of \u201c${name}\u201d, ${feature(sheet, i)}`,
  position_embedding: (sheet, [t, i]) => `position row ${(t ?? 0) + 1}, ${feature(sheet, i)}`,
  sequences: (sheet, [t, i]) => `${one("row", t)} of X, ${feature(sheet, i)}`,
};

function headLabel(sheet: Sheet, name: string, index: number[]): string {
  const [head = 0, ...rest] = index;
  const column = one("column", rest.at(-1));
  const row = rest.length > 1 ? `${feature(sheet, rest[0])}, ` : "";
  return `${name} of head ${head + 1}, ${row}${column}`;
}

/** What a given number is, from the steps of its place. */
export function placeLabel(sheet: Sheet, keys: readonly Key[]): string {
  const [first = "", second = ""] = keys;
  const index = keys.filter((key) => typeof key === "number");
  if (first === "heads") return headLabel(sheet, String(keys[2]), index);
  const label = first === "prediction" ? PREDICTION[second] : PLAIN[first];
  return label?.(sheet, index, String(second)) ?? keys.join(" ");
}
