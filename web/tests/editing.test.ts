import { describe, expect, it } from "vitest";
import {
  type Changes,
  decodeWorksheet,
  editedSheet,
  encodeWorksheet,
  givenSheet,
  NO_CHANGES,
  type WorksheetState,
  withEdit,
  withoutEdits,
} from "../src/engine/editing";
import { givenNumber, type Sheet } from "../src/engine/sheet";
import type { Worksheet } from "../src/engine/types";
import { catalog } from "../src/engine/types";
import { isError } from "../src/numbers/parse";

const STEPS = ["rows", "dots", "weights"];
const stepsOf = () => STEPS;
const decode = (text: string) => decodeWorksheet(text, catalog, stepsOf);

function data(name: string): Worksheet {
  const found = catalog.worksheets.find((worksheet) => worksheet.name === name);
  if (!found) throw new Error(`no worksheet ${name}`);
  return found;
}

const river = data("river-and-cheque");
const given = givenSheet(river);

function edits(...made: [string, string][]): Changes["edits"] {
  return made.reduce<Changes["edits"]>((list, [place, text]) => {
    const next = withEdit(given, list, place, text);
    if (isError(next)) throw new Error(next.error);
    return next;
  }, []);
}

function valueAt(sheet: Sheet, place: string): number {
  const number = givenNumber(sheet, place);
  if (isError(number)) throw new Error(number.error);
  return number.value;
}

const EVERYTHING: WorksheetState = {
  worksheet: "river-and-cheque",
  sequence: "cheque",
  head: 1,
  receiver: 3,
  step: "weights",
  numbers: "symbols",
  changes: {
    edits: edits(
      ["heads.0.W_Q[3][1]", "1/7"],
      ["W_O[0][0]", "sqrt 2 + ln(3)"],
      ["token_embedding.the[2]", "-0.25"],
      ["scale", "1e-3"],
    ),
    isCausal: false,
    headsOff: [0, 1],
    isWide: true,
    hasZeroQuery: true,
  },
  trail: ["cheque.attn_weights[0][9][5]", "heads.0.W_Q[3][1]"],
};

describe("an edit", () => {
  it("changes one given number and leaves the worksheet as it was", () => {
    const changed = editedSheet(given, edits(["heads.0.W_Q[3][1]", "1/7"]));
    expect(valueAt(changed, "heads.0.W_Q[3][1]")).toBe(1 / 7);
    expect(valueAt(given, "heads.0.W_Q[3][1]")).toBe(1);
    expect(valueAt(changed, "heads.0.W_Q[3][0]")).toBe(1);
  });

  it("of a place that is edited already takes the place of the earlier one", () => {
    const list = edits(["W_O[0][0]", "2"], ["W_O[1][1]", "3"], ["W_O[0][0]", "4"]);
    expect(list.map(({ text }) => text)).toEqual(["4", "3"]);
  });

  it("back to the given number is none", () => {
    expect(edits(["heads.0.W_Q[3][1]", "7"], ["heads.0.W_Q[3][1]", " 3/3 "])).toEqual([]);
    expect(edits(["position_embedding[0][0]", "1/10"])).toEqual([]);
  });

  it("that cannot be read says why", () => {
    expect(withEdit(given, [], "W_O[0][0]", "1/0")).toMatchObject({
      error: expect.stringMatching(/W_O\[0\]\[0\].*divides by zero/),
    });
    expect(withEdit(given, [], "W_O[9][0]", "1")).toMatchObject({
      error: expect.stringContaining("does not exist"),
    });
  });

  it("is undone for the named places alone", () => {
    const list = edits(["W_O[0][0]", "2"], ["W_O[0][1]", "3"], ["scale", "1"]);
    expect(withoutEdits(list, ["W_O[0][0]", "W_O[0][1]"]).map(({ place }) => place)).toEqual([
      "scale",
    ]);
    expect(withoutEdits(list, ["W_O[3][3]"])).toBe(list);
  });
});

describe("the address of a worksheet", () => {
  it("brings everything back", () => {
    expect(decode(encodeWorksheet(EVERYTHING))).toEqual(EVERYTHING);
  });

  it("is short where nothing is changed, and counts heads and receivers from 1", () => {
    const plain = { ...EVERYTHING, numbers: "decimals", changes: NO_CHANGES, trail: [] } as const;
    expect(encodeWorksheet(plain)).toBe("river-and-cheque/cheque/weights?head=2&receiver=4");
  });

  it("escapes no more of an edit than it must", () => {
    const changes = {
      ...NO_CHANGES,
      edits: edits(["heads.0.W_Q[3][1]", "1/7"], ["W_O[0][0]", "sqrt(2)+1"]),
    };
    expect(encodeWorksheet({ ...EVERYTHING, changes, trail: [] })).toContain(
      "&edit=heads.0.W_Q.3.1:1/7;W_O.0.0:sqrt(2)+1",
    );
  });

  it("of nothing is the beginning of the first worksheet, the last token its receiver", () => {
    const first = catalog.worksheets[0];
    expect(decode("")).toMatchObject({
      worksheet: first?.name,
      sequence: first?.sequences[0]?.name,
      head: 0,
      receiver: (first?.sequences[0]?.tokens.length ?? 0) - 1,
      step: "rows",
      changes: NO_CHANGES,
      trail: [],
    });
  });

  it("keeps what fits and drops what does not, part by part", () => {
    const read = decode(
      "three-heads/none/dots?head=9&receiver=0&numbers=roman&causal=on&off=2,2,7,x&wide=1" +
        "&edit=W_O.0.0:1/0;W_O.0.1:5;W_O.99.0:1;:;W_O.0.2;__proto__.x:1;constructor:2&why=%;main.q.0.0.0",
    );
    expect(read).toMatchObject({
      worksheet: "three-heads",
      sequence: "main",
      step: "dots",
      head: 0,
      receiver: 3,
      numbers: "decimals",
      trail: ["main.q[0][0][0]"],
    });
    expect(read.changes).toEqual({
      ...NO_CHANGES,
      headsOff: [1],
      edits: [{ place: "W_O[0][1]", text: "5" }],
    });
  });

  it("may be any text at all: it is read, and what is read can be written and read again", () => {
    const whole = encodeWorksheet(EVERYTHING);
    const letters = [
      ..."%&=;:/?.[]#\"'\\0123abcW_Q \u0000\ud800\u221a-+",
      "%E0%A4%A",
      "edit=",
      "why=",
    ];
    let seed = 1;
    const chance = (below: number) => {
      seed = (Math.imul(seed, 48271) >>> 0) % 2147483647;
      return seed % below;
    };
    for (let round = 0; round < 400; round += 1) {
      let text = chance(2) ? whole : "";
      for (let change = chance(12); change >= 0; change -= 1) {
        const at = chance(text.length + 1);
        text =
          text.slice(0, at) + (letters[chance(letters.length)] ?? "") + text.slice(at + chance(3));
      }
      const read = decode(text);
      expect(decode(encodeWorksheet(read)), text).toEqual(read);
    }
  });
});
