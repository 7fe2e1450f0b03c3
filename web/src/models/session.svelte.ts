/** The models of one visit: which are loaded, what they have written, and how fast. */

import {
  type Backend,
  type GenerateSettings,
  ModelError,
  type ModelHost,
  type ModelInfo,
  modelIndex,
  openModel,
  type Progress,
  type Step,
} from "./engine";

/** How fast a story came: its first words, which warm the engine up, are not counted. */
export interface Rate {
  tokensPerSecond: number;
  tokens: number;
  seconds: number;
}

const WARM_UP = 4;

/** An error as one sentence; null where the reader wished the end. */
export function sentenceOf(error: unknown): string | null {
  if (error instanceof ModelError) return error.message;
  if (error instanceof DOMException && error.name === "AbortError") return null;
  const why = error instanceof Error ? error.message : String(error);
  return `The model did not answer (${why}): reload the page.`;
}

/** One model: from nothing loaded to a story written. */
export class Card {
  host = $state.raw<ModelHost | null>(null);
  progress = $state.raw<Progress | null>(null);
  problem = $state<string | null>(null);
  steps = $state.raw<readonly Step[]>([]);
  /** The text that `steps` continue. */
  prompt = $state("");
  rate = $state.raw<Rate | null>(null);
  isWriting = $state(false);
  private loading: AbortController | null = null;
  private writing: AbortController | null = null;

  constructor(readonly info: ModelInfo) {}

  async load(backend: Backend): Promise<void> {
    this.close();
    const control = new AbortController();
    this.loading = control;
    const { signal } = control;
    const onProgress = (progress: Progress) => {
      if (this.loading === control) this.progress = progress;
    };
    try {
      const host = await openModel(this.info.name, { backend, onProgress, signal });
      if (this.loading === control) this.host = host;
      else host.close();
    } catch (error) {
      if (this.loading === control) this.problem = sentenceOf(error);
    } finally {
      if (this.loading === control) this.loading = this.progress = null;
    }
  }

  /** Continue a text; an earlier story of this model is given up. */
  async write(prompt: string, settings: GenerateSettings): Promise<void> {
    this.cancel();
    const { host } = this;
    if (!host) return;
    const control = new AbortController();
    this.writing = control;
    Object.assign(this, { prompt, steps: [], rate: null, problem: null, isWriting: true });
    const told = new Telling((steps) => {
      if (this.writing === control) this.steps = steps;
    });
    try {
      const { signal } = control;
      for await (const step of host.generate(prompt, settings, { signal })) told.add(step);
    } catch (error) {
      if (this.writing === control) this.problem = sentenceOf(error);
    } finally {
      told.end();
      if (this.writing === control) {
        this.rate = told.rate();
        this.isWriting = false;
      }
    }
  }

  /** End the story here. */
  cancel(): void {
    this.writing?.abort(new DOMException("cancelled", "AbortError"));
  }

  /** Let go of the model, and of what it wrote. */
  close(): void {
    this.cancel();
    this.loading?.abort(new DOMException("cancelled", "AbortError"));
    this.host?.close();
    this.loading = this.writing = null;
    Object.assign(this, { host: null, progress: null, problem: null });
    Object.assign(this, { steps: [], rate: null, isWriting: false });
  }
}

/** Collects words and shows them once a frame. */
class Telling {
  private readonly steps: Step[] = [];
  private readonly times: number[] = [];
  private frame = 0;

  constructor(private readonly show: (steps: readonly Step[]) => void) {}

  add(step: Step): void {
    this.steps.push(step);
    this.times.push(performance.now());
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.show([...this.steps]);
    });
  }

  end(): void {
    cancelAnimationFrame(this.frame);
    this.show([...this.steps]);
  }

  rate(): Rate | null {
    const tokens = this.times.length - WARM_UP;
    const [first, last] = [this.times[WARM_UP - 1], this.times.at(-1)];
    if (tokens < WARM_UP || first === undefined || last === undefined) return null;
    const seconds = (last - first) / 1000;
    return seconds > 0 ? { tokensPerSecond: tokens / seconds, tokens, seconds } : null;
  }
}

let kept: readonly Card[] | null = null;

/** A card a model, in the order of the study; what is loaded stays while the page is open. */
export function keptCards(): readonly Card[] {
  kept ??= modelIndex.models.map((info) => new Card(info));
  return kept;
}
