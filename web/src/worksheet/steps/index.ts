/** The steps of a worksheet, in order. A new step is a component and an entry here. */

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
    formula: "X: one row per token",
    says: "Each token enters as a row of numbers, one for each feature. Attention sees only these rows, not the words.",
    view: Rows,
  },
  {
    id: "projections",
    title: "Queries, keys, values",
    formula: "q = x W_Q   k = x W_K   v = x W_V",
    says: "The head multiplies each full row by three matrices of its own: W_Q gives the query, W_K the key, and W_V the value.",
    view: Projections,
    isOfOneHead: true,
  },
  {
    id: "dots",
    title: "Dot products",
    formula: "q · k",
    says: "Multiply the receiver’s query with each key, entry by entry, and add the products. A large result means that the two vectors have similar directions, or are long.",
    view: Dots,
    isOfOneHead: true,
  },
  {
    id: "scale",
    title: "Scale",
    formula: "score = q · k ÷ √d",
    says: "Wider heads give larger dot products. Dividing by the square root of the head width removes this effect.",
    view: Scale,
    isOfOneHead: true,
  },
  {
    id: "mask",
    title: "Causal mask",
    formula: "later sources: −∞",
    says: "A token attends to itself and to earlier tokens. The scores of later tokens become −∞ before the softmax.",
    view: Mask,
    isOfOneHead: true,
    applies: ({ is_causal }) => is_causal,
  },
  {
    id: "softmax",
    title: "Softmax",
    formula: "weight = exp(score) ÷ sum of exp(score)",
    says: "The exponential makes each score positive. Divided by their sum, the numbers become weights that add up to 1.",
    view: Softmax,
    isOfOneHead: true,
  },
  {
    id: "weights",
    title: "Weights",
    formula: "A: one row per receiver, each adding up to 1",
    says: "The weights of all receivers. A row shows how one token distributes its attention over the sources.",
    view: Weights,
    isOfOneHead: true,
  },
  {
    id: "message",
    title: "Message",
    formula: "message = sum of weight × v",
    says: "Each source’s value is multiplied by its weight. The sum is the message to the receiver.",
    view: Message,
    isOfOneHead: true,
  },
  {
    id: "concat",
    title: "Concatenate the heads",
    formula: "concat = [head 1, head 2, …]",
    says: "The messages of all heads are placed next to each other. They are not averaged: each head keeps its own columns.",
    view: Concat,
  },
  {
    id: "output",
    title: "Output projection",
    formula: "output = concat W_O + b_O",
    says: "One matrix maps the concatenated row to the output: as many numbers as an input row has.",
    view: Output,
  },
  {
    id: "contributions",
    title: "What each head adds",
    formula: "output = sum of (message W_O block) + b_O",
    says: "Each head is multiplied only by its own rows of the output matrix, so the output is exactly the sum of one part per head.",
    view: Contributions,
  },
  {
    id: "residual",
    title: "Add to the row",
    formula: "updated = x + output",
    says: "The output is added to the row of the token. Attention changes the row; it does not replace it.",
    view: Residual,
    applies: ({ residual }) => residual,
  },
  {
    id: "prediction",
    title: "Prediction",
    formula: "softmax(ReLU(updated W_hidden + b) W_vocab + b)",
    says: "A small network computes one score for each word from the updated row. Softmax turns the scores into probabilities.",
    view: Prediction,
    applies: ({ prediction }) => prediction !== null,
  },
];

/** The steps that a worksheet has. */
export function stepsFor(worksheet: Worksheet): Step[] {
  return STEPS.filter(({ applies }) => applies?.(worksheet) ?? true);
}
