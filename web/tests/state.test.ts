import { describe, expect, it } from "vitest";
import { formatFragment, moved, parseFragment } from "../src/lib/state";
import type { Worksheet } from "../src/lib/types";
import { catalog } from "./factory";

const stepsOf = ({ name }: Worksheet) => (name === "first" ? ["rows", "mask"] : ["rows", "sum"]);
const read = (fragment: string) => parseFragment(fragment, catalog, stepsOf);
const START = {
  worksheet: "first",
  sequence: "s0",
  head: 0,
  receiver: 2,
  step: "rows",
  numbers: "decimals",
};

describe("the fragment", () => {
  it("counts heads and receivers from 1", () => {
    const state = read("#worksheet=second&head=2&receiver=1&step=sum&numbers=fractions");
    expect(state).toMatchObject({ worksheet: "second", head: 1, receiver: 0, step: "sum" });
    expect(formatFragment(state)).toContain("head=2&receiver=1");
  });

  it("comes back as it was written", () => {
    for (const worksheet of catalog.worksheets) {
      for (const step of stepsOf(worksheet)) {
        const state = read(`worksheet=${worksheet.name}&step=${step}&head=2&receiver=2`);
        expect(read(formatFragment(state))).toEqual(state);
      }
    }
  });

  it("falls back to a whole place, whatever it holds", () => {
    const bad = ["", "#", "#%", "#%E0%A4%A", "#worksheet=__proto__&sequence=constructor"];
    const counts = ["0", "-1", "1e3", "4", "1.5", "NaN", "\u0661", "9".repeat(40), ""];
    for (const fragment of bad) expect(read(fragment)).toEqual(START);
    for (const count of counts) {
      expect(read(`#head=${count}&receiver=${count}&step=${count}`)).toEqual(START);
    }
  });
});

describe("a move", () => {
  it("keeps a step that the other worksheet has, and leaves one that it has not", () => {
    const at = read("#worksheet=first&step=mask");
    expect(moved(at, { worksheet: "second" }, catalog, stepsOf).step).toBe("rows");
  });

  it("stays at the last receiver when the sequence changes its length", () => {
    const last = read("#worksheet=first&sequence=s1");
    expect(moved(last, { sequence: "s0" }, catalog, stepsOf).receiver).toBe(2);
    expect(moved(last, { worksheet: "second" }, catalog, stepsOf).receiver).toBe(3);
    const first = read("#worksheet=first&receiver=1");
    expect(moved(first, { sequence: "s1" }, catalog, stepsOf).receiver).toBe(0);
  });
});
