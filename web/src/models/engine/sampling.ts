/** From logits to the next word, by the rule of docs/generate.md: the best one, or a seeded draw. */

import { type GenerateSettings, ModelError } from "./types";

export const PAD_ID = 0;
export const BOS_ID = 1;
export const EOS_ID = 2;
export const UNK_ID = 3;
/** Words that no story goes on with. */
const NEVER_CHOSEN = [PAD_ID, BOS_ID, UNK_ID];
const DEFAULT_TOP_K = 40;

/** Checked settings of a choice. */
export interface Sampling {
  temperature: number;
  /** null is 40, or all words where there are fewer. */
  topK: number | null;
  seed: bigint;
}

/** Check settings for a vocabulary of this many words. */
export function samplingFrom(settings: GenerateSettings, vocabSize: number): Sampling {
  const { temperature = 0.8, topK = null, seed = 0 } = settings;
  if (!(temperature >= 0 && temperature < Infinity))
    throw new ModelError(
      `temperature (${temperature}) must be a finite number of at least 0: use 0 for the most probable word, or a number such as 0.8.`,
    );
  const most = vocabSize - NEVER_CHOSEN.length;
  if (topK !== null && !(Number.isInteger(topK) && topK >= 1 && topK <= most))
    throw new ModelError(
      `top-k (${topK}) must be a whole number from 1 to ${most}, the words that can be chosen: use another.`,
    );
  return { temperature, topK, seed: seedFrom(seed) };
}

/** The id of the next word; one number is drawn, or none at temperature 0. */
export function chooseWord(
  logits: ArrayLike<number>,
  sampling: Sampling,
  draws: PCG32,
  vocabSize = logits.length,
): number {
  const scores = allowedScores(logits, vocabSize);
  const count = sampling.topK ?? Math.min(DEFAULT_TOP_K, vocabSize - NEVER_CHOSEN.length);
  if (sampling.temperature === 0) return bestWords(scores, 1)[0] ?? EOS_ID;
  const words = bestWords(scores, count);
  return drawn(words, scores, sampling.temperature, draws.uniform());
}

/** The logits in float64, with those of words that are never chosen at minus infinity. */
function allowedScores(logits: ArrayLike<number>, vocabSize: number): Float64Array {
  const scores = new Float64Array(vocabSize);
  for (let id = 0; id < vocabSize; id++) {
    const score = logits[id] ?? Number.NaN;
    if (!Number.isFinite(score))
      throw new ModelError(`The model's logit of word ${id} is not a finite number (${score}).`);
    scores[id] = score;
  }
  for (const id of NEVER_CHOSEN) scores[id] = -Infinity;
  return scores;
}

/** The ids of the best words, best first; of equal ones the lowest id first. */
export function bestWords(scores: ArrayLike<number>, count: number): number[] {
  const least = nthBest(scores, count);
  const able: number[] = [];
  for (let id = 0; id < scores.length; id++) if ((scores[id] ?? 0) >= least) able.push(id);
  return able.sort((a, b) => (scores[b] ?? 0) - (scores[a] ?? 0) || a - b).slice(0, count);
}

/** The score that `count` words reach: found by parting the scores, without sorting all of them. */
function nthBest(scores: ArrayLike<number>, count: number): number {
  if (count >= scores.length) return -Infinity;
  const rest = new Float64Array(scores);
  let [begin, end] = [0, rest.length - 1];
  while (begin < end) {
    const pivot = rest[(begin + end) >> 1] as number;
    let [i, j] = [begin, end];
    while (i <= j) {
      while ((rest[i] as number) > pivot) i++;
      while ((rest[j] as number) < pivot) j--;
      if (i > j) break;
      const kept = rest[i] as number;
      rest[i++] = rest[j] as number;
      rest[j--] = kept;
    }
    if (count - 1 <= j) end = j;
    else if (count - 1 >= i) begin = i;
    else break;
  }
  return rest[count - 1] ?? -Infinity;
}

/** The first word at which the sum of probabilities so far exceeds u. */
function drawn(words: number[], scores: Float64Array, temperature: number, u: number): number {
  const first = scores[words[0] ?? 0] ?? 0;
  const parts = words.map((word) => Math.exp(((scores[word] ?? 0) - first) / temperature));
  let total = 0;
  for (const part of parts) total += part;
  let reached = 0;
  for (const [place, part] of parts.entries()) {
    reached += part / total;
    if (reached > u) return words[place] ?? EOS_ID;
  }
  return words[words.length - 1] ?? EOS_ID; // rounding left the sum of all a little below u
}

/** ln of the sum of exp of all logits, in float64. */
export function logSumExp(logits: ArrayLike<number>): number {
  let most = -Infinity;
  for (let id = 0; id < logits.length; id++) most = Math.max(most, logits[id] ?? -Infinity);
  let sum = 0;
  for (let id = 0; id < logits.length; id++) sum += Math.exp((logits[id] ?? -Infinity) - most);
  return most + Math.log(sum);
}

/** What the model gives a word: softmax over all logits, at temperature 1. */
export function probabilityOf(logits: ArrayLike<number>, id: number): number {
  return Math.exp((logits[id] ?? -Infinity) - logSumExp(logits));
}

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
