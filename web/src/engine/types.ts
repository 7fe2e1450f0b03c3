/** The form of the file that Python writes: worksheets and their given numbers. */

import data from "../generated/worksheets.json";

export type Nested<T> = T | Nested<T>[];

/** Numbers as nested lists, beside their exact text (null where no short exact form is known). */
export interface Numbers {
  values: Nested<number | null>;
  exact: Nested<string | null>;
}

export interface Head {
  label: string;
  W_Q: Numbers;
  W_K: Numbers;
  W_V: Numbers;
  b_Q: Numbers | null;
  b_K: Numbers | null;
  b_V: Numbers | null;
}

export interface Prediction {
  W_hidden: Numbers;
  b_hidden: Numbers | null;
  W_vocab: Numbers;
  b_vocab: Numbers | null;
}

export interface Sequence {
  name: string;
  tokens: string[];
  /** The row of `token_embedding` that each token takes; null where X is given whole. */
  token_keys: string[] | null;
  /** The rows where they are given whole. */
  X: Numbers | null;
  target: string | null;
  candidates: string[];
}

export interface Worksheet {
  name: string;
  title: string;
  /** Where its given numbers come from. */
  source: string;
  features: string[];
  is_causal: boolean;
  residual: boolean;
  scale: Numbers;
  heads: Head[];
  W_O: Numbers;
  b_O: Numbers | null;
  prediction: Prediction | null;
  vocabulary: string[] | null;
  token_embedding: Record<string, Numbers> | null;
  position_embedding: Numbers | null;
  sequences: Sequence[];
}

export interface Catalog {
  format: number;
  worksheets: Worksheet[];
}

/** fractions: as a fraction where it is one; symbols: as its exact text where that is known. */
export type NumberMode = "decimals" | "fractions" | "symbols";

/** One number as a figure shows it: where it comes from, its value, its exact text. */
export interface Quantity {
  name: string;
  /** null: a blocked key, minus infinity. */
  value: number | null;
  exact: string | null;
}

export const catalog = data as unknown as Catalog;
