/** A story, word by word: the window slides, a model says what may follow, a rule chooses. */
import { BOS_ID, chooseWord, EOS_ID, PCG32, probabilityOf, samplingFrom } from "./sampling";
import { caseFolded, Joiner, splitWords, type Tokenizer } from "./tokenizer";
import { type Ending, type GenerateSettings, ModelError, type Step } from "./types";

const MAX_TOKENS = 100_000;

/** Says what may follow the ids: logits (V,). */
export type AskLogits = (ids: readonly number[]) => Promise<Float32Array>;

/** What ends a story, checked. */
interface Limits {
  maxTokens: number;
  stop: string | null;
}

/**
 * Continue a text word by word; the same settings give the same words as `manyheads generate`.
 *
 * Settings are checked when the first word is asked for.
 *
 * @param ask says what may follow a window of at most `context` ids.
 */
export async function* generate(
  ask: AskLogits,
  tokenizer: Tokenizer,
  context: number,
  prompt: string,
  settings: GenerateSettings = {},
  signal?: AbortSignal,
): AsyncGenerator<Step, void, void> {
  const { words } = tokenizer;
  const sampling = samplingFrom(settings, words.length);
  const limits = limitsFrom(settings);
  const draws = new PCG32(sampling.seed);
  const joiner = new Joiner();
  for (const word of splitWords(prompt)) joiner.piece(word);
  const ids = [BOS_ID, ...tokenizer.encode(prompt)];
  let tail = "";
  for (let number = 1; !signal?.aborted; number++) {
    const window = ids.slice(-context);
    const logits = await ask(window);
    if (signal?.aborted) return;
    const id = chooseWord(logits, sampling, draws, words.length);
    const word = words[id] ?? "";
    ids.push(id);
    const piece = id === EOS_ID ? "" : joiner.piece(word);
    if (limits.stop !== null) tail = tail.slice(-limits.stop.length) + caseFolded(piece);
    const endedBy = endingOf(id, tail, number, limits);
    yield { id, word, piece, probability: probabilityOf(logits, id), context: window, endedBy };
    if (endedBy) return;
  }
}

function limitsFrom({ maxTokens = 100, stop = null }: GenerateSettings): Limits {
  if (!(Number.isInteger(maxTokens) && maxTokens >= 1 && maxTokens <= MAX_TOKENS))
    throw new ModelError(
      `length (${maxTokens}) must be from 1 to 100,000: use a number in this range.`,
    );
  if (stop !== null && stop.trim() === "")
    throw new ModelError("stop must not be empty: leave it out to continue.");
  return { maxTokens, stop: stop === null ? null : caseFolded(stop) };
}

function endingOf(id: number, tail: string, number: number, limits: Limits): Ending | null {
  if (id === EOS_ID) return "end of story";
  if (limits.stop !== null && tail.includes(limits.stop)) return "stop";
  return number === limits.maxTokens ? "max tokens" : null;
}
