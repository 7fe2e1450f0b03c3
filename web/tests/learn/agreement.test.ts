/** The page and the terminal say the same: `manyheads.web.learn_fixture` writes what Python says. */

import { describe, expect, it } from "vitest";
import { NO_CHANGES } from "../../src/engine/editing";
import { LiveSolved } from "../../src/engine/live";
import { catalog } from "../../src/engine/types";
import { data } from "../../src/learn/data";
import { dueCards, replayed, reviewKey, reviewsOf, waiting } from "../../src/learn/deck";
import { directionOf, judged, loggedText } from "../../src/learn/predicting";
import { type Fields, lineOf, merged, reviewRule } from "../../src/learn/records";
import { Scheduler } from "../../src/learn/schedule";
import { marked } from "../../src/learn/typed";
import { isError, parseNumber } from "../../src/numbers/parse";
import written from "../generated/learn.json?raw";

interface History {
  lines: Fields[];
  now: number;
  states: Record<string, { due: number; state: string; reviews: number }>;
  begun_today: number;
  num_future: number;
  due: string[];
  next: string | null;
}

interface TryCase {
  worksheet: string;
  sequence: string;
  name: string;
  before: number;
  after: number;
  shown: string;
  direction: string;
  judged: Record<string, boolean>;
}

interface LearnFixture {
  histories: History[];
  merges: { mine: Fields[]; others: Fields[]; merged: Fields[] }[];
  marks: {
    wanted: { value: number; exact: string | null };
    typed: string;
    right: boolean | null;
  }[];
  tries: TryCase[];
}

const fixture = JSON.parse(written) as LearnFixture;
const ids = data.cards.map(({ id }) => id);
const scheduler = new Scheduler(data.settings);

describe("reviews", () => {
  it.each(fixture.histories.map((history, at) => [at, history] as const))(
    "%i lead to the same dates",
    (_, history) => {
      const lines = history.lines.map(lineOf);
      expect(lines.map(({ fields }) => reviewRule(fields))).toEqual(lines.map(() => null));
      const progress = replayed(reviewsOf(lines), scheduler, history.now);
      const states = [...progress.memories].map(([id, { due, state, reviews }]) => [
        id,
        { due, state, reviews },
      ]);
      expect(Object.fromEntries(states)).toEqual(history.states);
      expect(progress.begunToday).toBe(history.begun_today);
      expect(progress.numFuture).toBe(history.num_future);
      expect(dueCards(ids, progress, history.now)).toEqual(history.due);
      expect(waiting(ids, progress, scheduler, history.now).next).toBe(history.next);
    },
  );

  it("have clocks among them that were set wrong, and cards in every state", () => {
    expect(fixture.histories.some(({ num_future }) => num_future > 0)).toBe(true);
    const states = fixture.histories.flatMap(({ states }) => Object.values(states));
    expect(new Set(states.map(({ state }) => state)).size).toBe(3);
    expect(states.length).toBeGreaterThan(50);
  });

  it("of two files become the same one", () => {
    for (const { mine, others, merged: wanted } of fixture.merges) {
      const found = merged(mine.map(lineOf), others.map(lineOf), reviewKey);
      expect(found.map(({ fields }) => fields)).toEqual(wanted);
    }
  });
});

describe("numbers that are typed", () => {
  it("are marked alike", () => {
    const rights = fixture.marks.filter(({ right }) => right === true);
    expect(rights.length).toBeGreaterThan(20);
    for (const { wanted, typed, right } of fixture.marks) {
      const mark = marked(typed, wanted);
      expect([typed, wanted.exact, mark.isRight]).toEqual([typed, wanted.exact, right === true]);
      const isNumber = typed.trim() !== "" && !isError(parseNumber(typed));
      expect([typed, isNumber]).toEqual([typed, right !== null]);
    }
  });
});

describe("experiments", () => {
  it("are those of the terminal, with the same outcomes", () => {
    expect(data.tries.length).toBe(fixture.tries.length);
    for (const [at, wanted] of fixture.tries.entries()) {
      const one = data.tries[at];
      expect(one).toMatchObject({
        worksheet: wanted.worksheet,
        sequence: wanted.sequence,
        name: wanted.name,
      });
      if (one) compare(one, wanted);
    }
  });
});

function compare(one: (typeof data.tries)[number], wanted: TryCase) {
  const sheet = catalog.worksheets.find(({ name }) => name === one.worksheet);
  const sequence = sheet?.sequences.find(({ name }) => name === one.sequence);
  if (!sheet || !sequence) throw new Error(`no ${one.worksheet}`);
  const [before, after] = [NO_CHANGES, { ...NO_CHANGES, ...one.changes }].map((changes) =>
    new LiveSolved(sheet, sequence, changes).named(one.quantity),
  );
  if (!before || !after) throw new Error(`no ${one.quantity}`);
  expect(before.number.value).toBeCloseTo(wanted.before, 12);
  expect(after.number.value).toBeCloseTo(wanted.after, 12);
  expect(loggedText(after.number)).toBe(wanted.shown);
  expect(directionOf(before.number, after.number)).toBe(wanted.direction);
  for (const [text, right] of Object.entries(wanted.judged)) {
    const found = judged(text, before.number, after.number);
    expect([one.name, text, isError(found) ? found.error : found.isRight]).toEqual([
      one.name,
      text,
      right,
    ]);
  }
}
