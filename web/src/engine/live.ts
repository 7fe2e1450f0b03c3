/**
 * One sentence of an edited worksheet, as the views read it: each number with its name, the place that
 * edits it, and what it was in the worksheet as given.
 */

import { isBlocked, type Num } from "../numbers/exact";
import { isError } from "../numbers/parse";
import { type Solution, solve } from "./attention";
import { type Changes, editedSheet, givenSheet, solveOptions } from "./editing";
import { type Key, placeKeys, placeText } from "./places";
import { headDim, isPlainCount, outputNames, type Sheet, scaleOf, valueDim } from "./sheet";
import type { Quantity, Sequence, Worksheet } from "./types";

/** Two float64 closer than this, relative to their size, are the same number computed twice. */
const CLOSE = 1e-14;

function isChanged(now: Num, before: Num): boolean {
  if (now.value === before.value) return false;
  if (isBlocked(now) || isBlocked(before)) return true;
  const size = Math.max(Math.abs(now.value), Math.abs(before.value));
  return Math.abs(now.value - before.value) > CLOSE * size;
}

/** A number on the page; its exact text and its former value are worked out when they are asked for. */
export class LiveQuantity implements Quantity {
  private text: string | null | undefined;
  private was: LiveQuantity | null | undefined;

  constructor(
    readonly name: string,
    readonly number: Num,
    /** Where it is edited, for instance heads.0.W_Q[3][1]; null for a computed number. */
    readonly place: string | null,
    private readonly before: () => Num | null,
  ) {}

  get value(): number | null {
    return isBlocked(this.number) ? null : this.number.value;
  }

  get exact(): string | null {
    if (this.text === undefined) this.text = this.number.exact?.text() ?? null;
    return this.text;
  }

  /** The same number in the worksheet as given, where that is another one; else null. */
  get former(): LiveQuantity | null {
    if (this.was === undefined) {
      const before = this.before();
      const isOther = before !== null && isChanged(this.number, before);
      this.was = isOther ? new LiveQuantity(this.name, before, null, () => null) : null;
    }
    return this.was;
  }
}

export function isLive(quantity: Quantity): quantity is LiveQuantity {
  return quantity instanceof LiveQuantity;
}

/** Numbers under one name, as many axes as `shape` has. */
export class LiveTable {
  constructor(
    readonly shape: readonly number[],
    private readonly read: (index: number[]) => LiveQuantity,
  ) {}

  at(...index: number[]): LiveQuantity {
    return this.read(index);
  }

  row(...index: number[]): LiveQuantity[] {
    const length = this.shape[index.length] ?? 0;
    return Array.from({ length }, (_, last) => this.read([...index, last]));
  }

  matrix(...index: number[]): LiveQuantity[][] {
    const length = this.shape[index.length] ?? 0;
    return Array.from({ length }, (_, row) => this.row(...index, row));
  }
}

function found(sheet: Sheet, keys: readonly Key[]): unknown {
  if (keys.length === 1 && keys[0] === "scale") return scaleOf(sheet);
  return keys.reduce<unknown>((tree, key) => {
    const isNode = typeof tree === "object" && tree !== null && Object.hasOwn(tree, key);
    return isNode ? (tree as Record<Key, unknown>)[key] : undefined;
  }, sheet.given);
}

function numberAt(sheet: Sheet, keys: readonly Key[]): Num | null {
  const number = found(sheet, keys);
  return typeof number === "object" && number !== null && "low" in number ? (number as Num) : null;
}

function shapeOf(tree: unknown): number[] {
  return Array.isArray(tree) ? [tree.length, ...shapeOf(tree[0])] : [];
}

export class LiveSolved {
  /** The worksheet with the edits in it, before what-if choices. */
  readonly edited: Sheet;
  readonly solution: Solution;
  private readonly given: Sheet;
  private readonly before: Solution;
  private readonly beforeWide: Solution;

  constructor(
    readonly worksheet: Worksheet,
    readonly sequence: Sequence,
    readonly changes: Changes,
  ) {
    this.given = givenSheet(worksheet);
    this.edited = editedSheet(this.given, changes.edits);
    this.solution = solve(this.edited, sequence.name, solveOptions(changes));
    this.before = solvedAsGiven(this.given, sequence.name, false);
    this.beforeWide = changes.isWide ? solvedAsGiven(this.given, sequence.name, true) : this.before;
  }

  get sheet(): Sheet {
    return this.solution.sheet;
  }

  get tokens(): readonly string[] {
    return this.solution.tokens;
  }

  get features(): readonly string[] {
    return this.sheet.features;
  }

  get outputs(): readonly string[] {
    return outputNames(this.sheet);
  }

  get heads(): readonly { readonly label: string }[] {
    return this.sheet.given.heads;
  }

  get isCausal(): boolean {
    return this.sheet.isCausal;
  }

  /** A position as an axis names it: "6 river", or "3" where the token is no more than that. */
  axis(position: number): string {
    const token = this.tokens[position] ?? "";
    return isPlainCount(token, position) ? token : `${position + 1} ${token}`;
  }

  /** A position as a sentence names it: 6 “river”, or 3. */
  spoken(position: number): string {
    const token = this.tokens[position] ?? "";
    return isPlainCount(token, position) ? token : `${position + 1} \u201c${token}\u201d`;
  }

