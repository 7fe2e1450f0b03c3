import { describe, expect, it } from "vitest";
import { advanced, amended, redone, started, undone } from "../src/worksheet/undo";

describe("undo and redo", () => {
  it("go back and forth through every step", () => {
    const three = advanced(advanced(started(1), 2), 3);
    const back = undone(undone(three));
    expect(back.present).toBe(1);
    expect(undone(back)).toBe(back);
    expect(redone(redone(back)).present).toBe(3);
    expect(redone(three)).toBe(three);
  });

  it("take amended states as one step", () => {
    const typed = amended(amended(advanced(started("given"), "1"), "1/"), "1/7");
    expect(typed.present).toBe("1/7");
    expect(undone(typed).present).toBe("given");
  });

  it("forget what was undone once there is a new step", () => {
    const other = advanced(undone(advanced(started(1), 2)), 9);
    expect(redone(other)).toBe(other);
    expect(undone(other).present).toBe(1);
  });

  it("remember 200 steps", () => {
    let line = started(0);
    for (let step = 1; step <= 300; step += 1) line = advanced(line, step);
    for (let step = 0; step < 300; step += 1) line = undone(line);
    expect(line.present).toBe(100);
  });
});
