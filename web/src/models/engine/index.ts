/** The language models of the page: which there are, how one is opened, and how fast it is here. */

import built from "../../generated/models.json";
import EngineWorker from "./engine.worker.ts?worker&inline";
import { loadFile } from "./files";
import { filesOf, open, providerOf, type Surroundings } from "./open";
import { problemOf } from "./runtime";
import { type TimingOptions, timeEach } from "./timing";
import type { Backend, ModelHost, ModelIndex, ModelInfo, OpenOptions, Timing } from "./types";

export { Joiner, splitWords, Tokenizer } from "./tokenizer";
export type * from "./types";
export type { ModelHost, OpenOptions } from "./types";
export { ModelError } from "./types";

/** What this build of the page knows of its models. */
export const modelIndex = built as unknown as ModelIndex;
export const BACKENDS: readonly Backend[] = ["own", "onnx-wasm", "onnx-webgpu"];
const HERE: Surroundings = { index: modelIndex, makeWorker, load: loadFile };

/** What choosing a back end means, said before anything is loaded. */
export interface BackendChoice {
  backend: Backend;
  /** Bytes that are loaded, words and model included. */
  bytes: number;
  /** Why it cannot be used here, in a sentence; null where it can. */
  problem: string | null;
}

/**
 * Load a model, verify it, and make it ready.
 *
 * @throws ModelError it is absent, damaged, changed, or the back end cannot be used here.
 */
export function openModel(name: string, options: OpenOptions = {}): Promise<ModelHost> {
  return open(name, HERE, options);
}

/** The back ends for a model, with sizes; asks the browser for a graphics adapter, loads nothing. */
export function backendChoices(info: ModelInfo): Promise<BackendChoice[]> {
  return Promise.all(
    BACKENDS.map(async (backend) => {
      const provider = providerOf(backend);
      const files = filesOf(info, backend, modelIndex);
      return {
        backend,
        bytes: files.reduce((sum, { size }) => sum + size, 0),
        problem: provider && (await problemOf(provider, modelIndex)),
      };
    }),
  );
}

/** Time back ends with a model on this device, and say which is fastest. */
export function timeBackends(
  name: string,
  options: TimingOptions & OpenOptions & { backends?: readonly Backend[] } = {},
): Promise<{ timings: Timing[]; fastest: Backend | null }> {
  const { backends = BACKENDS, ...rest } = options;
  const openOn = (backend: Backend) => openModel(name, { ...rest, backend });
  return timeEach(backends, openOn, rest);
}

/** A new worker; throws where workers are refused. */
export function makeWorker(): Worker {
  return new EngineWorker();
}
