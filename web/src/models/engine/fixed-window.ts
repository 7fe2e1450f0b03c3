/** The fixed-window model: all word rows of the window joined, one hidden layer.
 *
 * Padding on the left is the same in every window, so what it does to the hidden layer is worked out
 * once for each length.
 */
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
  /** The hidden layer's sums after so many places of padding. */
  private readonly padded: Float64Array[];

  constructor(file: ModelFile) {
    this.config = file.config;
    const { vocab_size, width, context } = file.config;
    checkNames(file, NAMES);
    this.embedding = valuesOf(file, "token_embedding.weight", [vocab_size, width]);
    this.prediction = new Prediction(file, context * width);
    this.padded = [this.prediction.bias];
  }

  logits(ids: readonly number[], heads?: readonly HeadSwitch[]): Float32Array {
    switchesOf(this.config, heads);
    const { context, width } = this.config;
    const window = windowOf(this.config, ids);
    const padding = context - window.length;
    const joined = new Float64Array(context * width);
    for (const [at, id] of window.entries()) joined.set(this.row(id), (padding + at) * width);
    return this.prediction.logits(joined, this.after(padding), padding * width);
  }

  private row(id: number): Float32Array {
    const { width } = this.config;
    return this.embedding.subarray(id * width, (id + 1) * width);
  }

  /** The hidden layer's sums after so many places of padding. */
  private after(padding: number): Float64Array {
    const { width, hidden } = this.config;
    for (let place = this.padded.length - 1; place < padding; place++) {
      const joined = new Float64Array((place + 1) * width);
      joined.set(this.row(PAD_ID), place * width);
      const before = this.padded[place] ?? this.prediction.bias;
      const sums = this.prediction.unitsOf(joined, before, place * width, new Float64Array(hidden));
      this.padded.push(sums);
    }
    return this.padded[padding] ?? this.prediction.bias;
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
