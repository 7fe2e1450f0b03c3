import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { shipped } from "../src/learn/notebooks";
import { bank, numberInText, numberNamed } from "../src/story/figures/engine";
import { FIGURES } from "../src/story/figures/index";
import { readLinks } from "../src/story/figures/links";
import { isStudyName } from "../src/story/figures/study";
import type { Block, Inline } from "../src/story/inline";
import { numberNames } from "../src/story/inline";
import { blocksOf, parseChapter, parseStory } from "../src/story/reading";
import { chapters, frames } from "../src/story/text";

const HEAD = "---\nid: one\ntitle: A title\n---\n\n";

function only(body: string) {
  const [frame] = parseChapter("a.md", `${HEAD}## Frame {#frame}\n\n${body}`).frames;
  if (!frame) throw new Error("no frame");
  return frame;
}

function textsOf(block: Block): Inline[] {
  if (block.kind === "list") return block.items.flatMap(({ inline }) => inline);
  if (block.kind === "code") return [];
  return block.kind === "figure" ? block.caption : block.inline;
}

function plain(inline: Inline[]): string {
  return inline
    .map((part) => ("inline" in part ? plain(part.inline) : "text" in part ? part.text : ""))
    .join("");
}

test("a chapter has an id, a title, and frames between lines of ---", () => {
  const chapter = parseChapter(
    "a.md",
    `${HEAD}## First {#f-1}\n\ntext\n\n---\n\n## Second {#f-2}\n`,
  );
  expect([chapter.id, chapter.title]).toEqual(["one", "A title"]);
  expect(chapter.frames.map(({ id, title, chapter }) => [id, title, chapter])).toEqual([
    ["f-1", "First", "one"],
    ["f-2", "Second", "one"],
  ]);
});

test("builds come from comments, from items with a plus, and from figures", () => {
  const frame = only(
    "first\n\n<!-- build -->\n\nsecond\n\n+ a\n+ b\n\n![c](figure:rows of=cut builds=2)\n\nlast\n\n- x\n- y\n",
  );
  expect(frame.builds).toBe(5);
  expect(frame.blocks.map(({ at }) => at)).toEqual([0, 1, 2, 3, 5, 5]);
  const [, , built, , , plainList] = frame.blocks;
  expect(built?.kind === "list" && built.items.map(({ at }) => at)).toEqual([2, 3]);
  expect(plainList?.kind === "list" && plainList.items.map(({ at }) => at)).toEqual([5, 5]);
});

test("a figure with from goes with the builds of its frame", () => {
  const frame = only('+ a\n+ b\n+ c\n\n![c](figure:rows of="a b" from=1)\n');
  const figure = frame.blocks.find(({ kind }) => kind === "figure");
  expect(frame.builds).toBe(3);
  expect(figure).toMatchObject({ at: 1, builds: 2, options: { of: "a b" }, name: "rows" });
});

test("a number keeps its name and its form, also inside bold text and captions", () => {
  const frame = only("**a {{w:s.x[0][1]|3}}** {{w:y|fraction}}\n\n![c {{w:z[2]}}](figure:rows)\n");
  const [text, figure] = frame.blocks;
  expect(text && numberNames(textsOf(text))).toEqual(["w:s.x[0][1]", "w:y"]);
  expect(figure && numberNames(textsOf(figure))).toEqual(["w:z[2]"]);
  expect(text?.kind === "paragraph" && text.inline.at(-1)).toEqual({
    kind: "number",
    name: "w:y",
    form: "fraction",
  });
});

test("notes are apart from what is shown", () => {
  const frame = only("shown\n\n> note: said\n> aloud\n");
  expect(frame.blocks).toHaveLength(1);
  expect(frame.notes.map((block) => plain(textsOf(block)))).toEqual(["said aloud"]);
});

test("companion text is for the article, and neither shown on the stage nor a note", () => {
  const frame = only("shown\n\n> read: more {{w:x}}\n>\n> and more\n\n> note: said\n");
  expect(frame.blocks).toHaveLength(1);
  expect(frame.notes).toHaveLength(1);
  expect(frame.companion.map((block) => plain(textsOf(block)))).toEqual(["more ", "and more"]);
});

