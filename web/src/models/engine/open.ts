/** From a model's name to a model that answers: files, hashes, words, and a place to compute. */
import type { MakeWorker } from "./connection";
import type { loadFile, OnBytes } from "./files";
import { OnnxHost } from "./onnx-host";
import { OwnHost } from "./own-host";
import { loadRuntime, type Provider, problemOf, runtimeFiles } from "./runtime";
import { Tokenizer } from "./tokenizer";
import type { ModelHost, OpenOptions } from "./types";
import {
  type Backend,
  type FileFacts,
  ModelError,
  type ModelIndex,
  type ModelInfo,
  type OnProgress,
} from "./types";

/** Where models come from, and how a worker is made; tests put others in their place. */
export interface Surroundings {
  index: ModelIndex;
  makeWorker: MakeWorker | null;
  load: typeof loadFile;
}

/** Counts the bytes of several files as one. */
class Counter {
  private readonly loaded = new Map<string, number>();
  private readonly total: number;

  constructor(
    files: readonly FileFacts[],
    private readonly onProgress: OnProgress,
  ) {
    this.total = files.reduce((sum, { size }) => sum + size, 0);
    this.say("loading");
  }

  of(file: FileFacts): OnBytes {
    return (bytes) => {
      this.loaded.set(file.path, bytes);
      this.say("loading");
    };
  }

  say(stage: "loading" | "preparing" | "ready"): void {
    const loaded = [...this.loaded.values()].reduce((sum, bytes) => sum + bytes, 0);
    const isWhole = stage !== "loading";
    this.onProgress({ stage, loaded: isWhole ? this.total : loaded, total: this.total });
  }
}

/** The words by the hash of their file: all models share them. */
const tokenizers = new Map<string, Promise<Tokenizer>>();

export async function open(
  name: string,
  { index, makeWorker, load }: Surroundings,
  { backend = "own", onProgress = () => {}, signal }: OpenOptions,
): Promise<ModelHost> {
  const info = index.models.find((model) => model.name === name);
  if (!info || !index.words)
    throw new ModelError(`The model ${name} is not part of this build of the page.`);
  const files = filesOf(info, backend, index);
  const counter = new Counter(files, onProgress);
  const provider = providerOf(backend);
  const problem = provider && (await problemOf(provider, index));
  if (problem) throw new ModelError(problem);
  const weights = provider ? info.onnx : info.weights;
  if (!weights) throw new ModelError(`The model ${name} has no ONNX file in this build.`);
  const tokenizer = await loadWords(index.words, load, counter);
  const bytes = await load(weights, counter.of(weights), signal);
  const wasm = files.find(({ path }) => path.endsWith(".wasm"));
  const runtime = provider && wasm && (await loadRuntime(provider, index, counter.of(wasm)));
  signal?.throwIfAborted();
  counter.say("preparing");
  const host =
    provider && runtime
      ? await OnnxHost.open(info, tokenizer, bytes, runtime, provider)
      : await OwnHost.open(info, tokenizer, bytes, makeWorker, signal);
  counter.say("ready");
  return host;
}

/** All files that a back end loads for a model, words included; their sizes are shown first. */
export function filesOf(info: ModelInfo, backend: Backend, index: ModelIndex): FileFacts[] {
  const words = index.words ? [index.words] : [];
  const provider = providerOf(backend);
  if (!provider) return [...words, info.weights];
  return [...words, ...(info.onnx ? [info.onnx] : []), ...runtimeFiles(provider, index)];
}

export function providerOf(backend: Backend): Provider | null {
  if (backend === "own") return null;
  return backend === "onnx-wasm" ? "wasm" : "webgpu";
}

/** The words, loaded once; a failure may be tried again. */
function loadWords(facts: FileFacts, load: typeof loadFile, counter: Counter): Promise<Tokenizer> {
  const known = tokenizers.get(facts.sha256);
  if (known) return known;
  const begun = load(facts, counter.of(facts)).then(
    (bytes) => new Tokenizer(JSON.parse(new TextDecoder().decode(bytes)) as string[]),
  );
  tokenizers.set(facts.sha256, begun);
  begun.catch(() => tokenizers.delete(facts.sha256));
  return begun;
}
