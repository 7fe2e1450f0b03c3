/**
 * When reviews were really made, whatever the clock said; clocks are set back, or run far ahead.
 *
 * The order of the file is the order in which reviews were made. Trusted is the longest run of dates
 * that fits it and does not lie in the future; every other review counts as made at the last trusted
 * date before it (or, where there is none, the first after it). The terminal does the same.
 */

import { DAY } from "./schedule";

/** A review may be dated this much after the present: another device's clock may be ahead. */
export const LEEWAY = DAY;

export interface Trusted {
  /** One a date; they never decrease. */
  readonly times: readonly number[];
  /** How many dates lie after the present by more than the leeway. */
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
  const places: number[] = []; // where that date stands
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
