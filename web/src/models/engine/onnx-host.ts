/** A model on ONNX Runtime Web, behind the same calls as the own engine. */
import type { InferenceSession, Tensor } from "onnxruntime-web";
import { generate } from "./generate";
import { switchesOf, windowOf } from "./language-model";
import { meanOf } from "./own-host";
import type { Provider, Runtime } from "./runtime";
import { logSumExp, PAD_ID } from "./sampling";
import type { Tokenizer } from "./tokenizer";
import type { ModelHost } from "./types";
import {
  type GenerateSettings,
  type HeadSwitch,
  ModelError,
  type ModelInfo,
  type ReadWord,
  type Step,
  type TextLoss,
  type WindowView,
} from "./types";

export class OnnxHost implements ModelHost {
  readonly place = "page" as const;
  /** A session answers one question at a time; the next waits for this. */
  private queue: Promise<unknown> = Promise.resolve();

  private constructor(
    readonly info: ModelInfo,
    readonly backend: "onnx-wasm" | "onnx-webgpu",
    private readonly tokenizer: Tokenizer,
    private readonly runtime: Runtime,
    private readonly session: InferenceSession,
  ) {}

  /** Make a session of a verified ONNX file. */
  static async open(
    info: ModelInfo,
    tokenizer: Tokenizer,
    bytes: Uint8Array<ArrayBuffer>,
    runtime: Runtime,
    provider: Provider,
  ): Promise<OnnxHost> {
    try {
      const session = await runtime.InferenceSession.create(bytes, {
        executionProviders: [provider],
        logSeverityLevel: 3,
      });
      return new OnnxHost(info, `onnx-${provider}`, tokenizer, runtime, session);
    } catch (error) {
      throw refused(error);
    }
  }

  get words(): readonly string[] {
    return this.tokenizer.words;
  }

  read(text: string): ReadWord[] {
    return this.tokenizer.read(text);
  }

  logits(ids: readonly number[], heads?: readonly HeadSwitch[]): Promise<Float32Array> {
    const answer = this.queue.then(() => this.run(ids, heads));
    this.queue = answer.catch(() => {});
    return answer;
  }

  async view(): Promise<WindowView> {
    throw new ModelError("The grids of the heads come from the page's own engine: choose it.");
  }

  async textLoss(
    ids: readonly number[],
    heads?: readonly HeadSwitch[],
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<TextLoss> {
    const losses: number[] = [];
    for (let end = 1; end < ids.length; end++) {
      signal?.throwIfAborted();
      const logits = await this.logits(ids.slice(0, end), heads);
      losses.push(logSumExp(logits) - (logits[ids[end] ?? -1] ?? Number.NaN));
    }
    return meanOf(losses);
  }

  generate(
    prompt: string,
    settings: GenerateSettings = {},
    { signal }: { signal?: AbortSignal } = {},
  ): AsyncGenerator<Step, void, void> {
    const ask = (ids: readonly number[]) => this.logits(ids, settings.heads);
    return generate(ask, this.tokenizer, this.info.config.context, prompt, settings, signal);
  }

  close(): void {
    this.queue = this.queue.then(() => this.session.release()).catch(() => {});
  }

  private async run(ids: readonly number[], heads?: readonly HeadSwitch[]): Promise<Float32Array> {
    const feeds = this.feeds(ids, heads);
    try {
      const { logits } = await this.session.run(feeds, ["logits"]);
      return Float32Array.from((await logits?.getData()) as Float32Array);
    } catch (error) {
      throw refused(error);
    }
  }

  /** The padded window, and a factor a head: 1, or 0 where it is off. */
  private feeds(ids: readonly number[], heads?: readonly HeadSwitch[]): Record<string, Tensor> {
    const { config } = this.info;
    const { Tensor } = this.runtime;
    const window = windowOf(config, ids);
    const tokens = new BigInt64Array(config.context).fill(BigInt(PAD_ID));
    tokens.set(window.map(BigInt), config.context - window.length);
    const feeds: Record<string, Tensor> = {
      tokens: new Tensor("int64", tokens, [1, config.context]),
    };
    const factors = switchesOf(config, heads).map((state, head) => factorOf(state, head));
    if (factors.length)
      feeds.head_mask = new Tensor("float32", Float32Array.from(factors), [factors.length]);
    return feeds;
  }
}

function factorOf(state: HeadSwitch, head: number): number {
  if (state === "off") return 0;
  if (state === "own" || state === head) return 1;
  throw new ModelError("Only the page's own engine can give a head other weights: choose it.");
}

function refused(error: unknown): ModelError {
  const reason = (error instanceof Error ? error.message : String(error)).split("\n")[0];
  return new ModelError(`ONNX Runtime cannot compute this model here: ${reason}`);
}
