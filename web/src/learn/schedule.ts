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
