/** Words and their numbers, by the rules of `manyheads.data.tokens`: lower-case words, numbers and
 * single marks; curly quotes become straight ones. */
import { BOS_ID, UNK_ID } from "./sampling";
import { ModelError, type ReadWord } from "./types";

const SPECIAL_WORDS = ["[PAD]", "[BOS]", "[EOS]", "[UNK]"];
// Not \s, which counts U+FEFF as a space and U+0085 as none.
const SPACE = String.raw`\t-\r\x85\p{Z}`;
const MARK = String.raw`[\p{L}\p{M}]`;
const PIECE = new RegExp(
  String.raw`${MARK}+(?:'${MARK}+)*|\p{N}+|[^${SPACE}\p{L}\p{M}\p{N}]`,
  "gu",
);
const HALF_CHARACTER = /\p{Cs}/u;
const STRAIGHT: ReadonlyMap<string, string> = new Map([
  ["\u2018", "'"],
  ["\u2019", "'"],
  ["\u201c", '"'],
  ["\u201d", '"'],
  ["\u2026", "..."],
]);

/** Cut text into words, in lower case. */
export function splitWords(text: string): string[] {
  if (HALF_CHARACTER.test(text))
    throw new ModelError("The text must contain whole characters: type it again.");
  let plain = "";
  // A character at a time: a whole word's lower case has rules of its own, for the final sigma.
  for (const character of text.normalize("NFC")) {
    const lower = character.toLowerCase();
    plain += STRAIGHT.get(lower) ?? lower;
  }
  return plain.match(PIECE) ?? [];
}

/** The tokeniser of the study: a list of words, the id of each its place. */
export class Tokenizer {
  private readonly ids: ReadonlyMap<string, number>;

  constructor(readonly words: readonly string[]) {
    if (SPECIAL_WORDS.some((word, id) => words[id] !== word))
      throw new ModelError(`The list of words must begin with ${SPECIAL_WORDS.join(", ")}.`);
    this.ids = new Map(words.map((word, id) => [word, id]));
  }

  /** The ids of a text's words, `[UNK]` where a word is not in the list. */
  encode(text: string): number[] {
    return splitWords(text).map((word) => this.ids.get(word) ?? UNK_ID);
  }

  /** Readable text of ids. */
  decode(ids: readonly number[]): string {
    const joiner = new Joiner();
    return ids.map((id) => joiner.piece(this.words[id] ?? "")).join("");
  }

  /** A text as the model reads it, the beginning first; unknown words stay as typed. */
  read(text: string): ReadWord[] {
    const joiner = new Joiner();
    const begin = { id: BOS_ID, word: SPECIAL_WORDS[BOS_ID] ?? "", piece: "", isUnknown: false };
    const read = splitWords(text).map((word) => {
      const id = this.ids.get(word);
      return { id: id ?? UNK_ID, word, piece: joiner.piece(word), isUnknown: id === undefined };
    });
    return [begin, ...read];
  }
}

const NO_SPACE_BEFORE = new Set(".,!?;:)]}%");
const NO_SPACE_AFTER = new Set("([{$#");

/** Puts words back into readable text one at a time; quotation marks open and close in turn. */
export class Joiner {
  private glue = true; // whether the next word follows without a space
  private isQuoted = false;

  /** The text that this word adds: itself, with a space before it where one belongs. */
  piece(word: string): string {
    let glued = this.glue || NO_SPACE_BEFORE.has(word);
    this.glue = NO_SPACE_AFTER.has(word);
    if (word === '"') {
      glued ||= this.isQuoted;
      this.isQuoted = !this.isQuoted;
      this.glue = this.isQuoted;
    }
    return glued ? word : ` ${word}`;
  }
}

/** A text in which upper and lower case are the same, as Python's `str.casefold` has it. */
export function caseFolded(text: string): string {
  let folded = "";
  for (const character of text) {
    // By way of the upper case, which also joins what has two lower cases (s, long s); but for the
    // dotless i, whose upper case is that of the dotted one.
    const lower = character.toLowerCase();
    for (const upper of character === "\u0131" ? character : lower.toUpperCase())
      folded += upper === "\u0131" ? upper : upper.toLowerCase();
  }
  return folded;
}
