/** ONNX Runtime Web, loaded from the page's own folder when it is chosen, and never before. */
import type * as Ort from "onnxruntime-web";
import { addressOf, isFromDisk, loadFile, type OnBytes } from "./files";
import { type FileFacts, ModelError, type ModelIndex } from "./types";

export type Runtime = typeof Ort;
export type Provider = "wasm" | "webgpu";

/** Milliseconds that the browser may take to name a graphics adapter. */
const ADAPTER_PATIENCE = 3000;

interface Gpu {
  requestAdapter(): Promise<unknown>;
}

const loading = new Map<Provider, Promise<Runtime>>();

/** Why a provider cannot be used on this device, in a sentence; null where it can. */
export async function problemOf(provider: Provider, index: ModelIndex): Promise<string | null> {
  if (isFromDisk())
    return "ONNX Runtime needs a served page: a page opened from disk may not load it.";
  if (!index.runtime) return "ONNX Runtime is not part of this build of the page.";
  return provider === "webgpu" ? adapterProblem() : null;
}

async function adapterProblem(): Promise<string | null> {
  const gpu = (globalThis.navigator as { gpu?: Gpu } | undefined)?.gpu;
  if (!gpu) return "This browser has no WebGPU.";
  const late = new Promise<"late">((resolve) => setTimeout(resolve, ADAPTER_PATIENCE, "late"));
  try {
    const adapter = await Promise.race([gpu.requestAdapter(), late]);
    if (adapter === "late") return "This browser did not find a graphics adapter within 3 seconds.";
    return adapter ? null : "This browser has WebGPU, but no graphics adapter for it.";
  } catch {
    return "This browser does not allow its graphics adapter.";
  }
}

/** Load the runtime of a provider, once; a failure may be tried again. */
export function loadRuntime(
  provider: Provider,
  index: ModelIndex,
  onBytes: OnBytes,
): Promise<Runtime> {
  const known = loading.get(provider);
  if (known) return known;
  const begun = begin(provider, index, onBytes);
  loading.set(provider, begun);
  begun.catch(() => loading.delete(provider));
  return begun;
}

/** The files of a provider: the script, the module that it imports, and the WebAssembly. */
export function runtimeFiles(provider: Provider, index: ModelIndex): FileFacts[] {
  return index.runtime?.[provider] ?? [];
}

async function begin(provider: Provider, index: ModelIndex, onBytes: OnBytes): Promise<Runtime> {
  const files = runtimeFiles(provider, index);
  const [script, module, wasm] = [".js", ".mjs", ".wasm"].map((ending) =>
    files.find(({ path }) => path.endsWith(ending)),
  );
  if (!script || !module || !wasm)
    throw new ModelError("ONNX Runtime is not part of this build of the page.");
  const binary = await loadFile(wasm, onBytes);
  const runtime = await runScript(script);
  Object.assign(runtime.env.wasm, {
    numThreads: 1, // several would need headers that a plain folder cannot send
    proxy: false,
    wasmBinary: binary.buffer,
    wasmPaths: { mjs: addressOf(module.path), wasm: addressOf(wasm.path) },
  });
  return runtime;
}

/** Run the script, whose hash the browser compares; it leaves one global name. */
function runScript({ path, sha256 }: FileFacts): Promise<Runtime> {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.integrity = `sha256-${btoa(String.fromCharCode(...bytesOfHex(sha256)))}`;
    script.onload = () => {
      const { ort } = globalThis as { ort?: Runtime };
      script.remove();
      if (ort) resolve(ort);
      else reject(new ModelError(`The file ${path} is not ONNX Runtime.`));
    };
    script.onerror = () => {
      script.remove();
      reject(new ModelError(`The file ${path} cannot be loaded, or was changed.`));
    };
    script.src = addressOf(path);
    document.head.append(script);
  });
}

function bytesOfHex(digits: string): number[] {
  return (digits.match(/../g) ?? []).map((pair) => Number.parseInt(pair, 16));
}
