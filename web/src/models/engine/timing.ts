/** How fast each back end is on this device. */
import type { ModelHost } from "./types";
import { type Backend, ModelError, type Timing } from "./types";

/** Words told before the clock starts, and windows on which logits are compared. */
const WARM_UP = 8;
const COMPARED = 4;
/** A slow device is not kept busy for longer: milliseconds of telling, and of warming up. */
const LONGEST = 5000;
const LONGEST_WARM_UP = 2000;

/** Opens a model on a back end. */
export type OpenOn = (backend: Backend) => Promise<ModelHost>;

export interface TimingOptions {
  /** Words that are timed on each back end, fewer where 5 seconds are over; 100 unless given. */
  tokens?: number;
  signal?: AbortSignal;
  /** Called with each result as it comes. */
  onTiming?: (timing: Timing) => void;
}

/**
 * Tell the same stories on each back end, one after another.
 *
 * Loading and warm-up are not counted. Of several back ends, "own" should come first: the logits of
 * the others are compared with its.
 */
export async function timeEach(
  backends: readonly Backend[],
  openOn: OpenOn,
  { tokens = 100, signal, onTiming }: TimingOptions = {},
): Promise<{ timings: Timing[]; fastest: Backend | null }> {
  const timings: Timing[] = [];
  let judge: Float32Array[] | null = null;
  for (const backend of backends) {
    signal?.throwIfAborted();
    const { timing, logits } = await timeOne(backend, openOn, tokens, judge, signal);
    if (backend === "own") judge = logits;
    timings.push(timing);
    onTiming?.(timing);
  }
  return { timings, fastest: fastestOf(timings) };
}

/** The back end with the most words a second. */
export function fastestOf(timings: readonly Timing[]): Backend | null {
  const able = timings.filter((timing) => timing.tokensPerSecond !== null);
  able.sort((a, b) => (b.tokensPerSecond ?? 0) - (a.tokensPerSecond ?? 0));
  return able[0]?.backend ?? null;
}

async function timeOne(
  backend: Backend,
  openOn: OpenOn,
  tokens: number,
  judge: Float32Array[] | null,
  signal?: AbortSignal,
): Promise<{ timing: Timing; logits: Float32Array[] | null }> {
  const nothing = { backend, tokensPerSecond: null, tokens: 0, seconds: 0, largestGap: null };
  let host: ModelHost | null = null;
  try {
    host = await openOn(backend);
    await tell(host, WARM_UP, LONGEST_WARM_UP, signal);
    const { told, seconds } = await tell(host, tokens, LONGEST, signal);
    const logits = await sampleOf(host, signal);
    const largestGap = judge && largestDifference(judge, logits);
    const tokensPerSecond = told / seconds;
    return {
      timing: { backend, tokensPerSecond, tokens: told, seconds, largestGap, problem: null },
      logits,
    };
  } catch (error) {
    signal?.throwIfAborted();
    if (!(error instanceof ModelError)) throw error;
    return { timing: { ...nothing, problem: error.message }, logits: null };
  } finally {
    host?.close();
  }
}

/** Tell stories, one after another, until there are enough words or the time is over. */
async function tell(
  host: ModelHost,
  tokens: number,
  longest: number,
  signal?: AbortSignal,
): Promise<{ told: number; seconds: number }> {
  let told = 0;
  const begun = performance.now();
  const isOver = () => told >= tokens || performance.now() - begun > longest;
  for (let seed = 0; !isOver(); seed++) {
    const settings = { seed, maxTokens: tokens - told };
    for await (const _ of host.generate("", settings, signal ? { signal } : {})) {
      told++;
      if (isOver()) break;
    }
    signal?.throwIfAborted();
  }
  return { told, seconds: (performance.now() - begun) / 1000 };
}

/** Logits of windows that do not depend on the back end: words of the list, one after another. */
async function sampleOf(host: ModelHost, signal?: AbortSignal): Promise<Float32Array[]> {
  const { vocab_size, context } = host.info.config;
  const found: Float32Array[] = [];
  for (let number = 1; number <= COMPARED; number++) {
    signal?.throwIfAborted();
    const length = Math.max(1, Math.round((number * context) / COMPARED));
    const ids = Array.from(
      { length },
      (_, place) => 1 + ((place * 37 + number * 101) % (vocab_size - 1)),
    );
    found.push(await host.logits(ids));
  }
  return found;
}

export function largestDifference(a: readonly Float32Array[], b: readonly Float32Array[]): number {
  let most = 0;
  for (const [n, row] of a.entries())
    for (let i = 0; i < row.length; i++)
      most = Math.max(most, Math.abs((row[i] ?? 0) - (b[n]?.[i] ?? Number.NaN)));
  return most;
}
