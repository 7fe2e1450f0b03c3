/** What both kinds of model share: their last layers, and checked ids and switches. */
import { addProduct, turned } from "./matrix";
import { headDim, type ModelFile } from "./safetensors";
import { type HeadSwitch, type ModelConfig, ModelError } from "./types";

/** The grids of a window: (H, S, S), receiver by source; see `WindowView`. */
export interface Grids {
  numHeads: number;
  size: number;
  ownWeights: Float32Array;
  weights: Float32Array;
}

/** A model of the study, by the page's own engine. */
export interface LanguageModel {
  readonly config: ModelConfig;
  /** What may follow the ids, (V,); the last `context` of them count. */
  logits(ids: readonly number[], heads?: readonly HeadSwitch[]): Float32Array;
  /** Where the heads of each word of the window look; empty without heads. */
  grids(ids: readonly number[], heads?: readonly HeadSwitch[]): Grids;
}

/** The hidden ReLU layer and the logits of a model. */
export class Prediction {
  /** What a unit has before any input, (hidden,). */
  readonly bias: Float64Array;
  /** (inputs, hidden) and (hidden, V): on their sides, so that inputs of zero can be passed over. */
  private readonly units: Float32Array;
  private readonly output: Float32Array;
  private readonly outputBias: Float32Array;
  private readonly hidden: Float64Array;
  private readonly sums: Float64Array;

  constructor(file: ModelFile, inputs: number) {
    const { hidden, vocab_size } = file.config;
    this.hidden = new Float64Array(hidden);
    this.sums = new Float64Array(vocab_size);
    this.bias = new Float64Array(valuesOf(file, "hidden.bias", [hidden]));
    this.units = turned(valuesOf(file, "hidden.weight", [hidden, inputs]), hidden);
    const weight = valuesOf(file, "output.weight", [vocab_size, hidden]);
    this.output = turned(weight, vocab_size);
    this.outputBias = valuesOf(file, "output.bias", [vocab_size]);
  }

  /** What units that have `before` have with the inputs from `begin` to the row's end, (hidden,). */
  unitsOf(row: Float64Array, before: Float64Array, begin = 0, into = this.hidden): Float64Array {
    into.set(before);
    addProduct(row, this.units, into, begin);
    return into;
  }

  /** Logits (V,) of an updated row, or of all joined rows; as in `unitsOf`. */
  logits(row: Float64Array, before = this.bias, begin = 0): Float32Array {
    const hidden = this.unitsOf(row, before, begin);
    for (let i = 0; i < hidden.length; i++) hidden[i] = Math.max(0, hidden[i] as number);
    this.sums.set(this.outputBias);
    addProduct(hidden, this.output, this.sums);
    return new Float32Array(this.sums);
  }
}

/** The numbers of a tensor that must be there, in this shape. */
export function valuesOf(file: ModelFile, name: string, shape: readonly number[]): Float32Array {
  const tensor = file.tensors.get(name);
  if (tensor?.shape.join() !== shape.join())
    throw new ModelError(
      `The model's file is damaged (${name} has shape ${tensor?.shape.join(" x ") ?? "none"}, ` +
        `not ${shape.join(" x ")}): install manyheads again.`,
    );
  return tensor.values;
}

/** No tensor but those that a model has. */
export function checkNames(file: ModelFile, names: readonly string[]): void {
  for (const name of file.tensors.keys())
    if (!names.includes(name))
      throw new ModelError(
        `The model's file is damaged (unknown ${name}): install manyheads again.`,
      );
}

/** The window: the last `context` ids, each of them a word other than padding. */
export function windowOf(config: ModelConfig, ids: readonly number[]): number[] {
  const window = ids.slice(-config.context);
  const isWord = (id: number) => Number.isInteger(id) && id > 0 && id < config.vocab_size;
  const wrong = window.find((id) => !isWord(id));
  if (window.length === 0 || wrong !== undefined)
    throw new ModelError(`ids (${wrong ?? "none"}) must be words of the model's vocabulary.`);
  return window;
}

/** One switch a head, each of them possible. */
export function switchesOf(config: ModelConfig, heads?: readonly HeadSwitch[]): HeadSwitch[] {
  const H = config.num_heads ?? 0;
  const switches = heads ? [...heads] : new Array<HeadSwitch>(H).fill("own");
  if (switches.length !== H)
    throw new ModelError(`heads (${switches.length} switches) must be one per head: ${H}.`);
  for (const state of switches) {
    const isHead = typeof state === "number" && Number.isInteger(state) && state >= 0 && state < H;
    if (!isHead && state !== "own" && state !== "off" && state !== "uniform")
      throw new ModelError(
        `heads (${state}) must be own, off, uniform or a head from 0 to ${H - 1}.`,
      );
  }
  return switches;
}

/** H times d, the width of all heads' messages joined. */
export function joinedWidth(config: ModelConfig): number {
  return (config.num_heads ?? 0) * headDim(config);
}
