/** The attention model: word plus position, heads asked by the last word, one hidden layer.
 *
 * x W = word W + position W, so queries, keys and values are sums of a word's row and a position's
 * row, each worked out once, when it is first needed. The last word always has the last position.
 */
import {
  checkNames,
  type Grids,
  joinedWidth,
  type LanguageModel,
  Prediction,
  switchesOf,
  valuesOf,
  windowOf,
} from "./language-model";
import { add, multiply, softmax } from "./matrix";
import { headDim, type ModelFile } from "./safetensors";
import type { HeadSwitch, ModelConfig } from "./types";

const NAMES = [
  "token_embedding.weight",
  "position_embedding.weight",
  "attention.in_proj_weight",
  "attention.out_proj.weight",
  "hidden.weight",
  "hidden.bias",
  "output.weight",
  "output.bias",
];

/** Rows times the input projection, each made when it is first asked for. */
class ProjectedRows {
  private readonly projected: Float32Array;
  private readonly isMade: Uint8Array;
  private readonly made: Float64Array;

  /** @param count how many rows (count, D) there are; the projection is (outputs, D). */
  constructor(
    private readonly rows: Float32Array,
    private readonly projection: Float32Array,
    count: number,
    private readonly outputs: number,
  ) {
    this.projected = new Float32Array(count * outputs);
    this.isMade = new Uint8Array(count);
    this.made = new Float64Array(outputs);
  }

  /** The row's queries, keys and values, one after another. */
  row(index: number): Float32Array {
    const begin = index * this.outputs;
    if (!this.isMade[index]) {
      const width = this.projection.length / this.outputs;
      const row = new Float64Array(this.rows.subarray(index * width, (index + 1) * width));
      multiply(this.projection, row, this.made);
      this.projected.set(this.made, begin);
      this.isMade[index] = 1;
    }
    return this.projected.subarray(begin, begin + this.outputs);
  }
}

export class AttentionModel implements LanguageModel {
  readonly config: ModelConfig;
  private readonly embedding: Float32Array;
  private readonly positions: Float32Array;
  private readonly joining: Float32Array;
  private readonly words: ProjectedRows;
  private readonly places: ProjectedRows;
  private readonly prediction: Prediction;
  /** A, the number of heads that ask: one where all share a pattern, else H. */
  private readonly numAsking: number;
  private readonly numHeads: number;
  private readonly d: number;
  /** Width of a word's queries, keys and values together. */
  private readonly outputs: number;

  constructor(file: ModelFile) {
    this.config = file.config;
    const { vocab_size: V, context: T, width: D, pattern } = file.config;
    checkNames(file, NAMES);
    this.numHeads = file.config.num_heads ?? 0;
    this.numAsking = pattern === "shared" ? 1 : this.numHeads;
    this.d = headDim(file.config);
    const joined = joinedWidth(file.config);
    this.outputs = 2 * this.numAsking * this.d + joined;
    this.embedding = valuesOf(file, "token_embedding.weight", [V, D]);
    this.positions = valuesOf(file, "position_embedding.weight", [T, D]);
    this.joining = valuesOf(file, "attention.out_proj.weight", [D, joined]);
    const projection = valuesOf(file, "attention.in_proj_weight", [this.outputs, D]);
    this.words = new ProjectedRows(this.embedding, projection, V, this.outputs);
    this.places = new ProjectedRows(this.positions, projection, T, this.outputs);
    this.prediction = new Prediction(file, D);
  }

  logits(ids: readonly number[], heads?: readonly HeadSwitch[]): Float32Array {
    const switches = switchesOf(this.config, heads);
    const window = windowOf(this.config, ids);
    const sources = this.projectedWindow(window);
    const S = window.length;
    const own = new Float64Array(this.numHeads * S);
    this.ask(sources, S - 1, own, 0, S);
    const used = usedWeights(own, switches, S, 0, S, S);
    return this.prediction.logits(this.updatedRow(window, this.messages(sources, used, S)));
  }

