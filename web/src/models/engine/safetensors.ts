/** Model files: safetensors as `manyheads.checkpoints.write_model` writes them, checked whole. */

import { type ModelConfig, ModelError } from "./types";

const KEY = "manyheads-model";
const MAX_HEADER = 1 << 20;
/** Numbers read without a pause. */
const PIECE = 1 << 17;
const BYTES: Readonly<Record<string, number>> = { F16: 2, BF16: 2, F32: 4 };

export interface Tensor {
  shape: number[];
  values: Float32Array;
}

/** What a file holds. */
export interface ModelFile {
  config: ModelConfig;
  tensors: Map<string, Tensor>;
}

interface Entry {
  dtype: string;
  shape: number[];
  data_offsets: [number, number];
}

/**
 * Read a model's file.
 *
 * @yields after each piece of a tensor, so that a busy page can pause.
 */
export function* readModelFile(bytes: Uint8Array<ArrayBuffer>): Generator<void, ModelFile, void> {
  const { header, start } = readHeader(bytes);
  const { __metadata__: metadata, ...entries } = header;
  const config = readConfig(metadata);
  const tensors = new Map<string, Tensor>();
  let end = 0;
  const ordered = Object.entries(entries as Record<string, Entry>);
  ordered.sort((a, b) => offsetsOf(...a)[0] - offsetsOf(...b)[0]);
  for (const [name, entry] of ordered) {
    const [from, to] = offsetsOf(name, entry);
    if (from !== end || start + to > bytes.length)
      throw damaged(`${name} is not where the header says`);
    end = to;
    tensors.set(name, yield* readTensor(name, entry, bytes.subarray(start + from, start + to)));
  }
  if (start + end !== bytes.length) throw damaged("it is longer than its header says");
  return { config, tensors };
}

function readHeader(bytes: Uint8Array<ArrayBuffer>) {
  if (bytes.length < 8) throw damaged("it is too short");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = view.getUint32(0, true);
  const isLong = view.getUint32(4, true) !== 0 || length > MAX_HEADER;
  if (isLong || 8 + length > bytes.length) throw damaged("its header is cut off");
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(8, 8 + length));
    const header = JSON.parse(text) as unknown;
    if (typeof header !== "object" || header === null)
      throw new TypeError("its header is not an object");
    return { header: header as Record<string, unknown>, start: 8 + length };
  } catch {
    throw damaged("its header cannot be read");
  }
}

function readConfig(metadata: unknown): ModelConfig {
  try {
    const text = (metadata as Record<string, string>)[KEY] ?? "";
    const about = JSON.parse(text) as { format: number; config: ModelConfig };
    if (about.format !== 1) throw new TypeError("unknown format");
    return checkedConfig(about.config);
  } catch {
    throw damaged("it does not name a model");
  }
}

/** A config with usable sizes; files hold what `ModelConfig` of the package has checked. */
export function checkedConfig(config: ModelConfig): ModelConfig {
  const sizes = [config.vocab_size, config.context, config.width, config.hidden];
  const isAttention = config.kind === "attention";
  if (isAttention) sizes.push(config.num_heads ?? 0, headDim(config));
  if (!isAttention && config.kind !== "fixed-window-mlp")
    throw damaged("its kind of model is unknown");
  if (!sizes.every((size) => Number.isInteger(size) && size > 0))
    throw damaged("its sizes must be positive whole numbers");
  return config;
}

/** d, the width of one head; 0 for a model without heads. */
export function headDim(config: ModelConfig): number {
  if (config.num_heads === null) return 0;
  return config.head_dim ?? config.width / config.num_heads;
}

function offsetsOf(name: string, entry: Entry): [number, number] {
  const [from, to] = Array.isArray(entry?.data_offsets) ? entry.data_offsets : [];
  if (!Number.isInteger(from) || !Number.isInteger(to)) throw damaged(`${name} has no offsets`);
  return [from as number, to as number];
}

function* readTensor(name: string, entry: Entry, bytes: Uint8Array): Generator<void, Tensor, void> {
  const { dtype, shape } = entry;
  const size = BYTES[dtype];
  if (size === undefined) throw damaged(`${name} has an unknown data type`);
  if (!Array.isArray(shape) || !shape.every(Number.isInteger))
    throw damaged(`${name} has no valid shape`);
  const count = shape.reduce((product, length) => product * length, 1);
  if (count * size !== bytes.length) throw damaged(`${name} has the wrong length`);
  const values = new Float32Array(count);
  for (let begin = 0; begin < count; begin += PIECE) {
    const piece = values.subarray(begin, begin + PIECE);
    readValues(dtype, bytes.slice(begin * size, (begin + piece.length) * size).buffer, piece);
    for (let i = 0; i < piece.length; i++)
      if (!Number.isFinite(piece[i])) throw damaged(`${name} contains a number that is not finite`);
    yield;
  }
  return { shape, values };
}

/** Numbers of a type as float32; the buffer is a copy, so aligned whatever the header's length. */
function readValues(dtype: string, buffer: ArrayBuffer, into: Float32Array): void {
  if (dtype === "F32") into.set(new Float32Array(buffer));
  else if (dtype === "F16") fromFloat16(new Uint16Array(buffer), into);
  else fromBfloat16(new Uint16Array(buffer), into);
}

function damaged(what: string): ModelError {
  return new ModelError(`The model's file is damaged (${what}): install manyheads again.`);
}

/** Read IEEE half precision: 1 sign, 5 exponent and 10 fraction bits. */
export function fromFloat16(halves: Uint16Array, into: Float32Array): void {
  const bits = new Uint32Array(into.buffer, into.byteOffset, into.length);
  for (let i = 0; i < halves.length; i++) {
    const half = halves[i] as number;
    const exponent = half & 0x7c00;
    const sign = (half & 0x8000) << 16;
    if (exponent === 0) {
      // Zero, or a subnormal: the fraction counts in units of 2**-24.
      into[i] = (sign ? -1 : 1) * (half & 0x3ff) * 2 ** -24;
    } else {
      const magnitude = exponent === 0x7c00 ? 0x7f800000 : (exponent << 13) + (112 << 23);
      bits[i] = sign | magnitude | ((half & 0x3ff) << 13);
    }
  }
}

/** Read bfloat16, the upper half of a float32. */
export function fromBfloat16(halves: Uint16Array, into: Float32Array): void {
  const bits = new Uint32Array(into.buffer, into.byteOffset, into.length);
  for (let i = 0; i < halves.length; i++) bits[i] = (halves[i] as number) << 16;
}
