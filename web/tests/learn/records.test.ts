import { describe, expect, it } from "vitest";
import { firstGap, flagsOf, latest, plainAnswer, tallyOf } from "../../src/learn/attempts";
import { waitText } from "../../src/learn/deck";
import {
  LONGEST_LINE,
  lineOf,
  merged,
  predictionRule,
  quizRule,
  readLines,
  reviewRule,
  textOf,
} from "../../src/learn/records";

const WHEN = "2026-01-05T10:00:00.000Z";
const review = (card: string, when = WHEN, rating: unknown = 3) => ({ card, rating, when });

describe("lines", () => {
  it("are read one by one; damaged ones are handed back as they were", () => {
    const text = [
      JSON.stringify(review("a")),
      "{half",
      "",
      "[1]",
      JSON.stringify(review("b", WHEN, 9)),
      JSON.stringify(review("c", "yesterday")),
      `\uFEFF${JSON.stringify(review("d"))}\r`,
      JSON.stringify({ ...review("e"), more: { kept: [1] } }),
    ].join("\n");
    const { lines, damaged } = readLines(text, reviewRule);
    expect(lines.map(({ fields }) => fields.card)).toEqual(["a", "d", "e"]);
    expect(damaged.map(({ number }) => number)).toEqual([2, 4, 5, 6]);
    expect(damaged[0]).toEqual({ number: 2, text: "{half", why: "is not JSON" });
    expect(damaged.map(({ why }) => why).join()).toContain("no rating from 1 to 4");
    expect(textOf(lines)).toContain('"more":{"kept":[1]}');
  });

  it("that are far too long, or nested far too deep, are damaged and no more than that", () => {
    const long = JSON.stringify({ ...review("a"), note: "x".repeat(LONGEST_LINE) });
    const deep = "[".repeat(50_000) + "]".repeat(50_000);
    const { lines, damaged } = readLines(`${long}\n${deep}\n`, reviewRule);
    expect(lines).toEqual([]);
    expect(damaged.length).toBe(2);
  });

  it("are written with their fields in order, and read back the same", () => {
    const line = lineOf({ when: WHEN, card: "a", rating: 1 });
    expect(line.text).toBe(`{"card":"a","rating":1,"when":"${WHEN}"}`);
    expect(readLines(textOf([line]), reviewRule).lines[0]?.fields).toEqual(line.fields);
  });

  it("hold no halves of characters, which no file can", () => {
    expect(lineOf({ text: "a\ud800b\u{1F600}" }).text).toBe('{"text":"ab\u{1F600}"}');
  });

  it.each([
    [{ rating: 3, when: WHEN }, "card"],
    [{ card: "", rating: 3, when: WHEN }, "card"],
    [{ card: "x".repeat(201), rating: 3, when: WHEN }, "card"],
    [review("a", WHEN, "3"), "rating"],
    [review("a", WHEN, true), "rating"],
    [review("a", "2026-01-05T10:00:00"), "zone"],
    [review("a", "2026-13-05T10:00:00Z"), "zone"],
  ])("%o is no review", (fields, why) => {
    expect(reviewRule(fields)).toContain(why);
  });

  it("need what their file is about", () => {
    expect(quizRule({ question: "scale", when: WHEN })).toBeNull();
    expect(quizRule({ when: WHEN })).toContain("question");
    const prediction = { where: "lab:part-3", try: "x", prediction: "1", outcome: "2", when: WHEN };
    expect(predictionRule({ ...prediction, right: null })).toBeNull();
    expect(predictionRule({ ...prediction, right: "yes" })).toContain("right");
    expect(predictionRule({ ...prediction, outcome: 3, right: true })).toContain("outcome");
  });
});

describe("two files", () => {
  const at = (card: string, hour: number) =>
    lineOf(review(card, `2026-01-05T${String(hour).padStart(2, "0")}:00:00.000Z`));

  it("become one by time, each record once", () => {
    const mine = [at("a", 1), at("b", 3)];
    const others = [at("c", 2), at("b", 3), at("c", 2), at("d", 4)];
    expect(merged(mine, others).map(({ fields }) => fields.card)).toEqual(["a", "c", "b", "d"]);
  });

  it("keep their own order where a clock was set back", () => {
    const mine = [at("a", 9), at("b", 2)];
    expect(merged(mine, [at("c", 5)]).map(({ fields }) => fields.card)).toEqual(["c", "a", "b"]);
    expect(merged([], mine)).toEqual(mine);
  });
});

describe("what records say", () => {
  it("is what the last one of a question says", () => {
    const lines = [
      { question: "a", covered: [true, null] },
      { question: "b", covered: [true] },
      { question: "a", covered: [false, true, "x", 7] },
    ].map(lineOf);
    const last = latest(lines, { question: "a" });
    expect(flagsOf(last, "covered", 3)).toEqual([false, true, null]);
    expect(flagsOf(latest(lines, { question: "c" }), "covered", 2)).toEqual([null, null]);
    expect(flagsOf({ covered: "no list" }, "covered", 1)).toEqual([null]);
  });

  it("counts predictions that were judged apart from those that were not", () => {
    const lines = [true, false, null, true].map((right) => lineOf({ right }));
    expect(tallyOf(lines)).toEqual({ right: 2, judged: 3, made: 4 });
  });

  it("keeps an answer without what cannot be shown", () => {
    expect(plainAnswer("  a\u0000b\nc\ud800 ")).toBe("a b c");
    expect(plainAnswer("x".repeat(20_000)).length).toBe(10_000);
  });

  it.each([
    [[true, false, false], [null, null, null], 1],
    [[true, false, false], [null, "said", null], 2],
    [[true, true], [null, null], null],
    [[false], ["said"], null],
  ])("the first gap of %o after %o is %o", (covered, answers, gap) => {
    expect(firstGap(covered, answers)).toBe(gap);
  });

  it.each([
    [20_000, "a moment"],
    [60_000, "1 minute"],
    [330_000, "6 minutes"],
    [3_600_000, "1 hour"],
    [86_400_000, "1 day"],
    [3650 * 86_400_000, "3,650 days"],
  ])("%i milliseconds are %s", (wait, text) => {
    expect(waitText(wait)).toBe(text);
  });
});
