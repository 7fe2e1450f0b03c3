import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { AddressBar, formatAddress, parseAddress as parsed, partsOf } from "../src/app/address";
import { VIEWS } from "../src/app/views";
import { decodeWorksheet, encodeWorksheet } from "../src/engine/editing";
import type { Worksheet } from "../src/engine/types";
import { decodeLearn, encodeLearn, PAGES } from "../src/learn/place";
import { decodeModels, encodeModels } from "../src/models/place";
import { parseStoryPlace, storyPath } from "../src/story/presenter";
import { decodeStudy, encodeStudy } from "../src/study/data";
import { catalog } from "./factory";

const VIEW_NAMES = VIEWS.map(({ name }) => name);
const parseAddress = (fragment: string) => parsed(fragment, VIEW_NAMES);
const stepsOf = ({ name }: Worksheet) => (name === "first" ? ["rows", "mask"] : ["rows", "sum"]);

describe("the address", () => {
  it.each([
    ["", "story", ""],
    ["#", "story", ""],
    ["#story", "story", ""],
    ["#story/two-source/3", "story", "two-source/3"],
    ["#worksheet", "worksheet", ""],
    ["#worksheet/three-heads/main/dots?head=2", "worksheet", "three-heads/main/dots?head=2"],
    ["#worksheet?head=2", "worksheet", "head=2"],
    ["#models/preset=car", "models", "preset=car"],
    ["#study/own-recipe", "study", "own-recipe"],
    ["#learn/quiz/scale", "learn", "quiz/scale"],
    ["#teach", "teach", ""],
    ["#nowhere/else", "story", ""],
    ["#Story", "story", ""],
    ["#%73tory", "story", ""],
    ["#__proto__/x", "story", ""],
  ])("%s leads to a view", (fragment, view, rest) => {
    expect(parseAddress(fragment)).toEqual({ view, rest });
  });

  it("comes back as it was written", () => {
    for (const view of VIEW_NAMES) {
      for (const rest of ["", "a", "a/b?c=1", "a%2Fb/c", "=&?/"]) {
        expect(parseAddress(formatAddress({ view, rest }))).toEqual({ view, rest });
      }
    }
  });

  it("leads from the page's earlier addresses to the same place", () => {
    const old = "#worksheet=second&sequence=s1&head=2&receiver=1&step=sum&numbers=fractions";
    const { view, rest } = parseAddress(old);
    expect(view).toBe("worksheet");
    expect(decodeWorksheet(rest, catalog, stepsOf)).toMatchObject({
      worksheet: "second",
      head: 1,
      receiver: 0,
      step: "sum",
      numbers: "fractions",
    });
    expect(parseAddress("#step=mask")).toEqual({ view: "worksheet", rest: "//mask" });
    expect(parseAddress("#head=2")).toEqual({ view: "worksheet", rest: "//?head=2" });
  });

  it("has parts that are decoded one by one, and left alone where they cannot be", () => {
    expect(partsOf("a%20b/%E0%A4%A/c%2Fd")).toEqual(["a b", "%E0%A4%A", "c/d"]);
  });
});

