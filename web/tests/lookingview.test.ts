/** What the models view makes of logits and weights, and the study view of results. */

import { describe, expect, it } from "vitest";
import type { WindowView } from "../src/models/engine/types";
import {
  bytesText,
  comparedWords,
  isOwn,
  largest,
  nextWords,
  strongest,
} from "../src/models/words";
import { armsOf, controlsOf, decodeStudy, encodeStudy, type StudyData } from "../src/study/data";
import { placeIn, scaleOf, tickText } from "../src/study/scale";

const WORDS = ["[PAD]", "[BOS]", "[EOS]", "[UNK]", "dog", "cat"];
const logits = (...values: number[]) => Float32Array.from(values);

/** Two heads on three words; head 2 looks at the first word alone. */
const VIEW: WindowView = {
  ids: [1, 4, 5],
  words: ["[BOS]", "dog", "cat"],
  numHeads: 2,
  size: 3,
  ownWeights: new Float32Array(18),
  weights: Float32Array.from([
    1, 0, 0, 0.75, 0.25, 0, 0.125, 0.625, 0.25, 1, 0, 0, 1, 0, 0, 1, 0, 0,
  ]),
  logits: new Float32Array(6),
  next: [],
};

describe("next words", () => {
  it("come best first, with probabilities among all words", () => {
    const next = nextWords(logits(0, 0, 0, 0, Math.log(4), Math.log(2)), WORDS, 2);
    expect(next.map(({ id, word }) => [id, word])).toEqual([
      [4, "dog"],
      [5, "cat"],
    ]);
    expect(next[0]?.probability).toBeCloseTo(0.4, 6);
    expect(next[1]?.probability).toBeCloseTo(0.2, 6);
  });

  it("are compared over the best of both sides", () => {
    const rows = comparedWords(logits(0, 0, 0, 0, 3, 0), logits(0, 0, 0, 0, 0, 3), WORDS, 1);
    expect(rows.map(({ before }) => before.word)).toEqual(["dog", "cat"]);
    expect(rows[0]?.before.probability).toBeCloseTo(rows[1]?.after.probability ?? 0, 12);
    expect(rows[0]?.after.logit).toBe(0);
  });
});

describe("weights", () => {
  it("are sorted for a receiver, its own word included", () => {
    expect(strongest(VIEW, 0, 2, 2)).toEqual([
      { source: 1, weight: 0.625 },
      { source: 2, weight: 0.25 },
    ]);
    expect(strongest(VIEW, 0, 0, 3)).toEqual([{ source: 0, weight: 1 }]);
  });

  it("have a largest one over all heads", () => {
    expect(largest(VIEW, 2)).toEqual({ head: 1, source: 0, weight: 1 });
  });

  it("are as learned where a head has its own, by name or by number", () => {
    expect(isOwn(["own", 1])).toBe(true);
    expect(isOwn(["own", 0])).toBe(false);
  });
});

it("writes sizes as people do", () => {
  expect([bytesText(11_721), bytesText(2_642_240)]).toEqual(["12 KB", "2.6 MB"]);
});

const MODELS = [
  { name: "mlp", kind: "fixed-window-mlp" },
  { name: "heads-4", kind: "attention", num_heads: 4, pattern: "learned" },
  { name: "heads-1", kind: "attention", num_heads: 1, pattern: "learned" },
  { name: "heads-2", kind: "attention", num_heads: 2, pattern: "learned" },
  { name: "width16-2", kind: "attention", num_heads: 2, head_dim: 16, pattern: "learned" },
  { name: "uniform", kind: "attention", num_heads: 4, pattern: "uniform" },
];
const study = {
  plan: { models: MODELS, protocol: { width: 64 } },
  aggregate: Object.fromEntries(MODELS.map(({ name }) => [name, {}])),
} as unknown as StudyData;

describe("studies", () => {
  it("have arms of three head counts or more, least first, without controls", () => {
    expect(armsOf(study)).toEqual([
      {
        title: "width 64, split among the heads",
        models: [
          { name: "heads-1", numHeads: 1 },
          { name: "heads-2", numHeads: 2 },
          { name: "heads-4", numHeads: 4 },
        ],
      },
    ]);
    expect(controlsOf(study).map(({ name }) => name)).toEqual(["uniform"]);
  });

  it("are found again by their address", () => {
    expect(decodeStudy(encodeStudy({ study: "head-count" }))).toEqual({ study: "head-count" });
    expect(decodeStudy("constructor")).toEqual({ study: null });
  });
});

describe("scales", () => {
  it("hold all values between round ticks", () => {
    const scale = scaleOf([3.71, 4.43]);
    expect(scale.ticks.map((tick) => tickText(scale.ticks, tick))).toEqual([
      "3.6",
      "3.8",
      "4.0",
      "4.2",
      "4.4",
      "4.6",
    ]);
    expect(placeIn(scale, 4.1, 0, 100)).toBeCloseTo(50, 9);
  });

  it("exist for one value too", () => {
    const { low, high, ticks } = scaleOf([2]);
    expect(low <= 2 && high >= 2 && ticks.length > 1).toBe(true);
  });
});
