/** The prompts of the models view, and its part of the address. */

import { describe, expect, it } from "vitest";
import {
  decodeModels,
  encodeModels,
  FIRST_PLACE,
  type ModelsPlace,
  promptOf,
} from "../src/models/place";
import { ATTRIBUTION, PRESETS, sourceOf } from "../src/models/presets";

const there = (change: Partial<ModelsPlace>) => ({ ...FIRST_PLACE, ...change });
const back = (change: Partial<ModelsPlace>) => decodeModels(encodeModels(there(change)));

describe("presets", () => {
  it("are two from training, two held out and three from outside, with names of their own", () => {
    const kinds = PRESETS.map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === "training")).toHaveLength(2);
    expect(kinds.filter((kind) => kind === "held-out")).toHaveLength(2);
    expect(kinds.filter((kind) => kind === "outside")).toHaveLength(3);
    expect(new Set(PRESETS.map(({ id }) => id)).size).toBe(PRESETS.length);
  });

  it("name the licence where they quote, and only there", () => {
    for (const preset of PRESETS)
      expect(sourceOf(preset).includes(ATTRIBUTION)).toBe(preset.kind !== "outside");
  });
});

describe("the address of the models view", () => {
  it("is empty at first", () => {
    expect(encodeModels(FIRST_PLACE)).toBe("");
    expect(decodeModels("")).toEqual(FIRST_PLACE);
  });

  it.each<Partial<ModelsPlace>>([
    { preset: "rainbow" },
    { preset: null, text: "A dog & a cat = friends? 50% # more\nlines" },
    { preset: null, text: "" },
    { temperature: 0 },
    { temperature: 0.000001, topK: 1, seed: "18446744073709551615", length: 400 },
    { stop: "the end." },
    { backend: "onnx-webgpu", look: "one-head", heads: ["off"] },
    { heads: ["own", "off", "uniform", 0], locked: 0 },
  ])("brings back %j", (change) => {
    expect(back(change)).toEqual(there(change));
  });

  it("counts heads and words from 1", () => {
    expect(encodeModels(there({ heads: ["own", 0, "own", "own"], locked: 4 }))).toBe(
      "heads=own.1.own.own&word=5",
    );
  });

  it.each([
    ["preset=nobody", {}],
    ["t=-1&k=0&seed=18446744073709551616&length=401", {}],
    ["t=NaN&k=1e3&seed=1.5&length=%00", {}],
    ["engine=quantum&look=../../etc&heads=own.loud&word=0", {}],
    ["heads=own.9", {}],
    ["heads=own.own.own.own", {}],
    ["word=-3&heads=....", {}],
    ["%E0%A4%A&&&=", {}],
    ["/?preset=rainbow", { preset: "rainbow" }],
  ])("falls back where %s makes no sense", (part, change) => {
    expect(decodeModels(part)).toEqual(there(change));
  });

  it("cuts a text that is too long, never through a character", () => {
    const text = `a${"\u{1f415}".repeat(1500)}`;
    const place = decodeModels(new URLSearchParams({ text }).toString());
    expect(place.text).toBe(`a${"\u{1f415}".repeat(999)}`);
    expect(promptOf(there({ preset: null, text: "half \ud83d" }))).toBe("half ");
  });
});
