/** The page's own engine as answers to messages; the same code runs in a worker and on the page. */
import { AttentionModel } from "./attention-model";
import { FixedWindowModel } from "./fixed-window";
import type { Grids, LanguageModel } from "./language-model";
import { type ModelFile, readModelFile } from "./safetensors";
import { logSumExp } from "./sampling";
import { inSlices } from "./slices";
import { type HeadSwitch, ModelError } from "./types";

/** A call of the engine; `open` comes first. */
export type Call =
  | { name: "open"; bytes: Uint8Array<ArrayBuffer> }
  | { name: "logits" | "view" | "losses"; ids: readonly number[]; heads?: readonly HeadSwitch[] }
  | { name: "cancel"; request: number };

/** What each call gives. */
export interface Results {
  open: null;
  logits: Float32Array;
  view: { grids: Grids; logits: Float32Array };
  losses: number[];
  cancel: null;
}

export interface Request {
  request: number;
  call: Call;
}

export interface Reply {
  /** The request; 0 says that the engine is there. */
  request: number;
  value?: Results[keyof Results];
  /** Why there is no value; a sentence to show where `isShown`. */
  error?: string;
  isShown?: boolean;
}

/** A worker's global scope, or one end of a channel. */
export interface Port {
  postMessage(message: Reply, transfer: Transferable[]): void;
  onmessage: ((event: MessageEvent<Request>) => void) | null;
}

/**
 * Answer all requests that come through a port.
 *
 * @param budget milliseconds of work without a pause; a worker may take longer than the page.
 */
export function serveEngine(port: Port, budget?: number): void {
  const engine = new Engine();
  const running = new Map<number, AbortController>();
  port.onmessage = async ({ data: { request, call } }) => {
    if (call.name === "cancel") return running.get(call.request)?.abort();
    const control = new AbortController();
    running.set(request, control);
    try {
      const value = await inSlices(engine.answer(call), control.signal, budget);
      port.postMessage({ request, value }, buffersOf(value));
    } catch (error) {
      const isShown = error instanceof ModelError;
      port.postMessage({ request, error: errorText(error), isShown }, []);
    } finally {
      running.delete(request);
    }
  };
  port.postMessage({ request: 0 }, []);
}

class Engine {
  private model: LanguageModel | null = null;

  *answer(call: Call): Generator<void, Results[keyof Results], void> {
    if (call.name === "cancel") return null;
    if (call.name === "open") {
      this.model = modelFrom(yield* readModelFile(call.bytes));
      return null;
    }
    if (!this.model) throw new ModelError("No model is loaded.");
    if (call.name === "logits") return this.model.logits(call.ids, call.heads);
    if (call.name === "losses") return yield* lossesOf(this.model, call.ids, call.heads);
    const grids = this.model.grids(call.ids, call.heads);
    yield;
    return { grids, logits: this.model.logits(call.ids, call.heads) };
  }
}

/** The model that a file holds. */
export function modelFrom(file: ModelFile): LanguageModel {
  return file.config.kind === "attention" ? new AttentionModel(file) : new FixedWindowModel(file);
}

/** Nats of each id after the first, predicted from those before it; a pause after each. */
export function* lossesOf(
  model: LanguageModel,
  ids: readonly number[],
  heads?: readonly HeadSwitch[],
): Generator<void, number[], void> {
  const losses: number[] = [];
  for (let end = 1; end < ids.length; end++) {
    const logits = model.logits(ids.slice(Math.max(0, end - model.config.context), end), heads);
    losses.push(logSumExp(logits) - (logits[ids[end] ?? -1] ?? Number.NaN));
    yield;
  }
  return losses;
}

function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function buffersOf(value: Results[keyof Results]): ArrayBuffer[] {
  const arrays =
    value instanceof Float32Array
      ? [value]
      : value && "grids" in value
        ? [value.grids.ownWeights, value.grids.weights, value.logits]
        : [];
  return [...new Set(arrays.map((array) => array.buffer as ArrayBuffer))];
}
