/** Addresses, sheets, standing and writing of exercises, apart from any page. */

import { describe, expect, it } from "vitest";
import { decodeLearn, encodeLearn } from "../../src/learn/place";
import { lineOf } from "../../src/learn/records";
import { exerciseRule } from "../../src/learn/rules";
import {
  assignedOf,
  exerciseAddress,
  MAX_COUNT,
  NO_LAST,
  nextSeed,
  onSheet,
  readCount,
  readSeed,
  sheetAddress,
} from "../../src/lib/exercises/assigned";
import { exercise, KINDS, LARGEST_SEED } from "../../src/lib/exercises/kinds";
import { mark } from "../../src/lib/exercises/marking";
import {
  countOf,
  countText,
  freshSeed,
  joinedAnswer,
  numTyped,
  resultOf,
  standingOf,
} from "../../src/lib/exercises/results";
import { at } from "../../src/lib/exercises/sums";
import { headed, piecesOf, readable } from "../../src/lib/exercises/written";

const asked = (rest: string) => decodeLearn(`exercises/${rest}`).asked ?? [];

describe("what an address asks for", () => {
  it("reads what it wrote", () => {
    const last = { seed: 5, count: 2 };
    for (const { name } of KINDS) {
      const rest = exerciseAddress(name, LARGEST_SEED).replace("#learn/exercises/", "");
      const found = assignedOf(asked(rest), last);
      expect(found).toMatchObject({ page: "one", seed: LARGEST_SEED, trouble: "" });
    }
    const rest = sheetAddress(0, MAX_COUNT, MAX_COUNT).replace("#learn/exercises/", "");
    expect(assignedOf(asked(rest), last)).toEqual({
      page: "sheet",
      seed: 0,
      count: MAX_COUNT,
      number: MAX_COUNT,
      trouble: "",
    });
  });

  it("keeps what was shown last where something is wrong, and says what", () => {
    const last = { seed: 77, count: 4 };
    expect(assignedOf(["score", "x"], last)).toMatchObject({ seed: 77, page: "one" });
    expect(assignedOf(["sheet", "x", "y", "9"], last)).toMatchObject({ seed: 77, count: 4 });
    expect(assignedOf(["sheet", "x", "y", "9"], last).trouble.split(". ")).toHaveLength(3);
    expect(assignedOf(["constructor"], NO_LAST).page).toBe("kinds");
  });

  it("writes any address again as it read it", () => {
    for (const rest of [
      "score/%",
      "a//b/%2F/d/e",
      "sheet/7/13/2",
      `score/${"\ud83d".repeat(99)}`,
    ]) {
      const written = encodeLearn(decodeLearn(`exercises/${rest}`));
      expect(encodeLearn(decodeLearn(written))).toBe(written);
    }
  });
});

describe("seeds and sheets", () => {
  it("takes whole numbers of the terminal's range alone", () => {
    expect([" 7 ", "0", "4294967295", "007"].map(readSeed)).toEqual([7, 0, LARGEST_SEED, 7]);
    for (const text of ["", "-1", "4294967296", "1.0", "1e3", "\u0661", "7 8", "9".repeat(400)]) {
      expect(typeof readSeed(text), text).toBe("object");
    }
    expect(["1", "1000"].map(readCount)).toEqual([1, 1000]);
    for (const text of ["0", "1001", "-3", ""]) expect(typeof readCount(text)).toBe("object");
  });

  it("goes from the largest seed to 0, and to the next seed after each round of kinds", () => {
    expect(nextSeed(LARGEST_SEED)).toBe(0);
    expect(onSheet(LARGEST_SEED, 12)).toMatchObject({ seed: LARGEST_SEED });
    expect(onSheet(LARGEST_SEED, 13)).toMatchObject({ seed: 0, kind: at(KINDS, 0) });
  });

  it("draws every seed after a few tries", () => {
    for (const kind of KINDS) {
      for (let seed = 0; seed < 60; seed += 1) exercise(kind, seed * 71_582_788);
    }
  }, 60_000);
});

describe("where the learner stands", () => {
  const when = "2026-01-05T12:00:00.000Z";
  const one = exercise(at(KINDS, 0), 3);
  const wrong = resultOf(one, "1, 2, 3", mark(one, "1, 2, 3"), when);

  it("counts exercises, not answers, and forgets no right one", () => {
    const right = { ...wrong, right: true };
    const other = { ...wrong, exercise: "score/1" };
    const lines = [wrong, right, wrong, other].map((fields) => lineOf({ ...fields }));
    const standing = standingOf(lines);
    expect(countOf(standing, "score")).toEqual({ right: 1, tried: 2 });
    expect(countText(countOf(standing))).toBe("1 of 2 right so far");
    expect(countText(countOf(standing, "concat"))).toBe("not tried yet");
    expect(freshSeed(standing, "score")).toBe(2);
    expect(countOf(standingOf([lineOf({ ...wrong, exercise: "nothing/1" })]))).toEqual({
      right: 0,
      tried: 0,
    });
  });

  it("takes the terminal's records and no others", () => {
    expect(exerciseRule({ ...wrong })).toBeNull();
    for (const damage of [
      { right: null },
      { typed: 1 },
      { misconceptions: "x" },
      { misconceptions: [1] },
      { exercise: "" },
      { when: "yesterday" },
    ]) {
      expect(exerciseRule({ ...wrong, ...damage }), JSON.stringify(damage)).not.toBeNull();
    }
  });
});

describe("answers and sentences", () => {
  it("joins what was filled", () => {
    expect(joinedAnswer(["1/2,", "", " 3 ; "])).toBe("1/2, 3");
    expect(numTyped(["1/2 3", ""])).toBe(2);
    expect(numTyped(["one", "2"])).toBe(0);
  });

  it("writes signs out, and nothing else", () => {
    expect(readable("[-sqrt(2), 8*sqrt(10)/5] - 1: -ln(2), GPT-NeoX, 2 * -3")).toBe(
      "[\u2212\u221a2, 8\u00b7\u221a10/5] \u2212 1: \u2212ln(2), GPT-NeoX, 2 \u00b7 \u22123",
    );
    expect(piecesOf("x W_Q, b_O of in_proj_weight")).toEqual([
      "x ",
      { base: "W", below: "Q" },
      ", ",
      { base: "b", below: "O" },
      " of in_proj_weight",
    ]);
  });

  it("shortens columns that differ in their number alone", () => {
    expect(headed({ columnLabels: ["source 1", "source 2"] })).toEqual({
      word: "source",
      titles: ["1", "2"],
    });
    expect(headed({ columnLabels: ["row 1", "column 2"] }).word).toBe("");
    expect(headed({ columnLabels: ["value"] }).word).toBe("");
  });
});
