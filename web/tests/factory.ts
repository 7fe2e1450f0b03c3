/** A small worksheet, all of whose sizes differ. */

import type { Catalog, Nested, Numbers, Worksheet } from "../src/engine/types";

function exactly(tree: Nested<number | null>): Nested<string | null> {
  return Array.isArray(tree) ? tree.map(exactly) : tree === null ? null : String(tree);
}

export function numbers(values: Nested<number | null>): Numbers {
  return { values, exact: exactly(values) };
}

export function worksheet(name: string, tokens: string[][]): Worksheet {
  const head = { W_Q: numbers([[1]]), W_K: numbers([[1]]), W_V: numbers([[1]]) };
  const none = { b_Q: null, b_K: null, b_V: null };
  return {
    name,
    source: "",
    title: name,
    features: ["a", "b"],
    is_causal: true,
    residual: false,
    scale: numbers(0.5),
    heads: [
      { label: "one", ...head, ...none },
      { label: "two", ...head, ...none, b_Q: numbers([7]) },
    ],
    W_O: numbers([[1, 2]]),
    b_O: null,
    prediction: null,
    vocabulary: null,
    token_embedding: { the: numbers([3, 4]) },
    position_embedding: null,
    sequences: tokens.map((words, at) => ({
      name: `s${at}`,
      tokens: words,
      token_keys: words.map((word) => word.toLowerCase()),
      target: null,
      candidates: [],
      X: null,
    })),
  };
}

export const catalog: Catalog = {
  format: 2,
  worksheets: [
    worksheet("first", [
      ["The", "the", "x"],
      ["the", "x"],
    ]),
    worksheet("second", [["1", "2", "3", "4"]]),
  ],
};
