/** What the heads view shows, worked out anew whenever text or switches change; the last one counts. */

import type { HeadSwitch, ModelHost, ReadWord, TextLoss, WindowView } from "./engine";
import { sentenceOf } from "./session.svelte";
import { isOwn } from "./words";

/** Everything that belongs together: what was asked, and all answers to it. */
export interface Seen {
  /** The text as the model reads it, and its ids. */
  read: readonly ReadWord[];
  ids: readonly number[];
  heads: readonly HeadSwitch[];
  /** Under the switches. */
  view: WindowView;
  /** The weights of each head, (S, S): the array of before where nothing changed. */
  grids: readonly Float32Array[];
  /** Logits with every head as it was learned. */
  before: Float32Array;
  /** How well the text is expected as learned, and under the switches; null while it is worked out. */
  lossBefore: TextLoss | null;
  lossAfter: TextLoss | null;
}

/** What does not depend on the switches: asked once a text. */
interface Learned {
  host: ModelHost;
  text: string;
  logits: Promise<Float32Array>;
  loss: TextLoss | null;
}

export class Looking {
  seen = $state.raw<Seen | null>(null);
  problem = $state<string | null>(null);
  private learned: Learned | null = null;

  /** Ask: window and next words come first, then the losses. An aborted question changes nothing. */
  async ask(
    host: ModelHost,
    text: string,
    heads: readonly HeadSwitch[],
    signal: AbortSignal,
  ): Promise<void> {
    try {
      const read = host.read(text);
      const ids = read.map(({ id }) => id);
      const learned = this.learnedOf(host, text, ids);
      const [view, before] = await Promise.all([host.view(ids, heads), learned.logits]);
      if (signal.aborted) return;
      const grids = gridsOf(view, this.seen?.grids ?? []);
      const lossBefore = learned.loss;
      this.seen = { read, ids, heads, view, grids, before, lossBefore, lossAfter: null };
      this.problem = null;
      await this.addLosses(learned, this.seen, signal);
    } catch (error) {
      if (!signal.aborted) this.problem = sentenceOf(error);
    }
  }

  private async addLosses(learned: Learned, seen: Seen, signal: AbortSignal): Promise<void> {
    const { host } = learned;
    learned.loss ??= await host.textLoss(seen.ids, undefined, { signal });
    const lossBefore = learned.loss;
    const lossAfter = isOwn(seen.heads)
      ? lossBefore
      : await host.textLoss(seen.ids, seen.heads, { signal });
    if (!signal.aborted) this.seen = { ...seen, lossBefore, lossAfter };
  }

  private learnedOf(host: ModelHost, text: string, ids: readonly number[]): Learned {
    if (this.learned?.host !== host || this.learned.text !== text)
      this.learned = { host, text, logits: host.logits(ids), loss: null };
    return this.learned;
  }
}

/** One array a head; an earlier one that holds the same is kept, so that it need not be drawn again. */
function gridsOf(view: WindowView, earlier: readonly Float32Array[]): Float32Array[] {
  const cells = view.size * view.size;
  return Array.from({ length: view.numHeads }, (_, head) => {
    const grid = view.weights.subarray(head * cells, (head + 1) * cells);
    const known = earlier[head];
    const isSame = known?.length === cells && known.every((weight, at) => weight === grid[at]);
    return isSame ? known : grid;
  });
}
