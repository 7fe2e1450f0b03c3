/** The fixed-window model: all word rows of the window joined, one hidden layer. */
import {
  checkNames,
  type Grids,
  type LanguageModel,
  Prediction,
  switchesOf,
  valuesOf,
  windowOf,
} from "./language-model";
import type { ModelFile } from "./safetensors";
import { PAD_ID } from "./sampling";
import type { HeadSwitch, ModelConfig } from "./types";

const NAMES = [
  "token_embedding.weight",
  "hidden.weight",
  "hidden.bias",
  "output.weight",
  "output.bias",
];

export class FixedWindowModel implements LanguageModel {
  readonly config: ModelConfig;
  private readonly embedding: Float32Array;
  private readonly prediction: Prediction;

  constructor(file: ModelFile) {
    this.config = file.config;
    const { vocab_size, width, context } = file.config;
    checkNames(file, NAMES);
    this.embedding = valuesOf(file, "token_embedding.weight", [vocab_size, width]);
    this.prediction = new Prediction(file, context * width);
  }

  logits(ids: readonly number[], heads?: readonly HeadSwitch[]): Float32Array {
    switchesOf(this.config, heads);
    const { context, width } = this.config;
    const window = windowOf(this.config, ids);
    const padded = [...new Array<number>(context - window.length).fill(PAD_ID), ...window];
    const joined = new Float64Array(context * width);
    for (const [place, id] of padded.entries())
      joined.set(this.embedding.subarray(id * width, (id + 1) * width), place * width);
    return this.prediction.logits(joined);
  }

  grids(ids: readonly number[], heads?: readonly HeadSwitch[]): Grids {
    switchesOf(this.config, heads);
    const none = new Float32Array(0);
    return {
      numHeads: 0,
      size: windowOf(this.config, ids).length,
      ownWeights: none,
      weights: none,
    };
  }
}
