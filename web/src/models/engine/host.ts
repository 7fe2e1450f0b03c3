/** A loaded language model as the views use it, wherever its numbers are computed. */
import type {
  Backend,
  GenerateSettings,
  HeadSwitch,
  ModelInfo,
  OnProgress,
  ReadWord,
  Step,
  TextLoss,
  WindowView,
} from "./types";

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
