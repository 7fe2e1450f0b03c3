/** Files that are no model are refused, and models that are asked nonsense say so. */
import { describe, expect, it } from "vitest";
import { CONFIG, fileOf, IDS, type Parts, readSmall, smallModel } from "./small-model";

type Header = Record<string, { dtype: string; shape: unknown; data_offsets: unknown }>;
const changed = (change: (header: Header) => void): Parts => ({
  change: (header) => change(header as Header),
});
const entry = (header: Header) => header["hidden.bias"] as Header[string];
/** A file whose list says something else of one tensor. */
const says = (field: "dtype" | "shape" | "data_offsets", value: unknown): Parts =>
  changed((header) => Object.assign(entry(header), { [field]: value }));

describe("a model's file", () => {
  it("is read", () => {
    expect(readSmall(fileOf()).logits(IDS)).toHaveLength(6);
  });

  it.each<[string, Parts, string]>([
    ["longer", { extra: 4 }, "longer than its header"],
    ["of another format", { about: { format: 2, config: CONFIG } }, "does not name a model"],
    [
      "without sizes",
      { about: { format: 1, config: { kind: "attention" } } },
      "does not name a model",
    ],
    [
      "of an unknown kind",
      { about: { format: 1, config: { ...CONFIG, kind: "tree" } } },
      "does not name a model",
    ],
    ["with a number that is none", { values: () => Number.NaN }, "not finite"],
    ["with an infinite number", { values: (i) => (i === 7 ? Infinity : 0) }, "not finite"],
    [
      "of another width",
      { about: { format: 1, config: { ...CONFIG, width: 6 } } },
      "has shape 6 x 4, not 6 x 6",
    ],
    ["without a tensor", changed((h) => delete h["token_embedding.weight"]), "longer than"],
    [
      "with a tensor too many",
      changed((h) => Object.assign(h, { more: entry(h) })),
      "is not where the header says",
    ],
    ["of an unknown type", says("dtype", "I64"), "unknown data type"],
    ["with a wrong shape", says("shape", [6]), "the wrong length"],
    ["with no shape", says("shape", "5"), "no valid shape"],
    ["with no place", says("data_offsets", [0]), "has no offsets"],
    [
      "with a place beyond its end",
      says("data_offsets", [256, 1e9]),
      "is not where the header says",
    ],
  ])("%s is refused", (_, parts, said) => {
    expect(() => readSmall(fileOf(parts))).toThrow(said);
  });

  it("cut off anywhere in its list is refused", () => {
    const whole = fileOf();
    for (const length of [0, 7, 8, 100, 400])
      expect(() => readSmall(whole.slice(0, length))).toThrow("file is damaged");
  });

  it("with an unknown name is refused", () => {
    const rename = changed((h) => {
      const known = entry(h);
      delete h["hidden.bias"];
      h["hidden.skew"] = known;
    });
    expect(() => readSmall(fileOf(rename))).toThrow("unknown hidden.skew");
  });
});

describe("a model", () => {
  it.each([[[]], [[0]], [[6]], [[1.5]]])("refuses the ids %j", (ids) => {
    expect(() => smallModel().logits(ids)).toThrow("must be words of the model's vocabulary");
  });

  it.each([
    [["own"], "1 switches"],
    [["own", 2], "heads (2)"],
    [["own", "on"], "heads (on)"],
  ])("refuses the switches %j", (heads, said) => {
    expect(() => smallModel().logits(IDS, heads as never)).toThrow(said);
  });

  it("without its heads sees the last word alone", () => {
    const model = smallModel();
    const off = ["off", "off"] as const;
    expect(model.logits([4, 4, 5], off)).toEqual(model.logits([1, 1, 5], off));
    expect(model.logits([4, 4, 5])).not.toEqual(model.logits([1, 1, 5]));
  });
});
