/**
 * When a card is due again. The memory of a card is what ts-fsrs makes of it; steps and days are
 * counted as the terminal's package counts them, since ts-fsrs counts days by the calendar, rounds
 * steps to minutes and keeps the four answers apart, and both sides have to agree on every date.
 */

import { FSRSAlgorithm } from "ts-fsrs";

/** As Python's `settings_json()` writes them. */
export interface CardSettings {
  readonly parameters: readonly number[];
  /** A card is due when the chance of knowing it has fallen to this. */
  readonly retention: number;
  readonly learning_minutes: readonly number[];
  readonly relearning_minutes: readonly number[];
  readonly longest_days: number;
  /** New cards a day of UTC. */
  readonly new_a_day: number;
  /** A card that is being learned comes this early when nothing else is left. */
  readonly ahead_minutes: number;
}

export const RATINGS = [1, 2, 3, 4] as const;
/** Again, hard, good, easy. */
export type Rating = (typeof RATINGS)[number];

/** A card after its last review; times in milliminutes. */
export interface Memory {
  readonly stability: number;
  readonly difficulty: number;
  /** learning: new to the learner; relearning: forgotten. */
  readonly state: "learning" | "review" | "relearning";
  /** Which of the steps of its state comes next. */
  readonly step: number;
  readonly last: number;
  readonly due: number;
  readonly reviews: number;
}

export const MINUTE = 60_000;
export const DAY = 1440 * MINUTE;

export class Scheduler {
  private readonly algorithm: FSRSAlgorithm;

  constructor(readonly settings: CardSettings) {
    this.algorithm = new FSRSAlgorithm({
      w: [...settings.parameters],
      request_retention: settings.retention,
      maximum_interval: settings.longest_days,
      enable_fuzz: false,
      enable_short_term: true,
      relearning_steps: settings.relearning_minutes.map((minutes) => `${minutes}m` as const),
    });
  }

  /** The card after one more review. */
  reviewed(memory: Memory | null, rating: Rating, time: number): Memory {
    const when = memory ? Math.max(time, memory.last) : time;
    const days = memory ? Math.floor((when - memory.last) / DAY) : 0;
    const { stability, difficulty } = this.algorithm.next_state(memory, days, rating);
    const { state, step, wait } = this.next(memory, rating, stability);
    const reviews = (memory?.reviews ?? 0) + 1;
    return { stability, difficulty, state, step, last: when, due: when + wait, reviews };
  }

  private next(memory: Memory | null, rating: Rating, stability: number) {
    const state = memory?.state ?? "learning";
    const step = memory?.step ?? 0;
    const rest = { state: "review" as const, step: 0, wait: this.interval(stability) };
    if (state === "review") {
      const [first] = this.settings.relearning_minutes;
      if (rating > 1 || first === undefined) return rest;
      return { state: "relearning" as const, step: 0, wait: first * MINUTE };
    }
    const steps =
      state === "learning" ? this.settings.learning_minutes : this.settings.relearning_minutes;
    const goes = stepAfter(steps, step, rating);
    return goes ? { state, step: goes.step, wait: goes.minutes * MINUTE } : rest;
  }

  private interval(stability: number): number {
    return this.algorithm.next_interval(stability, 0) * DAY;
  }
}

/** The step that follows, and how long it waits; null where the steps are done. */
function stepAfter(
  steps: readonly number[],
  step: number,
  rating: Rating,
): { step: number; minutes: number } | null {
  const [first, second] = steps;
  if (first === undefined) return null;
  if (rating === 1) return { step: 0, minutes: first };
  if (rating === 4 || step >= steps.length) return null;
  if (rating === 2) {
    const between = second === undefined ? first * 1.5 : (first + second) / 2;
    return { step, minutes: step === 0 ? between : (steps[step] ?? first) };
  }
  const next = steps[step + 1];
  return next === undefined ? null : { step: step + 1, minutes: next };
}

/** A review may be dated this much after the present: another device's clock may be ahead. */
export const LEEWAY = DAY;

export interface Trusted {
  /** One a date; they never decrease. */
  readonly times: readonly number[];
  /** How many dates are after the present by more than the leeway. */
  readonly numFuture: number;
}

export function trustedTimes(dates: readonly number[], now: number): Trusted {
  const possible = dates.flatMap((date, at) => (date <= now + LEEWAY ? [at] : []));
  const run = longestRun(possible.map((at) => dates[at] ?? now));
  const trusted = new Set(run.map((place) => possible[place]));
  const first = possible[run[0] ?? -1];
  let last = first === undefined ? now : (dates[first] ?? now);
  const times = dates.map((date, at) => {
    if (trusted.has(at)) last = date;
    return last;
  });
  return { times, numFuture: dates.length - possible.length };
}

/** Places of a longest sequence that never decreases, by patience sorting. */
function longestRun(dates: readonly number[]): number[] {
  const ends: number[] = []; // the least last date of a run of each length
  const places: number[] = []; // index of that date
  const before: number[] = []; // for each date, the place of the one before it in its run
  for (const [place, date] of dates.entries()) {
    const length = countUpTo(ends, date);
    before.push(places[length - 1] ?? -1);
    ends[length] = date;
    places[length] = place;
  }
  const run: number[] = [];
  for (let place = places.at(-1) ?? -1; place >= 0; place = before[place] ?? -1) run.push(place);
  return run.reverse();
}

/** How many of a row that never decreases are not above a limit. */
function countUpTo(row: readonly number[], limit: number): number {
  let [low, high] = [0, row.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((row[middle] ?? limit) <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}
