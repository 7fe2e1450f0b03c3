/** A model of two heads and six words, written as a file byte by byte, apart from Python's writer. */
import { modelFrom } from "../../src/models/engine/engine";
import type { LanguageModel } from "../../src/models/engine/language-model";
import { readModelFile } from "../../src/models/engine/safetensors";
import type { ModelConfig, ModelIndex } from "../../src/models/engine/types";

export const WORDS = ["[PAD]", "[BOS]", "[EOS]", "[UNK]", "a", "b"];
export const IDS = [1, 4, 5];
export const CONFIG: ModelConfig = {
  kind: "attention",
  num_heads: 2,
  head_dim: null,
  pattern: "learned",
  vocab_size: 6,
  context: 3,
  width: 4,
  hidden: 5,
};

const SHAPES: Record<string, number[]> = {
  "attention.in_proj_weight": [12, 4],
  "attention.out_proj.weight": [4, 4],
  "hidden.bias": [5],
  "hidden.weight": [5, 4],
  "output.bias": [6],
  "output.weight": [6, 5],
  "position_embedding.weight": [3, 4],
  "token_embedding.weight": [6, 4],
};

const NO_FILE = { size: 10, sha256: "none" };
export const INDEX: ModelIndex = {
  format: 1,
  study: { plan: "small", plan_sha256: "ab", data: "none" },
  words: { path: "words.json", ...NO_FILE },
  models: [
    {
      name: "small",
      config: CONFIG,
      weights: { path: "small", size: 20, sha256: "none" },
      onnx: { path: "small.onnx", ...NO_FILE },
      run: "small-seed1",
      seed: 1,
      parameters: 180,
      validation_loss: 1,
      test_loss: 1,
      heroes: null,
    },
  ],
  runtime: { version: "1", wasm: [{ path: "ort.js", ...NO_FILE }], webgpu: [] },
};

/** Anything that a file says; what is given replaces what the small model has. */
export interface Parts {
  about?: unknown;
  shapes?: Record<string, number[]>;
  values?: (index: number) => number;
  change?: (header: Record<string, unknown>) => void;
  extra?: number;
}

/** The bytes of a safetensors file in float32. */
export function fileOf(parts: Parts = {}): Uint8Array<ArrayBuffer> {
  const { shapes = SHAPES, values = (i) => Math.sin(i + 1), extra = 0 } = parts;
  const about = parts.about ?? { format: 1, config: CONFIG, facts: {} };
  const header: Record<string, unknown> = {
    __metadata__: { "manyheads-model": JSON.stringify(about) },
  };
  let count = 0;
  for (const [name, shape] of Object.entries(shapes)) {
    const size = shape.reduce((product, length) => product * length, 1);
    header[name] = { dtype: "F32", shape, data_offsets: [4 * count, 4 * (count + size)] };
    count += size;
  }
  parts.change?.(header);
  const text = new TextEncoder().encode(JSON.stringify(header));
  const bytes = new Uint8Array(8 + text.length + 4 * count + extra);
  new DataView(bytes.buffer).setUint32(0, text.length, true);
  bytes.set(text, 8);
  const numbers = Float32Array.from({ length: count }, (_, i) => values(i));
  bytes.set(new Uint8Array(numbers.buffer), 8 + text.length);
  return bytes;
}

export function smallModel(): LanguageModel {
  return readSmall(fileOf());
}

/** The model that a file holds. */
export function readSmall(bytes: Uint8Array<ArrayBuffer>): LanguageModel {
  const work = readModelFile(bytes);
  for (;;) {
    const { done, value } = work.next();
    if (done) return modelFrom(value);
  }
}