  grids(ids: readonly number[], heads?: readonly HeadSwitch[]): Grids {
    const switches = switchesOf(this.config, heads);
    const window = windowOf(this.config, ids);
    const S = window.length;
    const own = new Float64Array(this.numHeads * S * S);
    const weights = new Float32Array(own.length);
    for (let t = 0; t < S; t++) {
      // As in prediction, word t is the last word: it has the last position.
      this.ask(this.projectedWindow(window.slice(0, t + 1)), t, own, t * S, S * S);
      const used = usedWeights(own, switches, S * S, t * S, t + 1, S);
      for (let h = 0; h < this.numHeads; h++)
        weights.set(used.subarray(h * S, h * S + S), (h * S + t) * S);
    }
    return { numHeads: this.numHeads, size: S, ownWeights: new Float32Array(own), weights };
  }

  /** Queries, keys and values of each word of the window, (S, outputs). */
  private projectedWindow(window: readonly number[]): Float64Array {
    const { outputs } = this;
    const sources = new Float64Array(window.length * outputs);
    const first = this.config.context - window.length;
    for (const [s, id] of window.entries()) {
      const word = this.words.row(id);
      const place = this.places.row(first + s);
      for (let i = 0; i < outputs; i++)
        sources[s * outputs + i] = (word[i] as number) + (place[i] as number);
    }
    return sources;
  }

  /** Put word t's own weights on words 0 to t at `into[h * stride + begin + s]`, for each head. */
  private ask(
    sources: Float64Array,
    t: number,
    into: Float64Array,
    begin: number,
    stride: number,
  ): void {
    const { d, outputs, numAsking } = this;
    const scale = 1 / Math.sqrt(d);
    for (let h = 0; h < this.numHeads; h++) {
      const asking = numAsking === 1 ? 0 : h;
      const query = t * outputs + asking * d;
      const row = h * stride + begin;
      for (let s = 0; s <= t; s++) {
        const key = s * outputs + (numAsking + asking) * d;
        let sum = 0;
        for (let i = 0; i < d; i++)
          sum += (sources[query + i] as number) * (sources[key + i] as number);
        into[row + s] = sum * scale;
      }
      softmax(into, row, row + t + 1);
    }
  }

  /** All heads' messages joined, (H*d), from weights (H, S). */
  private messages(sources: Float64Array, weights: Float64Array, S: number): Float64Array {
    const { d, outputs, numHeads } = this;
    const joined = new Float64Array(numHeads * d);
    const values = 2 * this.numAsking * d;
    for (let h = 0; h < numHeads; h++)
      for (let s = 0; s < S; s++) {
        const weight = weights[h * S + s] as number;
        const from = s * outputs + values + h * d;
        for (let i = 0; i < d; i++)
          joined[h * d + i] =
            (joined[h * d + i] as number) + weight * (sources[from + i] as number);
      }
    return joined;
  }

  /** The last word's row plus its message, (D,). */
  private updatedRow(window: readonly number[], joined: Float64Array): Float64Array {
    const D = this.config.width;
    const row = new Float64Array(D);
    multiply(this.joining, joined, row);
    const word = (window[window.length - 1] ?? 0) * D;
    const place = (this.config.context - 1) * D;
    add(this.embedding.subarray(word, word + D), row);
    add(this.positions.subarray(place, place + D), row);
    return row;
  }
}

/**
 * The weights (H, S) that count under the switches, of one query that sees `seen` words.
 *
 * @param own holds head h's weights from `h * stride + begin` on.
 */
function usedWeights(
  own: Float64Array,
  switches: readonly HeadSwitch[],
  stride: number,
  begin: number,
  seen: number,
  S: number,
): Float64Array {
  const used = new Float64Array(switches.length * S);
  for (const [h, state] of switches.entries()) {
    if (state === "off") continue;
    if (state === "uniform") used.fill(1 / seen, h * S, h * S + seen);
    else {
      const from = (state === "own" ? h : state) * stride + begin;
      used.set(own.subarray(from, from + seen), h * S);
    }
  }
  return used;
}
