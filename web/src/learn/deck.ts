/** A deck and its reviews: what each card's memory is, and which card comes next. */

import { type Line, timeOf } from "./records";
import {
  DAY,
  type Memory,
  MINUTE,
  RATINGS,
  type Rating,
  type Scheduler,
  trustedTimes,
} from "./schedule";

export interface Review {
  readonly card: string;
  readonly rating: Rating;
  /** By the clock of that moment, in milliseconds. */
  readonly when: number;
}

export interface Progress {
  /** By card id; new cards are absent. */
  readonly memories: ReadonlyMap<string, Memory>;
  /** Cards whose first review was made on this day of UTC. */
  readonly begunToday: number;
  /** Reviews dated after the present. */
  readonly numFuture: number;
}

/** The reviews of a file in its order, each once. */
export function reviewsOf(lines: readonly Line[]): Review[] {
  const found = new Map<string, Review>();
  for (const line of lines) {
    const { card, rating } = line.fields;
    const when = timeOf(line);
    const known = RATINGS.find((one) => one === rating);
    if (typeof card !== "string" || known === undefined || when === null) continue;
    const key = reviewKey(line);
    if (!found.has(key)) found.set(key, { card, rating: known, when });
  }
  return [...found.values()];
}

/** What makes two records the same review. */
export function reviewKey(line: Line): string {
  return JSON.stringify([line.fields.card, line.fields.rating, timeOf(line)]);
}

/** Compute the state of every card. */
export function replayed(reviews: readonly Review[], scheduler: Scheduler, now: number): Progress {
  const { times, numFuture } = trustedTimes(
    reviews.map(({ when }) => when),
    now,
  );
  const memories = new Map<string, Memory>();
  let begunToday = 0;
  for (const [at, { card, rating }] of reviews.entries()) {
    const time = times[at] ?? now;
    const before = memories.get(card) ?? null;
    if (!before && Math.floor(time / DAY) === Math.floor(now / DAY)) begunToday += 1;
    memories.set(card, scheduler.reviewed(before, rating, time));
  }
  return { memories, begunToday, numFuture };
}

/** The cards that are due, the longest overdue first. */
export function dueCards(ids: readonly string[], { memories }: Progress, now: number): string[] {
  const dueAt = (id: string) => memories.get(id)?.due ?? Number.POSITIVE_INFINITY;
  return ids.filter((id) => dueAt(id) <= now).sort((one, other) => dueAt(one) - dueAt(other));
}

export interface Waiting {
  readonly due: readonly string[];
  /** New cards that may still be begun today. */
  readonly fresh: readonly string[];
  /** The card to look at now: what is due, then new ones, then what is just being learned. */
  readonly next: string | null;
}

export function waiting(
  ids: readonly string[],
  progress: Progress,
  scheduler: Scheduler,
  now: number,
): Waiting {
  const { ahead_minutes, new_a_day } = scheduler.settings;
  const left = Math.max(0, new_a_day - progress.begunToday);
  const due = dueCards(ids, progress, now);
  const fresh = ids.filter((id) => !progress.memories.has(id)).slice(0, left);
  const early = dueCards(ids, progress, now + ahead_minutes * MINUTE).find(
    (id) => progress.memories.get(id)?.state !== "review",
  );
  return { due, fresh, next: due[0] ?? fresh[0] ?? early ?? null };
}

/** When the next of these cards is due; null where none was ever reviewed. */
export function nextDue(ids: readonly string[], { memories }: Progress): number | null {
  const times = ids.flatMap((id) => memories.get(id)?.due ?? []);
  return times.length === 0 ? null : Math.min(...times);
}

/** How long a card would rest after each of the four answers. */
export function waitsAfter(
  memory: Memory | null,
  now: number,
  scheduler: Scheduler,
): Record<Rating, number> {
  const wait = (rating: Rating) => {
    const { due, last } = scheduler.reviewed(memory, rating, now);
    return due - last;
  };
  return { 1: wait(1), 2: wait(2), 3: wait(3), 4: wait(4) };
}

const UNITS: readonly [string, number][] = [
  ["day", DAY],
  ["hour", 60 * MINUTE],
  ["minute", MINUTE],
];

/** A wait as a person says it: "10 minutes", "3 days"; less than a minute is "a moment". */
export function waitText(milliseconds: number): string {
  for (const [name, size] of UNITS) {
    const count = Math.round(milliseconds / size);
    if (milliseconds >= size)
      return `${count.toLocaleString("en")} ${name}${count === 1 ? "" : "s"}`;
  }
  return "a moment";
}
