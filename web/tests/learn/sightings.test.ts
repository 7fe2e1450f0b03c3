/** The rules of the terminal find the same on the page. */
import { expect, test } from "vitest";
import cases from "../../../tests/learn/data/sightings.json";
import type { Point } from "../../src/learn/data";
import { sightings } from "../../src/learn/sightings";

test.each(cases)("rules see words and numbers in “$text”", ({ says, words, text, seen }) => {
  const point = { says, words, follow_up: [], look_for: [] } as unknown as Point;
  expect(sightings(point, text).map(({ label, saw }) => [label, saw])).toEqual(seen);
});
