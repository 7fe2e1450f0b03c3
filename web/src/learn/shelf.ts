/**
 * Where the page keeps a learner's records: the browser's storage, a text of JSON lines a file.
 *
 * What cannot be read is set aside under another key. What cannot be kept stays until the page is
 * closed, and the learner is told. Nothing here throws, and nothing that was kept is thrown away.
 */

import {
  type Fields,
  type Line,
  type Lines,
  lineOf,
  merged,
  type Rule,
  readLines,
  textOf,
  wholeKey,
} from "./records";

/** The part of a browser's storage that is used. */
export type Storage = Pick<globalThis.Storage, "getItem" | "setItem" | "removeItem">;

/** No file that is brought in is longer than this many characters. */
export const LONGEST_FILE = 2_000_000;

export interface Shelf {
  readonly lines: readonly Line[];
  /** What the learner has to know; null where all is well. */
  readonly trouble: string | null;
  /** What could not be read, as it was found; "" for nothing. */
  readonly aside: string;
}

export interface Taken {
  /** What happened, in one sentence. */
  readonly says: string;
  readonly isRefused: boolean;
}

const NOT_KEPT = "keep them, save your records as a file before you close the page.";

export class RecordFile {
  /** Records that the storage would not take. */
  private unsaved: Line[] = [];

  constructor(
    /** As the terminal names the file, such as reviews.jsonl. */
    readonly name: string,
    private readonly rule: Rule,
    private readonly storage: () => Storage | null,
    /** What makes two records the same one. */
    private readonly keyOf: (line: Line) => string = wholeKey,
  ) {}

  get key(): string {
    return `manyheads-${this.name}`;
  }

  get asideKey(): string {
    return `${this.key}.aside`;
  }

  /** What is kept, and what the learner must know about it. */
  read(): Shelf {
    const stored = this.stored();
    if (stored === null) {
      return {
        lines: this.unsaved,
        trouble: `This browser does not let the page store your records; to ${NOT_KEPT}`,
        aside: "",
      };
    }
    const { lines, damaged } = readLines(stored, this.rule);
    if (damaged.length > 0) this.setAside({ lines, damaged });
    return {
      lines: [...lines, ...this.unsaved],
      trouble:
        this.unsaved.length > 0
          ? `The browser's storage is full. The last ${this.unsaved.length} of these records are not stored. To ${NOT_KEPT}`
          : null,
      aside: this.asideText(),
    };
  }

  /** Keep one more record. */
  add(fields: Fields): Shelf {
    this.unsaved = [...this.unsaved, lineOf(fields)];
    this.save((stored) => stored + textOf(this.unsaved));
    return this.read();
  }

  /** Bring in a file that was saved here or by the terminal. */
  take(text: string): Taken {
    if (text.length > LONGEST_FILE) {
      return refused(
        `The file is longer than ${LONGEST_FILE.toLocaleString("en")} characters: import a shorter one. Nothing was changed.`,
      );
    }
    const found = readLines(text, this.rule);
    if (found.lines.length === 0) return refused(nothingIn(found));
    const before = this.read().lines;
    const all = merged(before, found.lines, this.keyOf);
    const [first] = found.damaged;
    const left = first
      ? ` ${found.damaged.length} damaged ${found.damaged.length === 1 ? "line was" : "lines were"} left out; the first is line ${first.number}, which ${first.why}.`
      : "";
    if (!this.replace(all))
      return refused(
        `The browser's storage has no room for ${all.length} records. Nothing was changed.`,
      );
    return {
      says: `${all.length - before.length} of ${found.lines.length} records were new.${left}`,
      isRefused: false,
    };
  }

  /** All records as the terminal's file. */
  text(): string {
    return textOf(this.read().lines);
  }

  /** The learner has saved what was set aside, and wants it no more. */
  forgetAside(): void {
    this.attempt((storage) => storage.removeItem(this.asideKey));
  }

  private stored(): string | null {
    let text: string | null = null;
    const isDone = this.attempt((storage) => {
      text = storage.getItem(this.key) ?? "";
    });
    return isDone ? text : null;
  }

  private asideText(): string {
    let text = "";
    this.attempt((storage) => {
      text = storage.getItem(this.asideKey) ?? "";
    });
    return text;
  }

  /** Write the stored text again; records that could not be saved before are saved now. */
  private save(change: (stored: string) => string): boolean {
    const stored = this.stored();
    if (stored === null) return false;
    const whole = stored === "" || stored.endsWith("\n") ? stored : `${stored}\n`;
    const isDone = this.attempt((storage) => storage.setItem(this.key, change(whole)));
    if (isDone) this.unsaved = [];
    return isDone;
  }

  private replace(lines: readonly Line[]): boolean {
    const stored = this.stored();
    if (stored === null) {
      this.unsaved = [...lines];
      return true;
    }
    const { damaged } = readLines(stored, this.rule); // none, unless they could not be set aside
    const left = damaged.map(({ text }) => `${text}\n`).join("");
    return this.save(() => left + textOf(lines));
  }

  /** Damaged lines go to a key of their own, and only then leave the file. */
  private setAside({ lines, damaged }: Lines): void {
    const text = damaged.map((line) => `${line.text}\n`).join("");
    const before = this.asideText();
    const all = before.endsWith(text) ? before : before + text;
    const isDone = this.attempt((storage) => storage.setItem(this.asideKey, all));
    if (isDone) this.attempt((storage) => storage.setItem(this.key, textOf(lines)));
  }

  private attempt(act: (storage: Storage) => void): boolean {
    try {
      const storage = this.storage();
      if (!storage) return false;
      act(storage);
      return true;
    } catch {
      return false;
    }
  }
}

function refused(says: string): Taken {
  return { says, isRefused: true };
}

function nothingIn({ damaged: [first] }: Lines): string {
  if (!first) return "The file is empty. Nothing was changed.";
  return `The file has no record: line ${first.number} ${first.why}. Nothing was changed.`;
}

/** The browser's own storage, where the page may use it. */
export function browserStorage(): Storage | null {
  try {
    return globalThis.localStorage ?? null;
  } catch {
    return null;
  }
}
