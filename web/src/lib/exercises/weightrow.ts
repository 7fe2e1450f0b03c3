/** Kind `weight-row`: from scores to the weights of one receiver. */

import type { Matrix, Row } from "../../engine/sheet";
import { multiply, reciprocal, total } from "../../numbers/arithmetic";
import { fractionStyle } from "../../numbers/numbertext";
import type { Draws } from "./drawing";
import { type Draft, fault, labels, type Misconception, shown, slip, table } from "./form";
import { again, head, noughts, num, numbers, type Solved, sheetOf, solved } from "./sheets";
import { at, range, shares, times } from "./sums";

/** d and T; D = T, since the rows of x only point at a receiver. */
const WIDTH = 4;
const LENGTH = 3;
const FACTORS = [1, 2, 3, 4, 5, 6, 8];

export function drawWeightRow(draws: Draws): Draft | null {
  const factors = draws.matrix(LENGTH, LENGTH, FACTORS);
  const receiver = draws.below(LENGTH);
  if (at(factors, receiver).every((factor) => factor === 1)) return null;
  const drawn = sheetFrom(factors);
  const weights = at(of(drawn, "attn_weights"), receiver);
  const powers = at(of(drawn, "exp_scores"), receiver);
  return {
    prompt:
      `These are the scores of a head that is ${WIDTH} wide, divided by sqrt(${WIDTH}) ` +
      `already; no mask. Work out the weights of receiver ${receiver + 1}.`,
    given: [table("scores", of(drawn, "scores"), "receiver", "source")],
    asks: labels("weight of source", LENGTH),
    answer: weights,
    misconceptions: wrongs(drawn, receiver),
    working: [
      `exponentials: ${shown(powers)}`,
      `their sum: ${fractionStyle(total(powers))}`,
      `weights: ${shown(weights)}`,
    ],
  };
}

function of(drawn: Solved, field: string): Matrix {
  return at(drawn.steps.matrices(field), 0);
}

/** Receiver t's query points at column t of W_K^T, which holds its scores times sqrt(d). */
function sheetFrom(factors: readonly (readonly number[])[]): Solved {
  const pointers = range(0, LENGTH).map((i) => range(0, WIDTH).map((j) => (i === j ? 1 : 0)));
  const keys = range(0, LENGTH).map((s) => [
    ...range(0, LENGTH).map((t) => num(`2*ln(${at(at(factors, t), s)})`)),
    num("0"),
  ]);
  const only = head(numbers(pointers), keys, noughts(LENGTH, 1));
  const x = numbers(pointers.map((row) => row.slice(0, LENGTH)));
  return solved(sheetOf(x, [only], noughts(1, LENGTH), false));
}

function wrongs(drawn: Solved, receiver: number): Misconception[] {
  const powers = of(drawn, "exp_scores");
  const mine = at(powers, receiver);
  const column = mine.map((power, s) =>
    multiply(power, reciprocal(total(powers.map((row) => at(row, s))))),
  );
  const everything = total(powers.map(total));
  const found = [
    fault(
      "softmax-axis:receivers",
      column,
      "That is what you get when each source's column sums to one; a softmax runs over the " +
        "sources of one receiver, so that its row does.",
    ),
    fault(
      "scale:twice",
      rowOf(again(drawn, {}, num(`1/${WIDTH}`)).matrices("attn_weights"), receiver),
      `That is what you get when the scores are divided by sqrt(${WIDTH}) a second time.`,
    ),
    slip(
      "forgot-exp",
      shares(at(of(drawn, "scores"), receiver)),
      "That is what you get when the scores themselves are divided by their sum: first take " +
        "e to the power of each.",
    ),
    slip(
      "forgot-division",
      mine,
      `That is what you get before the division: ${shown(mine)} are the exponentials; ` +
        `divide each by their sum, ${fractionStyle(total(mine))}.`,
    ),
    slip(
      "divided-by-whole-table",
      times(mine, reciprocal(everything)),
      "That is what you get when you divide by the sum of the whole table, " +
        `${fractionStyle(everything)}; the row's own sum is ${fractionStyle(total(mine))}.`,
    ),
  ];
  return receiver === LENGTH - 1 ? found : [...found, masked(drawn, receiver)];
}

function rowOf(heads: readonly Matrix[], receiver: number): Row {
  return at(at(heads, 0), receiver);
}

function masked(drawn: Solved, receiver: number): Misconception {
  return slip(
    "masked-anyway",
    rowOf(again(drawn, { causal: true }).matrices("attn_weights"), receiver),
    `That is what you get when sources after receiver ${receiver + 1} are hidden; here nothing ` +
      "is masked.",
  );
}
