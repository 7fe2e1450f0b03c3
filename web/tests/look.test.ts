/** What the view of saved looks makes of a file, whose every field is a stranger's. */

import { describe, expect, it } from "vitest";
import { strengthAt } from "../src/look/picture";
import {
  decodeLook,
  encodeLook,
  FileProblem,
  headAt,
  readSaved,
  weightOf,
} from "../src/look/saved";

const coded = (...steps: number[]) =>
  btoa(String.fromCharCode(...new Uint8Array(Uint16Array.from(steps).buffer)));

const label = { label: "induction", score: 0.75, null: { greatest: 0.25, p: 0.5, draws: 1 } };
const plain = { label: null, score: null, null: null };

/** Two layers of two heads; head 1.0 is labelled and has weights. */
function fileOf(change: Record<string, unknown> = {}): Record<string, unknown> {
  const head = (layer: number, at: number, says: object) => ({
    ...{ layer, head: at, ...says },
    ...{ ablation: layer === 1 ? { change: 0.5 } : null, logit: null },
  });
  return {
    format: "manyheads-look-1",
    model: { type: "llama", sha256: "ab".repeat(32), dtype: "float32", groups: 1 },
    proof: {
      output_gap: 0,
      found_gap: null,
      sum_error: 1e-7,
      intervention_error: 1e-7,
      refused: [],
    },
    heads: [head(0, 0, plain), head(0, 1, plain), head(1, 0, label), head(1, 1, plain)],
    axes: { "2": ["the", "cat"] },
    behaviours: { induction: "looks at the token after an earlier copy" },
    maps: [
      { layer: 1, head: 0, rows: 2, columns: 2, weights: coded(65_534, 65_535, 32_767, 32_767) },
    ],
    ...change,
  };
}
const read = (change: Record<string, unknown> = {}) => readSaved(JSON.stringify(fileOf(change)));

describe("a saved look", () => {
  it("has its heads, its weights and its mask", () => {
    const saved = read();
    expect(saved.layers.map((heads) => heads.length)).toEqual([2, 2]);
    expect(saved.layers[1]?.[0]).toMatchObject({ label: { greatest: 0.25 }, ablation: 0.5 });
    const map = saved.maps.get("1.0");
    if (!map) throw new Error("no map");
    expect([weightOf(map, 0, 0), weightOf(map, 0, 1), weightOf(map, 1, 0)]).toEqual([1, null, 0.5]);
    expect(map.keys).toEqual(["the", "cat"]);
    expect(strengthAt(map, 1, 0, 1)).toBeCloseTo(Math.sqrt(0.5));
    expect(strengthAt(map, 1, 1, 0)).toBe(0);
    expect(strengthAt(map, 6, 6, 0)).toBe(null);
  });

  it("opens at the head furthest above its null, or at the one in the address", () => {
    const saved = read();
    expect(headAt(saved, null)).toMatchObject({ layer: 1, head: 0 });
    expect(headAt(saved, decodeLook("0.1/2"))).toMatchObject({ layer: 0, head: 1 });
    expect(headAt(saved, decodeLook("9.9"))).toMatchObject({ layer: 1, head: 0 });
    for (const rest of ["0.1/2", "3.4"]) {
      const place = decodeLook(rest);
      expect(place && encodeLook(place)).toBe(rest);
    }
    for (const rest of ["", "x", "1", "1.2/0", "1.2.3", "-1.0", "99999.0"])
      expect(decodeLook(rest)).toBe(null);
  });

  it("shows names without control characters and of a limited length", () => {
    const names = ["a\u202eb\n", "<img src=x onerror=alert(1)>".repeat(50)];
    const keys = read({ axes: { "2": names } }).maps.get("1.0")?.keys ?? [];
    expect(keys[0]).toBe("a\u00b7b\u00b7");
    expect(keys[1]?.length).toBe(80);
    expect(read({ axes: { "2": ["one"] } }).maps.get("1.0")?.keys).toEqual(["1", "2"]);
  });

  it.each([
    [{ format: "another" }, "not a saved look"],
    [{ heads: [] }, "heads"],
    [{ heads: [{ layer: 5, head: 0 }] }, "heads"],
    [{ model: null }, "model"],
    [{ maps: [{ layer: 0, head: 0, rows: 2, columns: 2, weights: "AAAA" }] }, "maps.weights"],
    [{ maps: [{ layer: 0, head: 0, rows: 1e9, columns: 1e9, weights: "" }] }, "maps.rows"],
    [{ maps: [{ layer: 0, head: 0, rows: 1, columns: 1, weights: "\u00e9" }] }, "maps.weights"],
    [{ proof: { refused: {} } }, "proof"],
    [{ axes: [] }, "axes"],
  ])("is refused where it is damaged: %j", (change, field) => {
    expect(() => read(change)).toThrow(FileProblem);
    expect(() => read(change)).toThrow(field);
  });

  it("is refused where it is not JSON, or nested to no end", () => {
    for (const text of ["", "{", "null", "[]", "[".repeat(100_000)])
      expect(() => readSaved(text)).toThrow(FileProblem);
  });
});
