/** Kinds `concat` and `projected-output`: head outputs side by side, and what W_O makes of them. */

import { type Row, valueDim } from "../../engine/sheet";
import type { Draws } from "./drawing";
import { type Draft, fault, labels, type Misconception, shown, slip, table } from "./form";
import { mixingSheet, POSITIONS, type Solved } from "./sheets";
import { at, mean, mixed, part, picked, plus, range, times, transposed } from "./sums";

/** Features asked of an output. */
const ASKED = [0, 1, 2];

function partsOf(drawn: Solved, receiver: number): Row[] {
  return drawn.steps.matrices("head_outputs").map((rows) => at(rows, receiver));
}

/** A row, so many times. */
function repeated(row: Row, count: number): Row {
  return range(0, count).flatMap(() => row);
}

/** Channel 1 of every head, then channel 2 of every head, ... */
function interleaved(parts: readonly Row[]): Row {
  return transposed(parts).flat();
}

export function drawConcat(draws: Draws): Draft {
  const drawn = mixingSheet(draws, false);
  const receiver = draws.below(POSITIONS);
  const parts = partsOf(drawn, receiver);
  const joined = at(drawn.steps.matrix("concat"), receiver);
  return {
    prompt:
      `${parts.length} heads hand these outputs to ${POSITIONS} receivers. Write down the joined ` +
      `row of receiver ${receiver + 1}, before W_O.`,
    given: drawn.steps
      .matrices("head_outputs")
      .map((rows, h) => table(`outputs of head ${h + 1}`, rows, "receiver", "column")),
    asks: labels("joined column", joined.length),
    answer: joined,
    misconceptions: joinedWrongly(drawn, receiver),
    working: [
      ...parts.map((row, h) => `head ${h + 1}: ${shown(row)}`),
      `side by side, in order: ${shown(joined)}`,
    ],
  };
}

function joinedWrongly(drawn: Solved, receiver: number): Misconception[] {
  const parts = partsOf(drawn, receiver);
  const memory = drawn.steps.matrices("head_outputs").flat(2);
  const heads = parts.length;
  const size = at(drawn.steps.matrix("concat"), 0).length;
  const middle = mean(parts);
  const summed = times(middle, part(heads, 1));
  const each = `every head keeps columns of its own, ${size} in all`;
  const begins = `That is what you get when the ${heads} heads are`;
  return [
    fault(
      "heads-averaged:mean",
      repeated(middle, heads),
      `${begins} averaged, the mean repeated; ${each}.`,
    ),
    fault("heads-averaged:mean-once", middle, `${begins} averaged; ${each}.`),
    fault(
      "heads-averaged:sum",
      repeated(summed, heads),
      `${begins} added up, the sum repeated; ${each}.`,
    ),
    fault("heads-averaged:sum-once", summed, `${begins} added up; ${each}.`),
    fault(
      "head-order-at-concat:interleaved",
      interleaved(parts),
      "That is what you get when column 1 of every head comes first, then column 2; all " +
        "columns of head 1 come before those of head 2.",
    ),
    fault(
      "head-order-at-concat:reversed",
      [...parts].reverse().flat(),
      "That is what you get when the last head comes first; W_O's rows expect head 1 first.",
    ),
    fault(
      "merge-by-view",
      memory.slice(receiver * size, (receiver + 1) * size),
      `That is what you get when the tables are read on row by row, ${size} numbers a ` +
        "receiver: it mixes receivers; first gather the receiver's row of each head.",
    ),
  ];
}

export function drawProjectedOutput(draws: Draws): Draft {
  const drawn = mixingSheet(draws, true);
  const receiver = draws.below(POSITIONS);
  const { W_O, b_O, heads } = drawn.sheet.given;
  const bias = b_O ?? [];
  const joined = at(drawn.steps.matrix("concat"), receiver);
  const output = at(drawn.steps.matrix("output"), receiver);
  const products = mixed(joined, W_O);
  return {
    prompt:
      `The outputs of ${heads.length} heads, ${valueDim(drawn.sheet)} columns each, are joined. ` +
      `Work out features 1 to ${ASKED.length} of the layer's output.`,
    given: [
      table("joined", [joined], "row", "column"),
      table("W_O", W_O, "column", "feature"),
      table("b_O", [bias], "row", "feature"),
    ],
    asks: labels("output feature", ASKED.length),
    answer: picked(output, ASKED),
    misconceptions: projectedWrongly(drawn, receiver, bias),
    working: ASKED.map(
      (i) =>
        `feature ${i + 1}: [${shown(joined)}] times column ${i + 1} of W_O = ` +
        `${shown([at(products, i)])}, plus ${shown([at(bias, i)])} = ${shown([at(output, i)])}`,
    ),
  };
}

function projectedWrongly(drawn: Solved, receiver: number, bias: Row): Misconception[] {
  const parts = partsOf(drawn, receiver);
  const { W_O } = drawn.sheet.given;
  const joined = at(drawn.steps.matrix("concat"), receiver);
  const [width, heads] = [at(parts, 0).length, parts.length];
  const output = (row: Row, added: Row = bias) => picked(plus(mixed(row, W_O), added), ASKED);
  return [
    fault(
      "output-projection-missing",
      picked(joined, ASKED),
      "That is the joined row as it was: it still has to be multiplied by W_O.",
    ),
    fault(
      "bias-dropped",
      picked(mixed(joined, W_O), ASKED),
      `That is what you get without b_O; add ${shown(picked(bias, ASKED))}.`,
    ),
    fault(
      "weight-transposed",
      picked(plus(mixed(joined, transposed(W_O)), bias), ASKED),
      "That is what you get with the rows of W_O; feature 1 takes its first column.",
    ),
    fault(
      "head-order-at-concat",
      output(interleaved(parts)),
      "That is what you get when the joined columns alternate between the heads; W_O's rows " +
        `1 to ${width} belong to head 1.`,
    ),
    fault(
      "heads-averaged",
      output(repeated(mean(parts), heads)),
      `That is what you get when every head's place holds the mean of the ${heads} heads.`,
    ),
    slip(
      "counted-one-head",
      picked(plus(mixed(at(parts, 0), W_O.slice(0, width)), bias), ASKED),
      `That is what head 1 alone gives, by rows 1 to ${width} of W_O; all ${heads} heads add.`,
    ),
    slip(
      "bias-for-each-head",
      output(joined, times(bias, part(heads, 1))),
      `That is what you get when b_O is added ${heads} times, once a head; it counts once.`,
    ),
  ];
}
