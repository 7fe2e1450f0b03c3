/** From numbers to places in a drawing. */

export interface Scale {
  /** Smallest and largest value that is drawn. */
  low: number;
  high: number;
  /** Round values to write at the axis. */
  ticks: number[];
}

/** A scale that holds all values, with about four ticks. */
export function scaleOf(values: readonly number[]): Scale {
  const least = Math.min(...values);
  const most = Math.max(...values);
  const span = most - least || Math.abs(most) || 1;
  const step = roundStep(span / 4);
  const first = Math.floor(least / step);
  const last = Math.max(first + 1, Math.ceil(most / step));
  const ticks = Array.from({ length: last - first + 1 }, (_, at) => (first + at) * step);
  return { low: first * step, high: last * step, ticks };
}

/** 1, 2 or 5 times a power of ten, not below the step. */
function roundStep(step: number): number {
  const power = 10 ** Math.floor(Math.log10(step));
  const factor = [1, 2, 5].find((each) => each * power >= step * 0.999) ?? 10;
  return factor * power;
}

/** Where a value lies between two places. */
export function placeIn(
  { low, high }: Pick<Scale, "low" | "high">,
  value: number,
  from: number,
  to: number,
): number {
  return high === low ? (from + to) / 2 : from + ((value - low) / (high - low)) * (to - from);
}

/** A tick as text, with the digits that the ticks differ in. */
export function tickText(ticks: readonly number[], tick: number): string {
  const step = Math.abs((ticks[1] ?? 1) - (ticks[0] ?? 0));
  return tick.toFixed(Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
}
