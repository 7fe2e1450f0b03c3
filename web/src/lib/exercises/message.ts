/** Kinds `message` and `zero-query`: what one head hands to one receiver. */

import { type Matrix, type Row, valueDim } from "../../engine/sheet";
import { ZERO } from "../../numbers/arithmetic";
import { isGreater } from "../../numbers/double";
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
import { again, mixingSheet, POSITIONS, type Solved } from "./sheets";
import { at, mean, mixed, part, times } from "./sums";

function of(drawn: Solved, field: string, head: number): Matrix {
  return at(drawn.steps.matrices(field), head);
}

export function drawMessage(draws: Draws): Draft {
  const drawn = mixingSheet(draws, false);
  const head = draws.below(drawn.sheet.given.heads.length);
  const receiver = draws.between(1, POSITIONS - 1);
  const hasValues = draws.below(2) === 1;
  const values = of(drawn, "v", head);
  const message = at(of(drawn, "head_outputs", head), receiver);
  const source = hasValues ? "v" : "x and W_V";
  return {
    prompt:
      `From the weights of head ${head + 1} and ${source}, work out the head's message to ` +
      `receiver ${receiver + 1}.`,
    given: givenOf(drawn, head, hasValues),
    asks: labels("message column", message.length),
    answer: message,
    misconceptions: wrongs(drawn, head, receiver, hasValues),
    working: [
      `weights of receiver ${receiver + 1}: ${shown(at(of(drawn, "attn_weights", head), receiver))}`,
      ...values
        .slice(0, receiver + 1)
        .map((value, s) => `value of source ${s + 1}: ${shown(value)}`),
      `sum of weight times value: ${shown(message)}`,
    ],
  };
}

function givenOf(drawn: Solved, head: number, hasValues: boolean): GivenTable[] {
  const weights = table("weights", of(drawn, "attn_weights", head), "receiver", "source");
  if (hasValues) return [weights, table("v", of(drawn, "v", head), "source", "column")];
  return [
    weights,
    table("x", drawn.steps.matrix("x"), "source", "feature"),
    table("W_V", at(drawn.sheet.given.heads, head).W_V, "feature", "column"),
  ];
}

function wrongs(
  drawn: Solved,
  head: number,
  receiver: number,
  hasValues: boolean,
): Misconception[] {
  const [weights, v] = [of(drawn, "attn_weights", head), of(drawn, "v", head)];
  const seen = v.slice(0, receiver + 1);
  const found = [
    slip(
      "column-for-row",
      mixed(
        weights.map((row) => at(row, receiver)),
        v,
      ),
      `That is what you get with column ${receiver + 1} of the weights; receiver ` +
        `${receiver + 1} mixes with its row.`,
    ),
    slip(
      "weights-ignored",
      mean(seen),
      `That is what you get when the ${seen.length} values that are seen count alike; each is ` +
        "multiplied by its own weight.",
    ),
    slip(
      "summed-values",
      times(mean(seen), part(seen.length, 1)),
      "That is what you get when the values are added up without their weights.",
    ),
  ];
  const strongest = strongestOf(at(weights, receiver));
  if (strongest !== null) {
    found.push(
      slip(
        "took-largest",
        at(v, strongest),
        `That is what you get when the head takes source ${strongest + 1}, which has the largest ` +
          "weight, alone; a head mixes all that it sees.",
      ),
    );
  }
  return hasValues ? found : [...found, unprojected(drawn, head, receiver)];
}

/** The one source of the largest weight, or null where two share it. */
function strongestOf(row: Row): number | null {
  const highest = row.reduce((most, weight) => (isGreater(weight, most) ? weight : most));
  const places = row.flatMap((weight, s) => (weight.value === highest.value ? [s] : []));
  return places.length === 1 ? at(places, 0) : null;
}

function unprojected(drawn: Solved, head: number, receiver: number): Misconception {
  const width = valueDim(drawn.sheet);
  const [first, end] = [head * width, (head + 1) * width];
  const rows = drawn.steps.matrix("x").map((row) => row.slice(first, end));
  return fault(
    "value-projection-unused",
    mixed(at(of(drawn, "attn_weights", head), receiver), rows),
    `That is what you get when x is mixed itself, features ${first + 1} to ${end}; the values ` +
      "are v = x W_V.",
  );
}

export function drawZeroQuery(draws: Draws): Draft {
  const drawn = mixingSheet(draws, false);
  const head = draws.below(drawn.sheet.given.heads.length);
  const receiver = draws.between(1, POSITIONS - 2);
  const zeroed = again(drawn, { zeroQuery: true });
  const message = at(at(zeroed.matrices("head_outputs"), head), receiver);
  return {
    prompt:
      `A receiver sees itself and earlier sources. W_Q of head ${head + 1} becomes all ` +
      `zeros; nothing else changes. Work out the head's message to receiver ${receiver + 1}.`,
    given: [
      table("weights before", of(drawn, "attn_weights", head), "receiver", "source"),
      table("v", of(drawn, "v", head), "source", "column"),
    ],
    asks: labels("message column", message.length),
    answer: message,
    misconceptions: zeroWrongs(drawn, head, receiver),
    working: [
      `a zero query scores 0 with every source, so that all ${receiver + 1} that it sees ` +
        `weigh ${fractionStyle(part(1, receiver + 1))}`,
      `mean of the values of sources 1 to ${receiver + 1}: ${shown(message)}`,
    ],
  };
}

function zeroWrongs(drawn: Solved, head: number, receiver: number): Misconception[] {
  const [v, count] = [of(drawn, "v", head), receiver + 1];
  const seen = v.slice(0, count);
  const open = again(drawn, { zeroQuery: true, causal: false });
  return [
    fault(
      "causal-hint-ignored",
      at(at(open.matrices("head_outputs"), head), receiver),
      `That is what you get when all ${POSITIONS} sources are mixed alike; receiver ` +
        `${count} sees only ${count} of them.`,
    ),
    fault(
      "mask-after-softmax",
      times(mean(seen), part(count, POSITIONS)),
      `That is what you get when each source that is seen weighs 1/${POSITIONS}: the hidden ` +
        `ones must not count in the sum, so it is 1/${count}.`,
    ),
    slip(
      "zero-message",
      at(v, 0).map(() => ZERO),
      "That is what you get when a zero query is taken for a zero message; scores of 0 are " +
        "all alike, so all that is seen weighs alike.",
    ),
    slip(
      "query-kept",
      at(of(drawn, "head_outputs", head), receiver),
      "That is what you get with the weights before; without a query they change.",
    ),
    slip(
      "summed-values",
      times(mean(seen), part(count, 1)),
      `That is what you get when the ${count} values are added up; their weights are 1/${count} each.`,
    ),
    slip(
      "own-value-only",
      at(v, receiver),
      `That is what you get when receiver ${count} keeps to itself; it weighs the ${count} ` +
        "sources that it sees alike.",
    ),
  ];
}
