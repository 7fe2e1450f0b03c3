/** A model on the page's own engine. */
import { Connection, type MakeWorker } from "./connection";
import { generate } from "./generate";
import { bestWords, logSumExp } from "./sampling";
import type { Tokenizer } from "./tokenizer";
import type {
  GenerateSettings,
  HeadSwitch,
  ModelHost,
  ModelInfo,
  NextWord,
  ReadWord,
  Step,
  TextLoss,
  WindowView,
} from "./types";

const NEXT_WORDS = 10;

export class OwnHost implements ModelHost {
  readonly backend = "own" as const;

  private constructor(
    readonly info: ModelInfo,
    private readonly tokenizer: Tokenizer,
    private readonly connection: Connection,
  ) {}

  /**
   * Give the engine a verified file, whose bytes then belong to it.
   *
   * @param makeWorker null computes on the page's own thread.
   */
  static async open(
    info: ModelInfo,
    tokenizer: Tokenizer,
    bytes: Uint8Array<ArrayBuffer>,
    makeWorker: MakeWorker | null,
    signal?: AbortSignal,
  ): Promise<OwnHost> {
    const connection = await Connection.open(makeWorker);
    try {
      await connection.ask<"open">({ name: "open", bytes }, signal, [bytes.buffer]);
    } catch (error) {
      connection.close();
      throw error;
    }
    return new OwnHost(info, tokenizer, connection);
  }

  get place(): "worker" | "page" {
    return this.connection.place;
  }

  get words(): readonly string[] {
    return this.tokenizer.words;
  }

  read(text: string): ReadWord[] {
    return this.tokenizer.read(text);
  }

  logits(ids: readonly number[], heads?: readonly HeadSwitch[]): Promise<Float32Array> {
    return this.connection.ask<"logits">({ name: "logits", ...asked(ids, heads) });
  }

  async view(
    ids: readonly number[],
    heads?: readonly HeadSwitch[],
    { count = NEXT_WORDS }: { count?: number } = {},
  ): Promise<WindowView> {
    const { context } = this.info.config;
    const window = ids.slice(-context);
    const found = await this.connection.ask<"view">({ name: "view", ...asked(window, heads) });
    return {
      ...found.grids,
      ids: window,
      words: window.map((id) => this.words[id] ?? ""),
      logits: found.logits,
      next: nextWords(found.logits, this.words, count),
    };
  }

  async textLoss(
    ids: readonly number[],
    heads?: readonly HeadSwitch[],
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<TextLoss> {
    const call = { name: "losses" as const, ...asked(ids, heads) };
    return meanOf(await this.connection.ask<"losses">(call, signal));
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
    this.connection.close();
  }
}

/** Plain copies: what a view hands over may be a proxy, which no message can carry. */
function asked(ids: readonly number[], heads?: readonly HeadSwitch[]) {
  return heads ? { ids: [...ids], heads: [...heads] } : { ids: [...ids] };
}

/** The most probable words, best first. */
export function nextWords(
  logits: Float32Array,
  words: readonly string[],
  count: number,
): NextWord[] {
  const total = logSumExp(logits);
  return bestWords(logits, count).map((id) => {
    const logit = logits[id] ?? 0;
    return { id, word: words[id] ?? "", probability: Math.exp(logit - total), logit };
  });
}

/** Losses, nats, with their mean. */
export function meanOf(losses: number[]): TextLoss {
  const sum = losses.reduce((total, loss) => total + loss, 0);
  return { losses, mean: losses.length ? sum / losses.length : null };
}
