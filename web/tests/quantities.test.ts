import { expect, it } from "vitest";
import { isPlainCount } from "../src/engine/sheet";

it("names a place once where its token only repeats the count", () => {
  expect(isPlainCount("3", 2)).toBe(true);
  expect(isPlainCount("3", 3)).toBe(false);
  expect(isPlainCount("three", 2)).toBe(false);
});
