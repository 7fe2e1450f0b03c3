/**
 * One training step on the worksheet of the bank: the loss of the last token, its gradient, and W_O
 * after one step of gradient descent. Each number has a name, so that other code can check it.
 */

import type { Quantity } from "../../engine/types";
import type { Answers } from "./engine";

/** Learning rate of the step. */
const RATE = 0.1;

interface Step {
  loss: number;
  /** Of the loss with respect to the updated row of the last token, and to its joined row. */
  rowGradient: number[];
  joinedGradient: number[];
  /** W_O after the step, and what the model predicts with it. */
  outputMatrix: number[][];
  probability: number;
  lossAfter: number;
}

let known: Step | undefined;

const values = (row: Quantity[]) => row.map(({ value }) => value ?? 0);
const table = (rows: Quantity[][]) => rows.map(values);
const dot = (a: readonly number[], b: readonly number[]) =>
  a.reduce((sum, x, i) => sum + x * (b[i] ?? 0), 0);
const column = (rows: number[][], at: number) => rows.map((row) => row[at] ?? 0);

function stepOf(solved: Answers): Step {
  const { last, solution } = solved;
  const { vocabulary, sequences } = solution.sheet;
  const width = solved.features.length;
  const target = vocabulary.indexOf(sequences[0]?.target ?? "");
  const hidden = values(solved.row("hidden", last));
  const probabilities = values(solved.row("probabilities", last));
  const toHidden = table(solved.givenMatrix("prediction.W_hidden", width, hidden.length));
  const toWords = table(solved.givenMatrix("prediction.W_vocab", hidden.length, vocabulary.length));
  const matrix = table(solved.givenMatrix("W_O", width, width));
  const joined = values(solved.row("concat", last));
  const atLogits = probabilities.map((p, word) => p - (word === target ? 1 : 0));
  const atHidden = hidden.map((h, unit) => (h > 0 ? dot(toWords[unit] ?? [], atLogits) : 0));
  const rowGradient = toHidden.map((row) => dot(row, atHidden));
  const joinedGradient = matrix.map((row) => dot(row, rowGradient));
  const outputMatrix = matrix.map((row, i) =>
    row.map((weight, j) => weight - RATE * (joined[i] ?? 0) * (rowGradient[j] ?? 0)),
  );
  const updated = values(solved.row("x", last)).map(
    (x, j) => x + dot(joined, column(outputMatrix, j)),
  );
  const probability = predicted(solved, updated, toHidden, toWords)[target] ?? 0;
  return {
    loss: -Math.log(probabilities[target] ?? 0),
    rowGradient,
    joinedGradient,
    outputMatrix,
    probability,
    lossAfter: -Math.log(probability),
  };
}

/** Probabilities of all words after an updated row. */
function predicted(
  solved: Answers,
  updated: number[],
  toHidden: number[][],
  toWords: number[][],
): number[] {
  const bias = (place: string, at: number) => solved.given(`prediction.${place}[${at}]`).value ?? 0;
  const units = toHidden[0]?.length ?? 0;
  const hidden = Array.from({ length: units }, (_, u) =>
    Math.max(0, dot(updated, column(toHidden, u)) + bias("b_hidden", u)),
  );
  const exponentials = (toWords[0] ?? []).map((_, word) =>
    Math.exp(dot(hidden, column(toWords, word)) + bias("b_vocab", word)),
  );
  const sum = exponentials.reduce((a, b) => a + b, 0);
  return exponentials.map((one) => one / sum);
}

const NUMBERS: Record<string, (step: Step, ...index: number[]) => number | undefined> = {
  rate: () => RATE,
  loss: ({ loss }) => loss,
  perplexity: ({ loss }) => Math.exp(loss),
  "row-gradient": ({ rowGradient }, i = 0) => rowGradient[i],
  "joined-gradient": ({ joinedGradient }, i = 0) => joinedGradient[i],
  "w-o": ({ outputMatrix }, i = 0, j = 0) => outputMatrix[i]?.[j],
  "probability-after": ({ probability }) => probability,
  "loss-after": ({ lossAfter }) => lossAfter,
};

/** The number of that name, such as `training:loss`, or null where the name is none of these. */
export function trainingNumber(name: string, solved: Answers): Quantity | null {
  const [, base = "", index = ""] = /^training:([a-z-]+)((?:\[\d+\])*)$/.exec(name) ?? [];
  const rule = NUMBERS[base];
  if (!rule) return null;
  known ??= stepOf(solved);
  const value = rule(known, ...[...index.matchAll(/\d+/g)].map(([digits]) => Number(digits)));
  if (value === undefined) throw new Error(`no number is named ${name}`);
  return { name, value, exact: null };
}