/** The same numbers on every run: 0 to below `limit`. */
function chance(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

const PIECES = [
  ...[
    "story",
    "worksheet",
    "models",
    "study",
    "first",
    "second",
    "s0",
    "s1",
    "rows",
    "mask",
    "sum",
  ],
  ...["/", "/", "/", "?", "&", "=", ";", ":", ",", ".", "#", "%", "%E0%A4%A", "%00", "%2F", "[0]"],
  ...[
    "head=",
    "receiver=",
    "edit=",
    "why=",
    "off=",
    "causal=",
    "wide=on",
    "numbers=",
    "seed=",
    "t=",
  ],
  ...["heads=", "text=", "preset=", "word=", "W_O.0.1:1/7", "heads.0.W_Q[3][1]", "stage", "read"],
  ...[
    "0",
    "1",
    "2",
    "-1",
    "1e9",
    "NaN",
    "9".repeat(30),
    "Infinity",
    "0.5",
    "ln 2",
    "1/0",
    "sqrt(-1)",
  ],
  ...[
    "__proto__",
    "constructor",
    "toString",
    "<b>",
    "\u202e",
    "\u0000",
    "\ud800",
    "\u0661",
    " ",
    "+",
  ],
];

function randomFragments(count: number): string[] {
  const draw = chance(20);
  return Array.from({ length: count }, () => {
    const length = draw(14);
    const parts = Array.from({ length }, () => PIECES[draw(PIECES.length)] ?? "");
    const start =
      draw(3) === 0 ? `#${VIEW_NAMES[draw(VIEW_NAMES.length)]}/` : draw(2) === 0 ? "#" : "";
    return start + parts.join("");
  });
}

describe("a fragment by chance", () => {
  const fragments = randomFragments(5000);

  it("is different enough to reach every view with something in it", () => {
    for (const view of VIEW_NAMES) {
      const reached = fragments
        .map(parseAddress)
        .filter((at) => at.view === view && at.rest !== "");
      expect(reached.length, view).toBeGreaterThan(200);
    }
  });

  it("never throws, and leads to a worksheet that is there", () => {
    const wrong = fragments.filter((fragment) => {
      const state = decodeWorksheet(parseAddress(fragment).rest, catalog, stepsOf);
      const sheet = catalog.worksheets.find(({ name }) => name === state.worksheet);
      const sequence = sheet?.sequences.find(({ name }) => name === state.sequence);
      const isThere =
        sheet !== undefined &&
        stepsOf(sheet).includes(state.step) &&
        sheet.heads[state.head] !== undefined &&
        sequence?.tokens[state.receiver] !== undefined;
      const written = encodeWorksheet(state);
      return !isThere || encodeWorksheet(decodeWorksheet(written, catalog, stepsOf)) !== written;
    });
    expect(wrong).toEqual([]);
  }, 30_000);

  it("never throws, and leads to a page of the learn view", () => {
    const rests = [...PAGES.map(({ page }) => page), "learn"].flatMap((page) =>
      fragments.slice(0, 500).map((fragment) => `${page}/${parseAddress(fragment).rest}`),
    );
    const wrong = rests.filter((rest) => {
      const place = decodeLearn(rest);
      const isPlain = [place.name, place.seed].every((part) => /^[a-z0-9.-]*$/.test(part));
      const written = encodeLearn(place);
      return !isPlain || encodeLearn(decodeLearn(written)) !== written;
    });
    expect(wrong).toEqual([]);
    expect(decodeLearn("quiz/scale")).toEqual({ page: "quiz", name: "scale", seed: "" });
    expect(decodeLearn("nowhere/scale").page).toBeNull();
  });

  it("never throws, and leads to a frame, a place of the models and of the study", () => {
    const wrong = fragments.filter((fragment) => {
      const { rest } = parseAddress(fragment);
      const story = parseStoryPlace(partsOf(rest));
      const models = decodeModels(rest);
      const [inModels, inStudy] = [encodeModels(models), encodeStudy(decodeStudy(rest))];
      const isThere = story.build >= 0 && models.temperature >= 0 && models.length > 0;
      const comesBack =
        encodeModels(decodeModels(inModels)) === inModels &&
        encodeStudy(decodeStudy(inStudy)) === inStudy;
      return !(isThere && comesBack && storyPath(story).startsWith("story"));
    });
    expect(wrong).toEqual([]);
  }, 30_000);
});

describe("the address bar", () => {
  const written: string[] = [];
  const history = {
    pushState: (_: unknown, __: string, to?: string | URL | null) => written.push(`push ${to}`),
    replaceState: (_: unknown, __: string, to?: string | URL | null) => written.push(`at ${to}`),
  };
  beforeEach(() => {
    vi.useFakeTimers();
    written.length = 0;
  });
  afterEach(() => vi.useRealTimers());

  it("writes a changed place at once and then at most every 300 ms, the last one always", () => {
    const bar = new AddressBar(history);
    for (const place of ["#a", "#b", "#c"]) bar.replace(place);
    expect(written).toEqual(["at #a"]);
    vi.advanceTimersByTime(299);
    expect(written).toHaveLength(1);
    vi.advanceTimersByTime(1);
    expect(written).toEqual(["at #a", "at #c"]);
    bar.replace("#d");
    expect(written.at(-1)).toBe("at #d");
  });

  it("writes what waits before a new entry, and forgets it when the reader goes elsewhere", () => {
    const bar = new AddressBar(history);
    bar.replace("#a");
    bar.replace("#b");
    bar.push("#c");
    expect(written).toEqual(["at #a", "at #b", "push #c"]);
    bar.replace("#d");
    bar.replace("#e");
    bar.drop();
    vi.runAllTimers();
    expect(written.at(-1)).toBe("at #d");
  });
});
