/** Kinds `contribution` and `ablation`: what a head adds after W_O, what is left without it. */

import { type Matrix, type Row, valueDim } from "../../engine/sheet";
import { ZERO } from "../../numbers/arithmetic";
import { fractionStyle } from "../../numbers/numbertext";
import type { Draws } from "./drawing";
import { type Draft, fault, type Misconception, shown, slip, table } from "./form";
import { again, FEATURES, mixingSheet, POSITIONS, type Solved } from "./sheets";
import { at, less, mixed, part, picked, plus, range, sizes, times, transposed } from "./sums";

/** One head of one receiver in a solved worksheet; everything counts from 0. */
interface Case {
  readonly drawn: Solved;
  readonly head: number;
  readonly receiver: number;
  /** The features that are asked. */
  readonly asked: readonly number[];
  readonly numHeads: number;
  /** The next head, or the first after the last. */
  readonly other: number;
  /** The head's columns of the joined row. */
  readonly place: readonly number[];
  /** Of the receiver. */
  readonly joined: Row;
  readonly output: Row;
  readonly bias: Row;
  readonly W_O: Matrix;
}

/** Two of the features asked stand at the head's own place in the joined row, one does not. */
function caseOf(draws: Draws): Case {
  const drawn = mixingSheet(draws, true);
  const numHeads = drawn.sheet.given.heads.length;
  const head = draws.below(numHeads);
  const receiver = draws.below(POSITIONS);
  const width = valueDim(drawn.sheet);
  const first = head * width;
  const asked = [first, first + 1, (first + width) % FEATURES].sort((a, b) => a - b);
  return {
    drawn,
    head,
    receiver,
    asked,
    numHeads,
    other: (head + 1) % numHeads,
    place: range(first, first + width),
    joined: at(drawn.steps.matrix("concat"), receiver),
    output: at(drawn.steps.matrix("output"), receiver),
    bias: drawn.sheet.given.b_O ?? [],
    W_O: drawn.sheet.given.W_O,
  };
}

function contributionOf({ drawn, receiver }: Case, head: number): Row {
  return at(at(drawn.steps.matrices("head_contributions"), head), receiver);
}

function draftOf(
  one: Case,
  prompt: string,
  answer: Row,
  misconceptions: Misconception[],
  working: string[],
): Draft {
  const names = one.asked.map((i) => `feature ${i + 1}`);
  const parts = one.drawn.steps.matrices("head_outputs").map((rows) => at(rows, one.receiver));
  return {
    prompt: `${prompt} Give ${names.join(", ")}.`,
    given: [
      table("head outputs", parts, "head", "column"),
      table("W_O", one.W_O, "column", "feature"),
      table("b_O", [one.bias], "row", "feature"),
    ],
    asks: names,
    answer,
    misconceptions,
    working,
  };
}

function rowsText({ place }: Case): string {
  return `rows ${at(place, 0) + 1} to ${at(place, place.length - 1) + 1} of W_O`;
}

/** The head's message times some rows of W_O, or of another matrix. */
function through(one: Case, places: readonly number[], matrix: Matrix = one.W_O): Row {
  return mixed(
    picked(one.joined, one.place),
    places.map((place) => at(matrix, place)),
  );
}

const CUT =
  "That is what you get when each head has its own features of the finished output; W_O mixes " +
  "every head into all features.";

export function drawContribution(draws: Draws): Draft {
  const one = caseOf(draws);
  const everything = contributionOf(one, one.head);
  const answer = picked(everything, one.asked);
  const prompt =
    `These are the outputs of ${one.numHeads} heads for one receiver. What does ` +
    `head ${one.head + 1} add to the layer's output, sign included?`;
  return draftOf(one, prompt, answer, contributionWrongs(one), [
    `head ${one.head + 1}: ${shown(picked(one.joined, one.place))} times ${rowsText(one)}`,
    `all features: ${shown(everything)}`,
    `asked: ${shown(answer)}`,
  ]);
}

