/**
 * Kind `mask-rows`: which sources one receiver may see, and the weights that it then gives.
 *
 * Queries stand at the end of the keys: query t of T among S keys has position t + (S - T).
 */

import type { Row } from "../../engine/sheet";
import {
  add,
  BLOCKED,
  exponential,
  logarithm,
  ONE,
  softmax,
  total,
  ZERO,
} from "../../numbers/arithmetic";
import type { Num } from "../../numbers/exact";
import { fraction } from "../../numbers/fraction";
import { fractionStyle } from "../../numbers/numbertext";
import type { Draws } from "./drawing";
import { type Draft, fault, labels, type Misconception, shown, slip } from "./form";
import { at, range } from "./sums";

/** T and S. */
const SIZES = [
  [2, 5],
  [3, 5],
  [4, 6],
] as const;
const FORMS = ["cached", "window", "padding"] as const;
const FACTORS = [1, 2, 3, 4, 5, 6];

/** What decides which sources a receiver sees; everything counts from 0. */
interface Sight {
  readonly form: (typeof FORMS)[number];
  readonly numQueries: number;
  readonly numKeys: number;
  readonly receiver: number;
  /** Keys seen, the own one included; for the form window. */
  readonly window: number;
  /** Padded sources; for the form padding. */
  readonly padding: readonly [number, number];
  /** Where the receiver stands among the keys. */
  readonly position: number;
  /** The first source in reach. */
  readonly first: number;
}

function sightOf(draws: Draws): Sight {
  const [numQueries, numKeys] = draws.choose(SIZES);
  const form = draws.choose(FORMS);
  const receiver = draws.below(numQueries);
  const window = draws.between(2, 3);
  const padded = draws.between(1, numKeys - 2);
  const padding = [padded, padded + draws.between(1, numKeys - 1 - padded)] as const;
  const position = receiver + numKeys - numQueries;
  const first = form === "window" ? position - window + 1 : 0;
  return { form, numQueries, numKeys, receiver, window, padding, position, first };
}

/** For each source, whether the receiver may see it. */
function visible({ form, numKeys, padding, first, position }: Sight): boolean[] {
  return range(0, numKeys).map((s) =>
    form === "padding" ? !padding.includes(s) : first <= s && s <= position,
  );
}

export function drawMaskRows(draws: Draws): Draft | null {
  const sight = sightOf(draws);
  const scores = draws.row(sight.numKeys, FACTORS).map((n) => logarithm(fraction(n)));
  const seen = visible(sight);
  if (seen.every((may) => may)) return null;
  const answer = weights(scores, seen);
  return {
    prompt: promptOf(sight),
    given: [
      {
        name: "scores",
        rows: [scores],
        rowLabels: [`query ${sight.receiver + 1}`],
        columnLabels: labels("source", sight.numKeys),
      },
    ],
    asks: labels("weight of source", sight.numKeys),
    answer,
    misconceptions: [...wrongs(scores, seen), ...shifted(sight, scores)],
    working: workingOf(sight, scores, answer),
  };
}

function promptOf({ form, numKeys, numQueries, receiver, window, padding }: Sight): string {
  const words = {
    cached: "A query sees its own position and everything before it",
    window: `A query sees a window of ${window} positions: its own and those just before it`,
    padding:
      `Sources ${padding.map((s) => s + 1).join(" and ")} are padding; a query sees all ` +
      "others, earlier or later",
  };
  return (
    `${numKeys} sources, of which the last ${numQueries} are also the queries. ${words[form]}. ` +
    `Work out the weights of query ${receiver + 1} of ${numQueries}; a hidden source has weight 0.`
  );
}

function weights(scores: Row, seen: readonly boolean[]): Row {
  return softmax(scores.map((score, s) => (at(seen, s) ? score : BLOCKED)));
}

function wrongs(scores: Row, seen: readonly boolean[]): Misconception[] {
  const everyone = softmax(scores);
  const changed = (row: Row, hidden: (n: Num) => Num, shown: (n: Num) => Num) =>
    row.map((n, s) => (at(seen, s) ? shown(n) : hidden(n)));
  const same = (n: Num) => n;
  const nought = () => ZERO;
  return [
    fault(
      "mask-ignored",
      everyone,
      "That is what you get when nothing is hidden: the hidden sources take weight too.",
    ),
    fault(
      "mask-polarity",
      weights(
        scores,
        seen.map((may) => !may),
      ),
      "That is what you get with the mask the wrong way round: hidden and visible sources have " +
        "changed places.",
    ),
    fault(
      "mask-after-softmax",
      changed(everyone, nought, same),
      "That is what you get when the mask comes after the softmax: hidden sources still count in " +
        "the sum, so the row adds up to less than one.",
    ),
    fault(
      "mask-multiplied",
      softmax(changed(scores, nought, same)),
      "That is what you get when a hidden score becomes 0: e to the power of 0 is 1, so it still " +
        "takes weight; hidden means minus infinity.",
    ),
    fault(
      "mask-additive-confusion",
      softmax(changed(scores, same, (score) => add(score, ONE))),
      "That is what you get when the mask's ones and zeros are added to the scores: hidden " +
        "sources are only a factor e weaker.",
    ),
  ];
}

/** Wrong ends of the visible stretch. */
function shifted(sight: Sight, scores: Row): Misconception[] {
  if (sight.form === "padding") return [];
  const { position, first, receiver, window, numKeys } = sight;
  const within = (from: number, to: number) =>
    weights(
      scores,
      range(0, numKeys).map((s) => from <= s && s <= to),
    );
  const found: Misconception[] = [];
  if (sight.form === "cached") {
    found.push(
      fault(
        "causal-alignment",
        within(0, receiver),
        `That is what you get when query ${receiver + 1} is put at source ${receiver + 1}; the ` +
          `queries are the last sources, so it stands at ${position + 1}.`,
      ),
      fault(
        "causal-off-by-one:early",
        within(0, position - 1),
        `That is what you get when the query does not see its own position, ${position + 1}; it ` +
          "does.",
      ),
    );
  } else {
    found.push(
      slip(
        "window-too-wide",
        within(first - 1, position),
        `That is what you get with a window of ${window} besides the query itself; its own ` +
          "position counts.",
      ),
    );
  }
  if (position + 1 < numKeys) {
    found.push(
      fault(
        "causal-off-by-one:late",
        within(first, position + 1),
        `That is what you get when the query, which stands at ${position + 1}, sees one source ` +
          "too many.",
      ),
    );
  }
  return found;
}

function workingOf(sight: Sight, scores: Row, answer: Row): string[] {
  const seen = visible(sight);
  const places = range(0, sight.numKeys).filter((s) => at(seen, s));
  const powers = places.map((s) => exponential(at(scores, s)));
  const names = places.map((s) => s + 1).join(", ");
  return [
    `query ${sight.receiver + 1} stands at source ${sight.position + 1} and sees ${names}`,
    `their exponentials: ${shown(powers)}, sum ${fractionStyle(total(powers))}`,
    `weights: ${shown(answer)}`,
  ];
}
