import { describe, expect, it } from "vitest";
import type { Solution } from "../src/engine/attention";
import { type Changes, NO_CHANGES } from "../src/engine/editing";
import { explain } from "../src/engine/explain";
import { LiveQuantity, LiveSolved } from "../src/engine/live";
import { catalog, type Numbers, type Sequence, type Worksheet } from "../src/engine/types";
import { decimal } from "../src/numbers/exact";
import { parseNumber } from "../src/numbers/parse";
import { formulaParts } from "../src/worksheet/formula";
import { must } from "./fixture";

function live(name: string, changes: Partial<Changes> = {}, sequence = 0): LiveSolved {
  const worksheet = catalog.worksheets.find((one) => one.name === name);
  const found = worksheet?.sequences[sequence];
  if (!worksheet || !found) throw new Error(`no worksheet ${name}`);
  return new LiveSolved(worksheet, found, { ...NO_CHANGES, ...changes });
}

const seventh = [{ place: "heads.0.W_Q[3][1]", text: "1/7" }];

describe("a number of a worksheet", () => {
  it("carries its name, and where it is given the place that edits it", () => {
    const solved = live("river-and-cheque");
    expect(solved.headMatrix(0, "W_Q").at(3, 1)).toMatchObject({
      name: "river-and-cheque:heads.0.W_Q[3][1]",
      place: "heads.0.W_Q[3][1]",
      value: 1,
    });
    expect(solved.tokenRow(4)?.[3]?.place).toBe("token_embedding.the[3]");
    expect(solved.field("attn_weights").at(0, 9, 5)).toMatchObject({
      name: "river-and-cheque:river.attn_weights[0][9][5]",
      place: null,
    });
    expect(live("two-routes").field("x").at(1, 0).place).toBe("sequences.main.X[1][0]");
  });

  it("has a former value only where an edit has changed it", () => {
    const solved = live("river-and-cheque", { edits: seventh });
    expect(solved.headMatrix(0, "W_Q").at(3, 1).former?.value).toBe(1);
    expect(solved.headMatrix(0, "W_Q").at(3, 0).former).toBeNull();
    expect(solved.field("q").at(0, 9, 1).former?.value).toBe(2.3);
    expect(solved.field("q").at(1, 9, 1).former).toBeNull();
    expect(solved.field("probabilities").at(9, 0).former).not.toBeNull();
  });

  it("has changed from a hundred-trillionth of its size on; less is rounding", () => {
    for (const size of [1, 2 ** 20, 2 ** -20]) {
      const of = (value: number) => decimal({ value: size * value, low: 0 });
      const former = (value: number) =>
        new LiveQuantity("w:s.x[0][0]", of(value), null, () => of(1)).former;
      expect(former(1 + 5e-15)).toBeNull();
      expect(former(1 + 2e-14)?.value).toBe(size);
      expect(former(1 + 1e-7)?.value).toBe(size);
    }
  });

  it("is found by its name", () => {
    const solved = live("river-and-cheque");
    expect(solved.named("river-and-cheque:river.x[0][3]")?.value).toBe(2.3);
    expect(solved.named("scale")?.exact).toBe("sqrt(2)/2");
    for (const name of [
      "cheque.x[0][3]",
      "river.x[99][0]",
      "river.x[0]",
      "heads.0.W_Q",
      "",
      "x.y",
    ]) {
      expect(solved.named(name), name).toBeNull();
    }
  });
});

