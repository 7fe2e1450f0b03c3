/** PCG32, the generator of chance that `manyheads generate` draws from: PCG-XSH-RR 64/32. */
import { ModelError } from "./types";

const MULTIPLIER = 6364136223846793005n;
const STREAM = 54n;

/** A seed as a whole number from 0 to 2**64 - 1. */
export function seedFrom(seed: number | bigint | string): bigint {
  const text = typeof seed === "string" ? seed.trim() : String(seed);
  const value = /^\d{1,20}$/.test(text) ? BigInt(text) : -1n;
  if (value < 0n || value >= 1n << 64n || (typeof seed === "number" && !Number.isSafeInteger(seed)))
    throw new ModelError(`seed (${text}) must be between 0 and 2**64 - 1: use another.`);
  return value;
}

/** 64 bits of state, 32 bits a draw. Source: O'Neill 2014, section 6.3. */
export class PCG32 {
  private state = 0n;
  private readonly increment: bigint;

  constructor(seed: number | bigint | string, stream = STREAM) {
    this.increment = (stream << 1n) | 1n;
    this.nextU32();
    this.state = BigInt.asUintN(64, this.state + seedFrom(seed));
    this.nextU32();
  }

  /** A whole number from 0 to 2**32 - 1. */
  nextU32(): number {
    const old = this.state;
    this.state = BigInt.asUintN(64, old * MULTIPLIER + this.increment);
    const shifted = Number(BigInt.asUintN(32, ((old >> 18n) ^ old) >> 27n));
    const turn = Number(old >> 59n);
    return ((shifted >>> turn) | (shifted << (-turn & 31))) >>> 0;
  }

  /** A number from 0 up to, and never, 1: `nextU32` / 2**32. */
  uniform(): number {
    return this.nextU32() / 2 ** 32;
  }
}
