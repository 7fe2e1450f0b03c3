/** What the page says and asks of the language models; no part of it computes anything. */

/** What a head does in place of its own weights: nothing ("off", removed before W_O), the mean of
 * all words that it sees ("uniform"), or the weights of another head (its number, from 0). */
export type HeadSwitch = "own" | "off" | "uniform" | number;

/** How the logits are computed: by the page's own engine, or by ONNX Runtime Web. */
export type Backend = "own" | "onnx-wasm" | "onnx-webgpu";

export type ModelKind = "fixed-window-mlp" | "attention";

/** Sizes of a model, as its file states them. */
export interface ModelConfig {
  kind: ModelKind;
  /** H; null for a model without heads. */
  num_heads: number | null;
  head_dim: number | null;
  pattern: "learned" | "uniform" | "shared";
  /** V, T, D and the units of the hidden layer. */
  vocab_size: number;
  context: number;
  width: number;
  hidden: number;
}

/** A file that is loaded on demand; its hash is compared before it is used. */
export interface FileFacts {
  /** Path from the page, such as "models/four-heads.safetensors". */
  path: string;
  /** Bytes. */
  size: number;
  sha256: string;
}

/** How often a model that continues a story says the hero's name again; shares from 0 to 1. */
export interface HeroFacts {
  /** Beginnings of validation stories, continuations of each, and their maximum length in words. */
  beginnings: number;
  seeds: number;
  max_tokens: number;
  share: number;
  /** 95 % interval over beginnings. */
  interval: [number, number];
  /** The same share for the name of another beginning, which is chance. */
  other_name: number;
}

/** A model that this page can load, and where its numbers come from (the *measured* badge). */
export interface ModelInfo {
  /** "mlp", "one-head" or "four-heads". */
  name: string;
  config: ModelConfig;
  weights: FileFacts;
  /** The same model for ONNX Runtime; null where this build has none. */
  onnx: FileFacts | null;
  /** Name of the training run, such as "four-heads-seed11". */
  run: string;
  seed: number;
  parameters: number;
  /** Nats per word: on the validation slice as shipped (float16), and on the test slice. */
  validation_loss: number;
  test_loss: number;
  /** null where it was not measured. */
  heroes: HeroFacts | null;
}

/** Everything that this page knows of its models before one is loaded. */
export interface ModelIndex {
  format: number;
  /** Name of the study and of its plan's hash; null where no model comes with this build. */
  study: { plan: string; plan_sha256: string; data: string } | null;
  words: FileFacts | null;
  models: ModelInfo[];
  /** ONNX Runtime Web, for each back end the files that it loads; null where this build has none. */
  runtime: { version: string; wasm: FileFacts[]; webgpu: FileFacts[] } | null;
}

/** How far loading has come. */
export interface Progress {
  stage: "loading" | "preparing" | "ready";
  /** Bytes so far and in all. */
  loaded: number;
  total: number;
}
export type OnProgress = (progress: Progress) => void;

/** How the next word is chosen, and when to end; docs/generate.md has the rule. */
export interface GenerateSettings {
  /** 0 takes the best word each time; 0.8 unless given. */
  temperature?: number;
  /** Draw from the K best words; null is 40, or all where there are fewer. */
  topK?: number | null;
  /** From 0 to 2**64 - 1; text or bigint where it passes 2**53. 0 unless given. */
  seed?: number | bigint | string;
  /** 1 to 100,000; 100 unless given. */
  maxTokens?: number;
  /** End with the word that completes this text; capitals do not matter. */
  stop?: string | null;
  /** One a head; all "own" unless given. */
  heads?: readonly HeadSwitch[];
}

export type Ending = "end of story" | "stop" | "max tokens";

/** One word of a story. */
export interface Step {
  id: number;
  word: string;
  /** The text that it adds, with a space before it where one belongs; "" for the end. */
  piece: string;
  /** What the model gave it among all words at temperature 1. */
  probability: number;
  /** The ids that the model saw, without padding; the last one asked. */
  context: number[];
  /** Why the story ends with this word; null where it goes on. */
  endedBy: Ending | null;
}

/** A word that may follow, with its probability among all words at temperature 1. */
export interface NextWord {
  id: number;
  word: string;
  probability: number;
  logit: number;
}

/** A text as the model reads it. */
export interface ReadWord {
  id: number;
  /** As typed, in lower case; "[BOS]" for the beginning. */
  word: string;
  /** The text that it adds; "" for the beginning. */
  piece: string;
  /** Whether the model has no row for it and reads [UNK]. */
  isUnknown: boolean;
}

/** Everything that the heads view shows of the current window, under the given switches. */
export interface WindowView {
  /** The ids of the window, S of them, and their words. */
  ids: number[];
  words: string[];
  /** Number of heads H (0 for a model without heads) and of words S. */
  numHeads: number;
  size: number;
  /** (H, S, S), receiver by source, row after row: the heads' own weights. Each row is that of the
   * last word of the words up to it, so it is what predicts the word after it. */
  ownWeights: Float32Array;
  /** (H, S, S): what counts under the switches; zero for a head that is off. */
  weights: Float32Array;
  /** Logits of the next word, (V,). */
  logits: Float32Array;
  /** The most probable next words, best first. */
  next: NextWord[];
}

/** How well the model expects a text, under the given switches. */
export interface TextLoss {
  /** Nats of each word after the beginning, predicted from the words before it (at most T of them). */
  losses: number[];
  /** Their mean, nats per word; null where there is no word. */
  mean: number | null;
}

/** How fast a back end is on this device, loading and warm-up excluded. */
export interface Timing {
  backend: Backend;
  /** Words a second; null where the back end cannot be used here. */
  tokensPerSecond: number | null;
  tokens: number;
  seconds: number;
  /** Largest difference of any logit from the own engine's, over the words timed. */
  largestGap: number | null;
  /** Why it cannot be used, in a sentence; null where it can. */
  problem: string | null;
}

/** An error that can be shown as it is: one sentence. */
export class ModelError extends Error {
  override name = "ModelError";
}

/** The calls of a model; every promise may be refused with a `ModelError`, one sentence to show. */
export interface ModelHost {
  readonly info: ModelInfo;
  readonly backend: Backend;
  /** The word of each id. */
  readonly words: readonly string[];
  /** Where the numbers are computed: in a worker, or on the page's own thread in short slices. */
  readonly place: "worker" | "page";
  /** A text as the model reads it: "[BOS]" first, unknown words marked as typed. */
  read(text: string): ReadWord[];
  /** What may follow the ids, (V,); the last T of them count. One switch a head. */
  logits(ids: readonly number[], heads?: readonly HeadSwitch[]): Promise<Float32Array>;
  /** All grids of the current window (the last T ids) and the next words; own engine only. */
  view(
    ids: readonly number[],
    heads?: readonly HeadSwitch[],
    options?: { count?: number },
  ): Promise<WindowView>;
  /** How well the model expects the ids, "[BOS]" first; own engine only. */
  textLoss(
    ids: readonly number[],
    heads?: readonly HeadSwitch[],
    options?: { signal?: AbortSignal },
  ): Promise<TextLoss>;
  /** Continue a text word by word; an aborted signal, or leaving the loop, ends it. */
  generate(
    prompt: string,
    settings?: GenerateSettings,
    options?: { signal?: AbortSignal },
  ): AsyncGenerator<Step, void, void>;
  /** Let go of the model and its worker. */
  close(): void;
}

export interface OpenOptions {
  /** "own" unless given. */
  backend?: Backend;
  onProgress?: OnProgress;
  signal?: AbortSignal;
}
