/** Kind `score`: scaled scores of one receiver, from x, W_Q and W_K or from q and k. */

import { headDim, scaleOf } from "../../engine/sheet";
import { dot, multiply } from "../../numbers/arithmetic";
import { fractionStyle } from "../../numbers/numbertext";
import type { Draws } from "./drawing";
import {
  type Draft,
  fault,
  type GivenTable,
  labels,
  type Misconception,
  shown,
  slip,
  table,
} from "./form";
import { again, head, noughts, num, numbers, type Solved, sheetOf, solved } from "./sheets";
import { at, range, times } from "./sums";

/** D, d and T, all different. */
const SIZES = [
  [3, 2, 4],
  [5, 2, 3],
  [3, 4, 5],
] as const;
const ASKED = 3;
const ENTRIES = [0, 0, 0, 1, -1, 2];

interface Case {
  readonly drawn: Solved;
  readonly dim: number;
  readonly width: number;
  readonly receiver: number;
  readonly hasProjected: boolean;
}

export function drawScore(draws: Draws): Draft {
  const [dim, width, length] = draws.choose(SIZES);
  const x = numbers(draws.matrix(length, dim, [-1, 0, 1, 1, 2, 3]));
  const wQ = numbers(draws.matrix(dim, width, ENTRIES));
  const wK = numbers(draws.matrix(dim, width, ENTRIES), width === 2 ? "*sqrt(2)" : "");
  const receiver = draws.below(length);
  const hasProjected = draws.below(2) === 1;
  const only = head(wQ, wK, noughts(dim, 1));
  const drawn = solved(sheetOf(x, [only], noughts(1, dim), false));
  const one: Case = { drawn, dim, width, receiver, hasProjected };
  return {
    prompt: promptOf(one),
    given: givenOf(one),
    asks: labels("score with source", ASKED),
    answer: ofReceiver(one, "scores"),
    misconceptions: wrongs(one),
    working: workingOf(one),
  };
}

function rowsOf(one: Case, field: string) {
  return at(one.drawn.steps.matrices(field), 0);
}

function ofReceiver(one: Case, field: string) {
  return at(rowsOf(one, field), one.receiver).slice(0, ASKED);
}

function promptOf({ dim, width, receiver, hasProjected }: Case): string {
  const source = hasProjected ? "q of the receiver and k of the sources" : "x, W_Q and W_K";
  return (
    `The model is ${dim} wide and one head ${width} wide. From ${source}, work out the scaled ` +
    `scores of receiver ${receiver + 1} with sources 1 to ${ASKED}.`
  );
}

function givenOf(one: Case): GivenTable[] {
  if (one.hasProjected) {
    const query = table("q", [at(rowsOf(one, "q"), one.receiver)], "receiver", "column");
    return [
      { ...query, rowLabels: [`receiver ${one.receiver + 1}`] },
      table("k", rowsOf(one, "k").slice(0, ASKED), "source", "column"),
    ];
  }
  const only = at(one.drawn.sheet.given.heads, 0);
  return [
    table("x", one.drawn.steps.matrix("x"), "position", "feature"),
    table("W_Q", only.W_Q, "feature", "column"),
    table("W_K", only.W_K, "feature", "column"),
  ];
}

function wrongs(one: Case): Misconception[] {
  const { dim, width, receiver } = one;
  const dots = ofReceiver(one, "dots");
  const right = `the head is ${width} wide, so divide by sqrt(${width})`;
  const scores = rowsOf(one, "scores");
  const found = [
    scaled(one, `1/sqrt(${dim})`, "scale:model-width", right),
    scaled(one, `1/${width}`, "scale:width-itself", right),
    fault(
      "scale:none",
      dots,
      `That is what you get without dividing: ${shown(dots)} are the plain dot products; ${right}.`,
    ),
    fault(
      "scale:multiplied",
      times(dots, num(`sqrt(${width})`)),
      `That is what you get when you multiply by sqrt(${width}); ${right}.`,
    ),
    fault(
      "unpack-order:query-key",
      range(0, ASKED).map((source) => at(at(scores, source), receiver)),
      "That is what you get when W_Q and W_K change places, or receiver and source: the query " +
        `comes from receiver ${receiver + 1}, the keys from the sources.`,
    ),
  ];
  return one.hasProjected ? found : [...found, unprojected(one)];
}

function scaled(one: Case, scale: string, name: string, right: string): Misconception {
  const steps = again(one.drawn, {}, num(scale));
  const values = at(at(steps.matrices("scores"), 0), one.receiver).slice(0, ASKED);
  const isModel = name === "scale:model-width";
  const whose = isModel ? `the model is ${one.dim} wide` : "the root is missing";
  const divisor = scale.replace("1/", "");
  return fault(
    name,
    values,
    `That is what you get when you divide by ${divisor}: ${whose}; ${right}.`,
  );
}

function unprojected(one: Case): Misconception {
  const x = one.drawn.steps.matrix("x");
  const scale = scaleOf(one.drawn.sheet);
  const mine = at(x, one.receiver);
  return slip(
    "projections-skipped",
    range(0, ASKED).map((s) => multiply(dot(mine, at(x, s)), scale)),
    "That is what you get from the rows of x themselves: first q = x W_Q and k = x W_K.",
  );
}

function workingOf(one: Case): string[] {
  const width = headDim(one.drawn.sheet);
  const query = at(rowsOf(one, "q"), one.receiver);
  const [dots, scores] = [ofReceiver(one, "dots"), ofReceiver(one, "scores")];
  return [
    `q of receiver ${one.receiver + 1} = [${shown(query)}]`,
    ...range(0, ASKED).map(
      (s) =>
        `k of source ${s + 1} = [${shown(at(rowsOf(one, "k"), s))}]: q\u00b7k = ` +
        `${fractionStyle(at(dots, s))}, divided by sqrt(${width}) = ${fractionStyle(at(scores, s))}`,
    ),
  ];
}
