/** The steps of a worksheet, in order. A new view is a file and a line here. */

import type { Component } from "svelte";
import type { Worksheet } from "../../engine/types";
import Concat from "./Concat.svelte";
import Contributions from "./Contributions.svelte";
import Dots from "./Dots.svelte";
import Mask from "./Mask.svelte";
import Message from "./Message.svelte";
import Output from "./Output.svelte";
import Prediction from "./Prediction.svelte";
import Projections from "./Projections.svelte";
import Residual from "./Residual.svelte";
import Rows from "./Rows.svelte";
import Scale from "./Scale.svelte";
import Softmax from "./Softmax.svelte";
import type { StepProps } from "./step";
import Weights from "./Weights.svelte";

export interface Step {
  id: string;
  title: string;
  formula: string;
  says: string;
  view: Component<StepProps>;
  /** Whether the step is of one head or of all of them together. */
  isOfOneHead?: boolean;
  applies?: (worksheet: Worksheet) => boolean;
}

const STEPS: readonly Step[] = [
  {
    id: "rows",
    title: "The rows X",
    formula: "X: one row a token",
    says: "Every token enters as a row of numbers, one for each feature. Attention never sees the words, only these rows.",
    view: Rows,
  },
  {
    id: "projections",
    title: "Queries, keys, values",
    formula: "q = x W_Q   k = x W_K   v = x W_V",
    says: "The head reads each full row three times, through three matrices of its own: for what to look for, what to be found by, and what to hand over.",
    view: Projections,
    isOfOneHead: true,
  },
  {
    id: "dots",
    title: "Dot products",
    formula: "q · k",
    says: "The receiver’s query is laid against each key: multiply entry by entry and add. A large result means that the two point the same way.",
    view: Dots,
    isOfOneHead: true,
  },
  {
    id: "scale",
    title: "Scale",
    formula: "score = q · k ÷ √d",
    says: "Long queries give large dot products by length alone. Dividing by the square root of the head’s width takes that effect out.",
    view: Scale,
    isOfOneHead: true,
  },
  {
    id: "mask",
    title: "Causal mask",
    formula: "later sources: −∞",
    says: "A token may look at itself and at what came before. Scores of later tokens are struck out before anything is compared.",
    view: Mask,
    isOfOneHead: true,
    applies: ({ is_causal }) => is_causal,
  },
  {
    id: "softmax",
    title: "Softmax",
    formula: "weight = exp(score) ÷ sum of exp(score)",
    says: "Each score becomes a positive number, and each of those is divided by their sum. What was a score is now a share.",
    view: Softmax,
    isOfOneHead: true,
  },
  {
    id: "weights",
    title: "Weights",
    formula: "A: a row for each receiver, adding up to 1",
    says: "The shares of all receivers at once. Read along a row: how one token divides its attention over the sources.",
    view: Weights,
    isOfOneHead: true,
  },
  {
    id: "message",
    title: "Message",
    formula: "message = sum of weight × v",
    says: "Every source hands over its value in proportion to its weight, and the receiver gets the sum.",
    view: Message,
    isOfOneHead: true,
  },
  {
    id: "concat",
    title: "Join the heads",
    formula: "concat = [head 1, head 2, …]",
    says: "The messages of all heads are set side by side. They are not averaged: each keeps its own columns.",
    view: Concat,
  },
  {
    id: "output",
    title: "Output projection",
    formula: "output = concat W_O + b_O",
    says: "One last matrix mixes the joined row back into the features of X.",
    view: Output,
  },
  {
    id: "contributions",
    title: "What each head adds",
    formula: "output = sum of (message W_O block) + b_O",
    says: "Each head meets only its own rows of the output matrix, so the output splits exactly into one part from each head.",
    view: Contributions,
  },
  {
    id: "residual",
    title: "Add to the row",
    formula: "updated = x + output",
    says: "The output is added to the row that the token came with. Attention amends the row; it does not replace it.",
    view: Residual,
    applies: ({ residual }) => residual,
  },
  {
    id: "prediction",
    title: "Prediction",
    formula: "softmax(ReLU(updated W_hidden + b) W_vocab + b)",
    says: "A small network turns the updated row into one score for each word, and softmax turns the scores into probabilities.",
    view: Prediction,
    applies: ({ prediction }) => prediction !== null,
  },
];

/** The steps that a worksheet has. */
export function stepsFor(worksheet: Worksheet): Step[] {
  return STEPS.filter(({ applies }) => applies?.(worksheet) ?? true);
}
