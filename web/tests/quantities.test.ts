import { describe, expect, it } from "vitest";
import { Solved } from "../src/lib/quantities";
import { worksheet } from "./factory";

const sheet = worksheet("w", [["The", "2"]]);
const [sequence] = sheet.sequences;
if (!sequence) throw new Error("the factory made no sequence");
const solved = new Solved(sheet, sequence);

describe("a quantity", () => {
  it("carries the worksheet, the sequence, the field and indices from 0", () => {
    expect(solved.field("x").at(1, 0)).toEqual({ name: "w:s0.x[1][0]", value: 1, exact: "1" });
  });

  it("that is given carries the path that edits it", () => {
    expect(solved.headMatrix(1, "W_Q").at(0, 0).name).toBe("w:heads.1.W_Q[0][0]");
    expect(solved.headBias(1, "b_Q")?.at(0).value).toBe(7);
    expect(solved.headBias(0, "b_Q")).toBeNull();
  });

  it("that is blocked has no value", () => {
    expect(solved.field("masked_scores").at(0, 0, 1).value).toBeNull();
  });

  it("that does not exist is refused by name", () => {
    expect(() => solved.field("x").at(9, 0)).toThrow("no number w:s0.x[9][0]");
    expect(() => solved.field("y")).toThrow("w has no y");
    expect(() => solved.field("x").at(0)).toThrow("w:s0.x[0] is a list");
  });
});

describe("a worksheet solved", () => {
  it("finds the token row by its key, not by how the token is written", () => {
    expect(solved.tokenRow(0)?.map(({ name }) => name)).toEqual([
      "w:token_embedding.the[0]",
      "w:token_embedding.the[1]",
    ]);
    expect(solved.tokenRow(1)).toBeNull();
  });

  it("knows the rows of W_O that each head owns, when heads differ in width", () => {
    expect([solved.blockOf(0), solved.blockOf(1)]).toEqual([
      [0, 2],
      [2, 5],
    ]);
  });

  it("names a place once where its token only repeats the count", () => {
    expect([solved.axis(0), solved.axis(1)]).toEqual(["1 The", "2"]);
    expect([solved.spoken(0), solved.spoken(1)]).toEqual(["1 \u201cThe\u201d", "2"]);
  });
});
