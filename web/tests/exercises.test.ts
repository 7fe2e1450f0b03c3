/** Exercises drawn and marked on the page are those of the terminal. */

import { describe, expect, it } from "vitest";
import { type Exercise, numberText } from "../src/lib/exercises/form";
import { exercise, KINDS } from "../src/lib/exercises/kinds";
import { mark } from "../src/lib/exercises/marking";
import { at } from "../src/lib/exercises/sums";
import fixture from "./generated/exercises.json";

const drawn = (kind: string, seed: number) => exercise(kindOf(kind), seed);

function kindOf(name: string) {
  return at(
    KINDS.filter((kind) => kind.name === name),
    0,
  );
}

/** Numbers that are known only as decimals are compared as such. */
function isSame(mine: string, theirs: string): boolean {
  if (!theirs.startsWith("~") || !mine.startsWith("~")) return mine === theirs;
  const [a, b] = [Number(mine.slice(1)), Number(theirs.slice(1))];
  return Math.abs(a - b) <= 1e-12 * Math.max(1, Math.abs(b));
}

function documentOf(one: Exercise) {
  return {
    id: one.id,
    kind: one.kind,
    seed: one.seed,
    title: one.title,
    prompt: one.prompt,
    given: one.given.map(({ name, rows, rowLabels, columnLabels }) => ({
      name,
      rows: rows.map((row) => row.map(numberText)),
      row_labels: rowLabels,
      column_labels: columnLabels,
    })),
    asks: one.asks,
    working: one.working,
  };
}

describe("exercises", () => {
  it("has the terminal's kinds, in its order", () => {
    expect(KINDS.map(({ name }) => name)).toEqual([
      ...new Set(fixture.exercises.map(({ kind }) => kind)),
    ]);
  });

  it.each(fixture.exercises)("draws $id as the terminal does", (wanted) => {
    const mine = drawn(wanted.kind, wanted.seed);
    const { answer, misconceptions, ...rest } = wanted;
    expect(documentOf(mine)).toEqual(rest);
    const rows = [answer, ...misconceptions.map(({ values }) => values)];
    const found = [mine.answer, ...mine.misconceptions.map(({ values }) => values)];
    expect(found.map((row) => row.length)).toEqual(rows.map((row) => row.length));
    found.forEach((row, i) => {
      row.forEach((number, j) => {
        const [mineText, theirs] = [numberText(number), at(at(rows, i), j)];
        expect(isSame(mineText, theirs), `${mineText} is not ${theirs}`).toBe(true);
      });
    });
    expect(mine.misconceptions.map(({ name, fault, says }) => ({ name, fault, says }))).toEqual(
      misconceptions.map(({ name, fault, says }) => ({ name, fault, says })),
    );
  });
});

describe("marking", () => {
  it("says of every answer what the terminal says", () => {
    const differences = fixture.marks.flatMap(({ exercise: id, typed, mark: wanted }) => {
      const [kind = "", seed = ""] = id.split("/");
      const { isRight, isJudged, misconceptions, says } = mark(drawn(kind, Number(seed)), typed);
      const named = misconceptions.map(({ name, fault }) => ({ name, fault }));
      const mine = { right: isRight, judged: isJudged, misconceptions: named, says };
      return JSON.stringify(mine) === JSON.stringify(wanted) ? [] : [{ id, typed, mine, wanted }];
    });
    expect(differences).toEqual([]);
  }, 60_000);
});
