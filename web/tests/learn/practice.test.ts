/** Addresses, sheets, marks, standing and writing of exercises, apart from any page. */

import { describe, expect, it } from "vitest";
import pins from "../../../tests/learn/data/exercises.json";
import {
  assignedOf,
  exerciseAddress,
  MAX_COUNT,
  NO_LAST,
  nextSeed,
  onSheet,
  readCount,
  readSeed,
  readSheet,
  sheetAddress,
} from "../../src/learn/exercises/assigned";
import { mark } from "../../src/learn/exercises/marking";
import {
  countOf,
  countText,
  freshSeed,
  joinedAnswer,
  numTyped,
  resultOf,
  standingOf,
} from "../../src/learn/exercises/results";
import { type Exercise, exerciseFrom, KINDS, LAST_SEED } from "../../src/learn/exercises/shipped";
import { headed, piecesOf, readable } from "../../src/learn/exercises/written";
import { decodeLearn, encodeLearn } from "../../src/learn/place";
import { exerciseRule, lineOf } from "../../src/learn/records";

const exercises = new Map<string, Exercise>(
  pins.exercises.map((data) => [data.id, exerciseFrom(data)]),
);

function exercise(id: string): Exercise {
  const found = exercises.get(id);
  if (!found) throw new Error(`exercise (${id}) is not in tests/learn/data/exercises.json`);
  return found;
}

const asked = (rest: string) => decodeLearn(`exercises/${rest}`).asked ?? [];

describe("what an address asks for", () => {
  it("reads what it wrote", () => {
    const last = { seed: 5, count: 2 };
    for (const { name } of KINDS) {
      const rest = exerciseAddress(name, LAST_SEED).replace("#learn/exercises/", "");
      const found = assignedOf(asked(rest), last);
      expect(found).toMatchObject({ page: "one", seed: LAST_SEED, trouble: "" });
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
  it("takes whole numbers up to the last seed of the page alone", () => {
    expect([" 7 ", "0", String(LAST_SEED), "007"].map((text) => readSeed(text))).toEqual([
      7,
      0,
      LAST_SEED,
      7,
    ]);
    for (const text of ["", "-1", "4294967296", "1.0", "1e3", "\u0661", "7 8", "9".repeat(400)]) {
      expect(readSeed(text), text).toEqual({
        error: `seed (${text.slice(0, 40)}) must be a whole number from 0 to ${LAST_SEED}: use another`,
      });
    }
    expect(["1", "1000"].map(readCount)).toEqual([1, 1000]);
    for (const text of ["0", "1001", "-3", ""]) expect(typeof readCount(text)).toBe("object");
  });

  it("gives the command for seeds that only the terminal has", () => {
    for (const seed of [LAST_SEED + 1, 4294967295]) {
      expect(readSeed(String(seed), "score")).toEqual({
        error: `seed (${seed}) must be at most ${LAST_SEED} on this page: use another, or run manyheads quiz exercises score --seed ${seed} --count 1`,
      });
    }
  });

  it("has the sheets whose last round has a seed of the page", () => {
    const rounds = 3;
    const first = LAST_SEED - rounds + 1;
    const most = rounds * KINDS.length;
    expect(readSheet(String(first), String(most))).toEqual({ seed: first, count: most });
    expect(onSheet(first, most - 1).seed).toBe(LAST_SEED);
    const command = `manyheads quiz exercises --seed ${first} --count ${most + 1}`;
    expect(readSheet(String(first), String(most + 1))).toEqual({
      error: expect.stringContaining(command),
    });
    const found = assignedOf(["sheet", String(first), String(most + 1)], NO_LAST);
    expect(found).toMatchObject({ page: "kinds", trouble: expect.stringContaining(command) });
    expect(readSheet("x", "0")).toEqual({ error: expect.stringMatching(/^seed .*\. count /) });
  });

  it("goes from the last seed to 0, and to the next seed after each round of kinds", () => {
    expect([nextSeed(LAST_SEED - 1), nextSeed(LAST_SEED)]).toEqual([LAST_SEED, 0]);
    const last = KINDS.length - 1;
    expect(onSheet(7, last)).toEqual({ seed: 7, kind: KINDS[last] });
    expect(onSheet(7, last + 1)).toEqual({ seed: 8, kind: KINDS[0] });
  });
});

describe("marking", () => {
  it("gives every answer the mark of the terminal", () => {
    for (const { exercise: id, typed, mark: wanted } of pins.marks) {
      const { isRight, isJudged, misconceptions, says } = mark(exercise(id), typed);
      const names = misconceptions.map(({ name }) => name);
      expect({ id, typed, isRight, isJudged, names, says }).toEqual({
        id,
        typed,
        isRight: wanted.right,
        isJudged: wanted.judged,
        names: wanted.misconceptions.map(({ name }) => name),
        says: wanted.says,
      });
    }
  });

  it("knows a marked answer of every kind", () => {
    const kinds = new Set(pins.marks.map(({ exercise: id }) => exercise(id).kind));
    expect([...kinds]).toEqual(KINDS.map(({ name }) => name));
  });
});

describe("where the learner stands", () => {
  const when = "2026-01-05T12:00:00.000Z";
  const one = exercise("score/3");
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
    const all = Array.from({ length: LAST_SEED }, (_, i): [string, boolean] => [
      `score/${i + 1}`,
      true,
    ]);
    expect(freshSeed(new Map(all), "score")).toBe(0);
    expect(freshSeed(new Map(all.slice(0, -1)), "score")).toBe(LAST_SEED);
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
