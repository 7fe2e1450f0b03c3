/** Every kind of exercise, and how one is drawn: the same kind and seed as in the terminal. */

import type { Row } from "../../engine/sheet";
import { drawAblation, drawContribution } from "./apart";
import { drawByteCount, drawParameterCount } from "./counting";
import { Draws } from "./drawing";
import type { Draft, Exercise } from "./form";
import { drawGroupedHeads } from "./grouped";
import { drawConcat, drawProjectedOutput } from "./joining";
import { drawLayoutConversion } from "./layout";
import { drawMaskRows } from "./maskrows";
import { drawMessage, drawZeroQuery } from "./message";
import { drawScore } from "./score";
import { at } from "./sums";
import { drawWeightRow } from "./weightrow";

/** Draws before giving up. */
const MOST_TRIES = 200;
export const LARGEST_SEED = 2 ** 32 - 1;

export interface Kind {
  /** As in commands and addresses. */
  readonly name: string;
  readonly title: string;
  /** Which PCG32 stream it draws from; never changed. */
  readonly stream: number;
  /** One try; null where the draw is no exercise. */
  readonly draw: (draws: Draws) => Draft | null;
}

/** All kinds, in the order in which they are learned. */
export const KINDS: readonly Kind[] = [
  { name: "score", title: "Scaled scores", stream: 101, draw: drawScore },
  { name: "weight-row", title: "From scores to weights", stream: 102, draw: drawWeightRow },
  { name: "message", title: "What a head hands on", stream: 103, draw: drawMessage },
  { name: "concat", title: "Heads side by side", stream: 104, draw: drawConcat },
  { name: "projected-output", title: "Through W_O", stream: 105, draw: drawProjectedOutput },
  { name: "contribution", title: "What one head adds", stream: 106, draw: drawContribution },
  { name: "zero-query", title: "A query of zeros", stream: 107, draw: drawZeroQuery },
  { name: "ablation", title: "Without one head", stream: 108, draw: drawAblation },
  { name: "parameter-count", title: "What a layer stores", stream: 109, draw: drawParameterCount },
  { name: "byte-count", title: "Bytes of scores and cache", stream: 110, draw: drawByteCount },
  { name: "mask-rows", title: "What a mask hides", stream: 111, draw: drawMaskRows },
  { name: "grouped-heads", title: "Shared keys and values", stream: 112, draw: drawGroupedHeads },
  {
    name: "layout-conversion",
    title: "Where an entry is stored",
    stream: 113,
    draw: drawLayoutConversion,
  },
];

/** Draw an exercise: again and again from the same stream, until it can be marked fairly. */
export function exercise(kind: Kind, seed: number): Exercise {
  const draws = new Draws(seed, kind.stream);
  for (let tries = 0; tries < MOST_TRIES; tries += 1) {
    const draft = kind.draw(draws);
    if (draft !== null && isFair(draft)) {
      return { ...draft, id: `${kind.name}/${seed}`, kind: kind.name, seed, title: kind.title };
    }
  }
  throw new Error(`seed (${seed}) gives no ${kind.name} exercise`);
}

/** Whether the answer and all misconceptions differ so that three digits tell them apart. */
function isFair({ answer, misconceptions }: Draft): boolean {
  const rows = [answer, ...misconceptions.map(({ values }) => values)];
  return rows.every((row, i) => rows.slice(0, i).every((other) => differ(row, other)));
}

function differ(left: Row, right: Row): boolean {
  if (left.length !== right.length) return true;
  return left.some(({ value: a }, i) => {
    const b = at(right, i).value;
    return Math.abs(a - b) > 0.01 * Math.max(Math.abs(a), Math.abs(b));
  });
}