  /** A solved field, for instance `attn_weights`. */
  field(name: string): LiveTable {
    const shape = this.solution.shape(name);
    const start = `${this.worksheet.name}:${this.sequence.name}.${name}`;
    const isOfHeads = this.solution.fields.some(
      (field) => field.name === name && field.axes.startsWith("H"),
    );
    const before = isOfHeads ? this.beforeWide : this.before;
    return new LiveTable(shape, (index) => {
      const end = index.map((i) => `[${i}]`).join("");
      const number = this.solution.get(name, ...index);
      const place = name === "x" ? this.rowPlace(index) : null;
      return new LiveQuantity(start + end, number, place, () => before.get(name, ...index));
    });
  }

  /** Given numbers, for instance `table("heads", 0, "W_Q")`; null where the worksheet has none. */
  table(...keys: Key[]): LiveTable | null {
    const tree = found(this.sheet, keys);
    if (tree === undefined || tree === null) return null;
    return new LiveTable(shapeOf(tree), (index) => this.givenAt([...keys, ...index]));
  }

  headMatrix(head: number, name: "W_Q" | "W_K" | "W_V"): LiveTable {
    return this.required("heads", head, name);
  }

  private required(...keys: Key[]): LiveTable {
    const table = this.table(...keys);
    if (!table) throw new Error(`${this.worksheet.name} has no ${placeText(keys)}`);
    return table;
  }

  /** The embedding row of the token at a position, or null where rows are given whole. */
  tokenRow(position: number): LiveQuantity[] | null {
    const key = this.sequence.token_keys?.[position];
    return key === undefined ? null : (this.table("token_embedding", key)?.row() ?? null);
  }

  /** W_O, which every worksheet has. */
  get outputMatrix(): LiveTable {
    return this.required("W_O");
  }

  /** 1/sqrt(head width), or as given. */
  get scale(): LiveQuantity {
    return this.required("scale").at();
  }

  get target(): string | null {
    return this.sequence.target;
  }

  /** The last source that a receiver may look at. */
  lastSeen(receiver: number): number {
    return this.isCausal ? receiver : this.tokens.length - 1;
  }

  /** The rows of W_O that belong to one head, as indices [from, to). */
  blockOf(head: number): [number, number] {
    const width = valueDim(this.sheet);
    return [head * width, (head + 1) * width];
  }

  /** How many numbers one head puts into the joined row. */
  get width(): number {
    return valueDim(this.sheet);
  }

  /** A number by its name, with or without the worksheet's; null where there is none. */
  named(name: string): LiveQuantity | null {
    const prefix = `${this.worksheet.name}:`;
    const keys = placeKeys(name.startsWith(prefix) ? name.slice(prefix.length) : name);
    if (isError(keys)) return null;
    const [first, second, ...index] = keys;
    if (first !== this.sequence.name) return this.lookedUp(keys);
    if (typeof second !== "string" || !this.solution.has(second)) return null;
    const shape = this.solution.shape(second);
    const fits =
      index.length === shape.length && index.every((i, at) => Number(i) < (shape[at] ?? 0));
    return fits ? this.field(second).at(...index.map(Number)) : null;
  }

  private lookedUp(keys: Key[]): LiveQuantity | null {
    return numberAt(this.sheet, keys) === null ? null : this.givenAt(keys);
  }

  private givenAt(keys: Key[]): LiveQuantity {
    const number = numberAt(this.sheet, keys);
    const name = placeText(keys);
    if (number === null) throw new Error(`no number ${this.worksheet.name}:${name}`);
    const home = this.homeOf(keys);
    /** A number that a what-if choice has set, such as a zero query, is not edited here. */
    const isShown = numberAt(this.edited, home)?.value === number.value && !this.isSet(keys);
    return new LiveQuantity(
      `${this.worksheet.name}:${name}`,
      number,
      isShown ? placeText(home) : null,
      () => numberAt(this.given, home),
    );
  }

  /** Whether a what-if choice stands over what is given at a place. */
  private isSet(keys: Key[]): boolean {
    const { headsOff, hasZeroQuery } = this.changes;
    const [first, , name] = keys;
    if (first !== "heads") return false;
    if (hasZeroQuery && (name === "W_Q" || name === "b_Q")) return true;
    const home = Number(this.homeOf(keys)[1]);
    return headsOff.includes(home) && (name === "W_V" || name === "b_V");
  }

  /** Where a number of the one wide head is given: in the head that brought its column. */
  private homeOf(keys: Key[]): Key[] {
    if (!this.changes.isWide || keys[0] !== "heads") return keys;
    const [heads, , name = "", ...index] = keys;
    const isValue = name === "W_V" || name === "b_V";
    const width = isValue ? valueDim(this.edited) : headDim(this.edited);
    const column = Number(index.at(-1) ?? 0);
    return [heads, Math.floor(column / width), name, ...index.slice(0, -1), column % width];
  }

  private rowPlace([t = 0, i = 0]: number[]): string | null {
    const isWhole = this.sequence.token_keys === null;
    return isWhole ? placeText(["sequences", this.sequence.name, "X", t, i]) : null;
  }
}

const answers = new Map<Sheet, Map<string, Solution>>();

/** The worksheet as given, solved once for each sentence. */
function solvedAsGiven(given: Sheet, sequence: string, wide: boolean): Solution {
  const known = answers.get(given) ?? new Map<string, Solution>();
  answers.set(given, known);
  const name = `${sequence}:${wide}`;
  const solution = known.get(name) ?? solve(given, sequence, { wide });
  known.set(name, solution);
  return solution;
}
