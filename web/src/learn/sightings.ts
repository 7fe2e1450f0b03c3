/**
 * What rules find of a point in a free text: its words, and its numbers. A rule knows nothing of what
 * words mean, so the learner sees what was found and decides. `manyheads/learn/sightings.py` has the
 * same rules.
 */

import type { Point } from "./data";

export interface Sighting {
  /** What was looked for: "per head", or a number. */
  label: string;
  /** The learner's own words; null where nothing was found. */
  saw: string | null;
}

/** Largest difference of a number typed with two decimals, with room for its rounding. */
const NEAR = 0.006;

export function sightings(point: Point, text: string): Sighting[] {
  return [...words(point, text), ...numbers(point, text)];
}

function words({ words: rules }: Point, text: string): Sighting[] {
  return rules.map(([label, stems]) => {
    const pattern = stems.map((stem) => stem.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
    const whole = `(?<![\\p{L}\\p{N}])(?<!\\d[.,])(?:${pattern})(?![.,]\\d)[\\p{L}\\p{N}_]*`;
    const found = new RegExp(whole, "iu").exec(text);
    return { label, saw: found ? found[0].trim() : null };
  });
}

function numbers({ says }: Point, text: string): Sighting[] {
  const typed = text.match(/[-\u2212]?\d+(?:\.\d+)?(?:\/\d+)?/g) ?? [];
  const quoted = new Map(
    says.flatMap((part) => (typeof part === "string" ? [] : [[part.text, part.value] as const])),
  );
  return [...quoted].map(([label, wanted]) => ({
    label,
    saw: typed.find((one) => Math.abs(numberOf(one) - wanted) < NEAR) ?? null,
  }));
}

function numberOf(text: string): number {
  const [top = "", bottom = "1"] = text.replace("\u2212", "-").split("/");
  return Number(top) / Number(bottom);
}
