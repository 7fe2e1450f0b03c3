/** Reads numbers out of a worksheet and names each one, for `data-quantity`. */

import type { Nested, Numbers, Quantity, Sequence, Worksheet } from "./types";

function leaf<T>(tree: Nested<T>, indices: number[], name: string): T {
  let node = tree;
  for (const index of indices) {
    if (!Array.isArray(node) || node[index] === undefined) throw new Error(`no number ${name}`);
    node = node[index];
  }
  if (Array.isArray(node)) throw new Error(`${name} is a list, not a number`);
  return node;
}

function lengthAt<T>(tree: Nested<T>, indices: number[]): number {
  let node = tree;
  for (const index of indices) {
    if (!Array.isArray(node) || node[index] === undefined) return 0;
    node = node[index];
  }
  return Array.isArray(node) ? node.length : 0;
}

/** Numbers under one name, for instance `two-routes:main.q` or `two-routes:W_O`. */
export class Source {
  constructor(
    readonly name: string,
    readonly numbers: Numbers,
  ) {}

  at(...indices: number[]): Quantity {
    const name = this.name + indices.map((index) => `[${index}]`).join("");
    return {
      name,
      value: leaf(this.numbers.values, indices, name),
      exact: leaf(this.numbers.exact, indices, name),
    };
  }

  row(...indices: number[]): Quantity[] {
    const length = lengthAt(this.numbers.values, indices);
    return Array.from({ length }, (_, last) => this.at(...indices, last));
  }

  matrix(...indices: number[]): Quantity[][] {
    const length = lengthAt(this.numbers.values, indices);
    return Array.from({ length }, (_, row) => this.row(...indices, row));
  }
}

/** Whether a token only repeats its own place, as in worksheets without words. */
export function isPlainCount(token: string, position: number): boolean {
  return token === String(position + 1);
}

/** One sequence of a worksheet, solved. */
export class Solved {
  constructor(
    readonly worksheet: Worksheet,
    readonly sequence: Sequence,
  ) {}

  get tokens(): string[] {
    return this.sequence.tokens;
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

  field(field: string): Source {
    const numbers = this.sequence.fields[field];
    if (!numbers) throw new Error(`${this.worksheet.name} has no ${field}`);
    return new Source(`${this.worksheet.name}:${this.sequence.name}.${field}`, numbers);
  }

  /** A given number, under the path that edits it, for instance `heads.0.W_Q`. */
  given(path: string, numbers: Numbers): Source {
    return new Source(`${this.worksheet.name}:${path}`, numbers);
  }

  /** W_Q, W_K or W_V of one head. */
  headMatrix(head: number, name: "W_Q" | "W_K" | "W_V"): Source {
    const found = this.worksheet.heads[head];
    if (!found) throw new Error(`${this.worksheet.name} has no head ${head}`);
    return this.given(`heads.${head}.${name}`, found[name]);
  }

  /** The bias of one head, or null where the worksheet has none. */
  headBias(head: number, name: "b_Q" | "b_K" | "b_V"): Source | null {
    const numbers = this.worksheet.heads[head]?.[name];
    return numbers ? this.given(`heads.${head}.${name}`, numbers) : null;
  }

  /** The embedding row of the token at a position, or null where rows are given whole. */
  tokenRow(position: number): Quantity[] | null {
    const key = this.sequence.token_keys?.[position];
    if (key === undefined) return null;
    const numbers = this.worksheet.token_embedding?.[key];
    return numbers ? this.given(`token_embedding.${key}`, numbers).row() : null;
  }

  /** The rows of W_O that belong to one head, as indices [from, to). */
  blockOf(head: number): [number, number] {
    let from = 0;
    for (let before = 0; before < head; before += 1) from += this.widthOf(before);
    return [from, from + this.widthOf(head)];
  }

  /** How many numbers one head puts into the joined row. */
  widthOf(head: number): number {
    return this.field("head_outputs").row(head, 0).length;
  }
}