describe("a what-if choice", () => {
  it("stands over what is given: a number that it has set is not edited there", () => {
    const solved = live("river-and-cheque", { headsOff: [1], hasZeroQuery: true });
    expect(solved.headMatrix(1, "W_V").at(0, 0).place).toBeNull();
    expect(solved.headMatrix(0, "W_Q").at(3, 1)).toMatchObject({ place: null, value: 0 });
    expect(solved.headMatrix(0, "W_V").at(0, 0).place).toBe("heads.0.W_V[0][0]");
  });

  it("of one wide head edits a column in the head that brought it", () => {
    const solved = live("three-heads", { isWide: true });
    const column = solved.headMatrix(0, "W_K").at(2, 5);
    expect(column.place).toBe("heads.2.W_K[2][1]");
    expect(column.value).toBe(live("three-heads").headMatrix(2, "W_K").at(2, 1).value);
    expect(solved.field("attn_weights").at(0, 3, 1).former).toBeNull();
    expect(
      solved
        .field("output")
        .row(3)
        .some(({ former }) => former !== null),
    ).toBe(true);
  });

  it("of one wide head keeps the values of the heads that are on editable", () => {
    const solved = live("three-heads", { isWide: true, headsOff: [0] });
    const width = live("three-heads").width;
    expect(solved.headMatrix(0, "W_V").at(0, width).place).toBe("heads.1.W_V[0][0]");
    for (const column of Array.from({ length: width }, (_, at) => at)) {
      expect(solved.headMatrix(0, "W_V").at(0, column).place).toBeNull();
    }
  });

  it("of one wide head finds the home of a value where values are narrower than keys", () => {
    const given = catalog.worksheets.find(({ name }) => name === "two-routes") as Worksheet;
    const sequence = given.sequences[0] as Sequence;
    const first = (rows: Numbers): Numbers => ({
      values: (rows.values as number[][]).map((row) => row.slice(0, 1)),
      exact: (rows.exact as string[][]).map((row) => row.slice(0, 1)),
    });
    const heads = given.heads.map((head) => ({ ...head, W_V: first(head.W_V), b_V: null }));
    const half = (rows: unknown) => (rows as never[]).filter((_, row) => row % 2 === 0);
    const W_O = { values: half(given.W_O.values), exact: half(given.W_O.exact) };
    const narrow = { ...given, heads, W_O };
    const solved = new LiveSolved(narrow, sequence, { ...NO_CHANGES, isWide: true });
    expect(solved.headMatrix(0, "W_V").at(0, 1).place).toBe("heads.1.W_V[0][0]");
    expect(solved.headMatrix(0, "W_K").at(0, 1).place).toBe("heads.0.W_K[0][1]");
    expect(solved.headMatrix(0, "W_Q").at(1, 2).place).toBe("heads.1.W_Q[1][0]");
  });

  it("lets a receiver see later sources where the mask is off", () => {
    expect(live("two-routes").lastSeen(0)).toBe(0);
    expect(live("two-routes", { isCausal: false }).lastSeen(0)).toBe(2);
  });
});

/** The names of all numbers of a solution. */
function everyName(solution: Solution): string[] {
  const { sheet, sequence, fields } = solution;
  const indices = (shape: readonly number[]): string[] =>
    shape.reduce<string[]>(
      (tails, size) =>
        tails.flatMap((tail) => Array.from({ length: size }, (_, at) => `${tail}[${at}]`)),
      [""],
    );
  return fields.flatMap(({ name }) =>
    indices(solution.shape(name)).map((tail) => `${sheet.name}:${sequence.name}.${name}${tail}`),
  );
}

describe("a formula", () => {
  it("writes every number with its own sign, so that its text is its value", () => {
    for (const { name, sequences } of catalog.worksheets) {
      sequences.forEach((_, sequence) => {
        const solved = live(name, { edits: [{ place: "W_O[0][0]", text: "-1/3" }] }, sequence);
        for (const { name: field } of solved.solution.fields) {
          const last = solved.field(field).shape.map((size) => size - 1);
          const quantity = solved.field(field).at(...last).name;
          for (const { number, text } of formulaParts(
            explain(solved.solution, quantity, "decimals"),
          )) {
            if (number === undefined) continue;
            const value = solved.named(number)?.value ?? Number.NEGATIVE_INFINITY;
            const read = Number(text.replace("\u2212", "-").replace("\u221e", "Infinity"));
            const gap = read === value ? 0 : Math.abs(read - value) / Math.max(1, Math.abs(value));
            expect(gap, `${quantity}: ${text}`).toBeLessThan(6e-4);
          }
        }
      });
    }
  });

  it("does so for negative sums such as 1 \u2212 \u221a2, and brackets what is subtracted", () => {
    const edits = ["W_Q", "W_K", "W_V"].flatMap((matrix, at) => [
      { place: `heads.0.${matrix}[0][0]`, text: "1 - sqrt 2" },
      { place: `heads.0.${matrix}[1][${at % 2}]`, text: "-sqrt 2" },
      { place: `heads.1.${matrix}[0][1]`, text: "-2" },
    ]);
    const solved = live("two-routes", { edits });
    let subtracted = 0;
    for (const quantity of everyName(solved.solution)) {
      const parts = formulaParts(explain(solved.solution, quantity, "fractions"));
      const written = parts.map(({ text }) => text.replaceAll("\u2060", "")).join("");
      expect(written, quantity).not.toMatch(/[\u2212+\u00d7/^] *\u2212|\(\(/);
      for (const { number, text } of parts) {
        if (number === undefined || text.includes("\u221e")) continue;
        const value = solved.named(number)?.value ?? Number.NaN;
        const typed = text.replace(/\u221a(\d+)/g, "sqrt($1)").replaceAll("\u00b7", "*");
        const read = must(parseNumber(typed.replaceAll("\u2212", "-"))).value;
        expect(Math.abs(read - value), `${quantity}: ${text}`).toBeLessThan(6e-4);
        subtracted += written.includes(`+ (${text})`) ? 1 : 0;
      }
    }
    expect(subtracted).toBeGreaterThan(5);
  });
});