function contributionWrongs(one: Case): Misconception[] {
  const own = contributionOf(one, one.head);
  const width = one.place.length;
  const spread = range(one.head, FEATURES, one.numHeads);
  const otherRows = range(one.other * width, (one.other + 1) * width);
  const take = `take ${rowsText(one)}, those of head ${one.head + 1}.`;
  const begins = "That is what you get ";
  const kept = one.output.map((number, i) => (one.place.includes(i) ? number : ZERO));
  const steps = spread.map((place) => place + 1).join(", ");
  const pick = (row: Row) => picked(row, one.asked);
  return [
    slip("cut-after-output", pick(kept), CUT),
    slip("whole-output", pick(one.output), "That is the output of all heads together, and b_O."),
    slip(
      "other-head",
      pick(contributionOf(one, one.other)),
      `That is what head ${one.other + 1} adds; it is head ${one.head + 1}.`,
    ),
    slip(
      "other-rows",
      pick(through(one, otherRows)),
      `${begins}with the rows of W_O of head ${one.other + 1}; ${take}`,
    ),
    fault(
      "head-order-at-concat",
      pick(through(one, spread)),
      `${begins}with rows ${steps} of W_O; ${take}`,
    ),
    fault(
      "weight-transposed",
      pick(through(one, one.place, transposed(one.W_O))),
      `${begins}with columns of W_O; ${take}`,
    ),
    slip("sign-lost", pick(sizes(own)), "That is right but for the signs: a head may take away."),
    slip(
      "bias-included",
      pick(plus(own, one.bias)),
      `${begins}with b_O added; it belongs to no head.`,
    ),
  ];
}

export function drawAblation(draws: Draws): Draft {
  const one = caseOf(draws);
  const changed = again(one.drawn, { headsOff: [one.head] });
  const answer = picked(at(changed.matrix("output"), one.receiver), one.asked);
  const prompt =
    `These are the outputs of ${one.numHeads} heads for one receiver. Head ` +
    `${one.head + 1} is silenced: zeros take its place before W_O. What is the layer's output?`;
  return draftOf(one, prompt, answer, ablationWrongs(one), [
    `output of all heads: ${shown(one.output)}`,
    `head ${one.head + 1} adds: ${shown(contributionOf(one, one.head))}`,
    `the difference, asked features: ${shown(answer)}`,
  ]);
}

function ablationWrongs(one: Case): Misconception[] {
  const own = contributionOf(one, one.head);
  const heads = one.numHeads;
  const bare = less(less(one.output, own), one.bias);
  const growth = part(heads, heads - 1);
  const left = one.joined.filter((_, i) => !one.place.includes(i));
  const begins = "That is what you get when ";
  const pick = (row: Row) => picked(row, one.asked);
  const found = [
    slip(
      "cut-after-output",
      pick(one.output.map((number, i) => (one.place.includes(i) ? ZERO : number))),
      CUT,
    ),
    slip("contribution-itself", pick(own), "That is what the head adds; take it away."),
    slip("nothing-removed", pick(one.output), "That is the output with all heads."),
    slip(
      "other-head",
      pick(less(one.output, contributionOf(one, one.other))),
      `${begins}head ${one.other + 1} is silenced; it is head ${one.head + 1}.`,
    ),
    slip(
      "rescaled-rest",
      pick(plus(times(bare, growth), one.bias)),
      `${begins}the other heads are scaled up by ${fractionStyle(growth)}; they stay as they are.`,
    ),
    fault("bias-dropped", pick(bare), `${begins}b_O goes with the head; it stays.`),
  ];
  if (one.head === heads - 1) return found; // behind the last head there is no gap
  const closed = plus(mixed(left, one.W_O.slice(0, left.length)), one.bias);
  const says = `${begins}later heads move up into the gap: each keeps its own rows of W_O.`;
  return [...found, slip("closed-the-gap", pick(closed), says)];
}
