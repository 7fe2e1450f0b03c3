/** Chance for exercises: whole numbers from a PCG32 stream a kind, the terminal's own. */

import { PCG32 } from "../../models/engine/pcg32";
import { at } from "./sums";

export class Draws {
  private readonly chance: PCG32;

  constructor(seed: number, stream: number) {
    this.chance = new PCG32(seed, BigInt(stream));
  }

  /** One draw: `nextU32` modulo `count`. */
  below(count: number): number {
    return this.chance.nextU32() % count;
  }

  /** One draw: a whole number from low to high, both included. */
  between(low: number, high: number): number {
    return low + this.below(high - low + 1);
  }

  /** One draw: one of the options. */
  choose<T>(options: readonly T[]): T {
    return at(options, this.below(options.length));
  }

  /** `count` draws: one option each. */
  row(count: number, options: readonly number[]): number[] {
    return Array.from({ length: count }, () => this.choose(options));
  }

  /** `rows * columns` draws, row by row. */
  matrix(rows: number, columns: number, options: readonly number[]): number[][] {
    return Array.from({ length: rows }, () => this.row(columns, options));
  }
}