test("every frame has a note for the speaker and a paragraph for the reader", () => {
  expect(frames.length).toBeGreaterThan(55);
  const without = (part: "notes" | "companion") =>
    frames.filter((frame) => frame[part].length === 0).map(({ id }) => id);
  expect(without("notes")).toEqual([]);
  expect(without("companion")).toEqual([]);
});

test.each([
  ["no front matter", "## A {#a}\n", /a\.md must begin with front matter/],
  ["no title", "---\nid: a\n---\n\n## A {#a}\n", /needs id and title/],
  ["no name of a frame", `${HEAD}## A\n`, /"A" is not a heading of a frame/],
  ["HTML", `${HEAD}## A {#a}\n\n<b>x</b>\n`, /not used in the story|HTML is not allowed/],
  ["a comment that says nothing", `${HEAD}## A {#a}\n\n<!-- bild -->\n`, /neither a build/],
  ["a link to a script", `${HEAD}## A {#a}\n\n[x](javascript:alert)\n`, /must begin with/],
  ["a form that is none", `${HEAD}## A {#a}\n\n{{w:x|roman}}\n`, /\|roman is not a form/],
  ["half a number", `${HEAD}## A {#a}\n\n{{w:x\n`, /cannot be read/],
  ["a picture", `${HEAD}## A {#a}\n\n![x](a.png)\n`, /image is not used/],
  ["a line of --- without a blank line", `${HEAD}## A {#a}\n\ntext\n---\n`, /blank line before/],
])("refuses %s and says where", (_, source, why) => {
  expect(() => parseChapter("a.md", source)).toThrow(why);
});

test("two frames may not share a name", () => {
  const source = `${HEAD}## A {#same}\n`;
  expect(() => parseStory({ "a.md": source, "b.md": source })).toThrow(/named same/);
});

test("the chapters come in the order of the lesson", () => {
  expect(chapters.map(({ id }) => id)).toEqual([
    "readings",
    "bank",
    "shapes",
    "worked",
    "output",
    "all-tokens",
    "training",
    "more-heads",
    "misconceptions",
    "sources",
  ]);
});

test("every figure of the text exists and every number has a value", () => {
  const blocks = frames.flatMap(blocksOf);
  for (const block of blocks) {
    if (block.kind === "figure") expect(Object.keys(FIGURES)).toContain(block.name);
    for (const name of numberNames(textsOf(block))) {
      if (isStudyName(name)) continue;
      expect(numberInText(name)?.value, name).toSatisfy(Number.isFinite);
    }
  }
  expect(blocks.flatMap((block) => numberNames(textsOf(block))).length).toBeGreaterThan(80);
});

test("frames that talk step by step have their builds", () => {
  const builds = Object.fromEntries(frames.map(({ id, builds }) => [id, builds]));
  expect(builds).toMatchObject({ coat: 4, "two-source": 3, qkv: 3, wide: 2, patches: 3, grids: 0 });
});

test("no decimal number is typed into the text", () => {
  const typed = frames.flatMap((frame) =>
    blocksOf(frame).filter((block) => /\d\.\d/.test(plain(textsOf(block)))),
  );
  expect(typed).toEqual([]);
});

const illustrated = frames.flatMap(({ id, blocks }) =>
  blocks.flatMap((block) =>
    block.kind === "figure" && block.name === "readings" ? [{ id, options: block.options }] : [],
  ),
);

test("no arrow of an illustrated sentence comes from a later word", () => {
  expect(illustrated.length).toBeGreaterThan(3);
  for (const { id, options } of illustrated) {
    const { length } = (options.tokens ?? "").split(" ");
    for (const { from, to, says } of readLinks(options.links ?? "", length)) {
      expect(to, `${id}: ${says}`).toBeLessThanOrEqual(from);
    }
  }
});

test("no weight that a figure of the worksheet draws is on a later word", () => {
  for (const sentence of ["river", "cheque"]) {
    const solved = bank(sentence);
    for (const rows of [0, 1].map((head) => solved.matrix("attn_weights", head))) {
      rows.forEach((row, receiver) => {
        for (const { value, name } of row.slice(receiver + 1)) expect(value, name).toBe(0);
      });
    }
  }
});

test.each(["4>9 colour", "0>1 colour", "4 2 colour", ""])("an arrow %j is refused", (text) => {
  expect(() => readLinks(text, 7)).toThrow(/FROM>TO WHAT/);
});

