/** Kind `grouped-heads`: which key/value head a query head reads, and what a position caches. */

import type { Row } from "../../engine/sheet";
import type { Draws } from "./drawing";
import { type Draft, facts, fault, type Misconception, slip, whole } from "./form";
import { range } from "./sums";

/** H and G. */
const SIZES = [
  [8, 2],
  [8, 4],
  [6, 2],
  [6, 3],
  [12, 3],
  [12, 4],
] as const;
/** Query heads asked. */
const ASKED = 4;

export function drawGroupedHeads(draws: Draws): Draft {
  const [heads, groups] = draws.choose(SIZES);
  const width = draws.choose([5, 7, 10, 16]);
  const first = draws.below(heads);
  const step = draws.choose([1, 5]);
  const asked = range(0, ASKED)
    .map((i) => (first + i * step) % heads)
    .sort((a, b) => a - b);
  const share = heads / groups;
  const read = asked.map((h) => Math.floor(h / share) + 1);
  const cached = 2 * groups * width;
  const names = asked.map((h) => h + 1).join(", ");
  return {
    prompt:
      "Query heads share key/value heads in equal groups of neighbours; all count from 1. Which " +
      `key/value head do query heads ${names} read? And how many numbers does one position add ` +
      "to the cache of one layer?",
    given: [facts({ "query heads": heads, "key/value heads": groups, "head width": width })],
    asks: [...asked.map((h) => `read by query head ${h + 1}`), "numbers cached a position"],
    answer: whole(...read, cached),
    misconceptions: misread(asked, heads, groups, width),
    working: [
      `${heads} / ${groups} = ${share} query heads share one key/value head`,
      ...asked.map((h, i) => `query head ${h + 1} is in group ${read[i]}`),
      `keys and values: 2 * ${groups} * ${width} = ${cached}`,
    ],
  };
}

function misread(
  asked: readonly number[],
  heads: number,
  groups: number,
  width: number,
): Misconception[] {
  const share = heads / groups;
  const cached = 2 * groups * width;
  const right = asked.map((h) => Math.floor(h / share) + 1);
  const all = (read: (h: number, i: number) => number, numbers: number): Row =>
    whole(...asked.map(read), numbers);
  const correct = (_: number, i: number) => right[i] ?? 0;
  const found = [
    fault(
      "grouped-order:tiled",
      all((h) => (h % groups) + 1, cached),
      `That is what you get when the ${groups} key/value heads are dealt out in turn, 1, 2, ...; ` +
        `neighbours share: the first ${share} query heads read the first.`,
    ),
    fault(
      "grouped-order:first",
      all(() => 1, cached),
      `That is what you get when all query heads read the first; there are ${groups}.`,
    ),
    slip(
      "counted-from-zero",
      all((_, i) => correct(0, i) - 1, cached),
      "That is what you get when key/value heads count from 0; here they count from 1.",
    ),
    slip(
      "own-key-value-head",
      all((h) => h + 1, 2 * heads * width),
      `That is what you get when every query head has a key/value head of its own; ${share} ` +
        "share one.",
    ),
    slip(
      "cache-for-every-query-head",
      all(correct, 2 * heads * width),
      `The heads are right; the cache holds ${groups} key/value heads, not ${heads}.`,
    ),
    slip(
      "forgot-values",
      all(correct, groups * width),
      "The heads are right; the cache holds keys and values, so twice as much.",
    ),
  ];
  if (groups === share) return found;
  const says = `That is what you get when ${groups} query heads share one; ${share} do.`;
  const values = all((h) => Math.floor(h / groups) + 1, cached);
  return [...found, slip("shares-by-groups", values, says)];
}