test("every section of a notebook that a frame names is there", () => {
  const titles = shipped.notebooks.flatMap(({ sections }) => sections.map(({ title }) => title));
  const texts = frames.flatMap(({ companion }) => companion.map((one) => textsOf(one)));
  const tries = texts.filter(([first]) => first && plain([first]) === "Try it");
  expect(tries.length).toBeGreaterThan(8);
  for (const parts of tries) {
    for (const part of parts) {
      if (part.kind === "emphasis") expect(titles).toContain(plain([part]));
    }
  }
});

test("the reading list of the documentation and that of the story have the same addresses", () => {
  const docs = readFileSync(resolve(import.meta.dirname, "../../docs/sources.md"), "utf8");
  const listed = [...docs.matchAll(/\]\((https:[^)]+)\)/g)].map(([, address]) => address);
  const ofInline = (inline: Inline[]): string[] =>
    inline.flatMap((part) => {
      if (part.kind === "link") return part.href.startsWith("https:") ? [part.href] : [];
      return "inline" in part ? ofInline(part.inline) : [];
    });
  const shown = frames.flatMap((frame) => blocksOf(frame).flatMap((one) => ofInline(textsOf(one))));
  expect(new Set(shown)).toEqual(new Set(listed));
});

test("a misspelt name is refused, also of a known kind", () => {
  for (const name of [
    "river-and-cheque:river.weights[0][9][5]",
    "river-and-cheque:river.output[9][7]",
    "river-and-cheque:sea.output[9][0]",
    "river-and-cheque:heads.7.W_Q[0][0]",
    "two-source:values[2][0]",
    "nothing",
  ]) {
    expect(() => numberNamed(name), name).toThrow();
  }
});

test("the counter-example: no one weight gives both numbers", () => {
  const value = (name: string) => numberNamed(`two-source:${name}`).value;
  expect(value("one-head[0][0]")).toBeCloseTo(8.4, 12);
  expect(value("one-head[0][1]")).toBeCloseTo(2.4, 12);
  expect([value("message[0]"), value("message[1]")].map((one) => one?.toFixed(12))).toEqual([
    "8.400000000000",
    "6.600000000000",
  ]);
});

test("counts of parameters, scores and bytes", () => {
  const value = (name: string) => numberNamed(name).value;
  expect(value("layer:weights")).toBe(64);
  expect(value("layer:parameters")).toBe(80);
  expect(value("mask:allowed")).toBe(55);
  expect(value("accounting:parameters")).toBe(16384);
  expect(value("accounting:head-width[16]")).toBe(4);
  expect(value("accounting:scores[4]")).toBe(4 * 64 * 64);
  expect(value("accounting:bytes[4]")).toBe(65536);
  expect(value("patches:scores")).toBe(50);
  expect(value("shape:river-and-cheque:river.attn_weights[2]")).toBe(10);
});

test("sums that figures show agree with the engine's answers", () => {
  const river = bank("river");
  const value = (field: string, ...index: number[]) =>
    river.at(field, ...index).value ?? Number.NaN;
  for (const head of [0, 1]) {
    expect(value("weight_sum", head, 9)).toBeCloseTo(1, 12);
    for (const i of [0, 1]) {
      expect(value("running_message", head, 9, 9, i)).toBeCloseTo(
        value("head_outputs", head, 9, i),
        12,
      );
    }
    const products = [0, 1].map((i) => value("query_key_products", head, 9, 5, i));
    expect((products[0] ?? 0) + (products[1] ?? 0)).toBeCloseTo(value("dots", head, 9, 5), 12);
  }
  expect(value("head_average", 9, 0)).toBeCloseTo((2.617 + 1.552) / 2, 3);
  expect(value("column_sum", 0, 9)).toBeCloseTo(value("attn_weights", 0, 9, 9), 12);
});

test("what the text says of the wide head and of removing a head", () => {
  const named = (name: string) => numberNamed(`river-and-cheque:river${name}`).value;
  expect(named("?wide.dots[0][9][1]")).toBeCloseTo(9.66, 12);
  expect(named("?wide.attn_weights[0][9][5]")).toBeCloseTo(0.178, 3);
  expect(named("?without-head-1.output[9][0]")).toBeCloseTo(0.25 * 1.552, 3);
  expect(named(".output_cut[9][0]")).toBe(0);
});
