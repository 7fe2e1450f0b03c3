import { expect, test } from "vitest";
import { idOf, papers, parseTeach, rowsOf, teach } from "../src/teach/reading";

test("sections, tables, lists, commands and slots are read", () => {
  const page = parseTeach(
    "# Title\n\nlead\n\n## One *part*, two\n\n| a | b |\n| --- | --- |\n| `x` | y |\n\n- i\n- ii\n\n<!-- page: papers -->\n\n<!-- not run: why -->\n```sh\nls\n```\n",
  );
  expect(page.title).toBe("Title");
  expect(page.lead).toEqual([{ kind: "paragraph", inline: [{ kind: "text", text: "lead" }] }]);
  expect(page.sections.map(({ blocks }) => blocks.map(({ kind }) => kind))).toEqual([
    ["table", "list", "slot", "code"],
  ]);
  expect(page.sections[0]?.blocks[0]).toMatchObject({
    header: [[{ text: "a" }], [{ text: "b" }]],
    rows: [[[{ kind: "code", text: "x" }], [{ text: "y" }]]],
  });
});

test("an address in code is a link, and a link to another page of the documentation is its text", () => {
  const [block] = parseTeach(
    "# T\n\n`#story/bank/0/stage`, `--set` and [docs/x.md](x.md#a).\n",
  ).lead;
  expect(block).toEqual({
    kind: "paragraph",
    inline: [
      {
        kind: "link",
        href: "#story/bank/0/stage",
        inline: [{ kind: "code", text: "#story/bank" }],
      },
      { kind: "text", text: ", " },
      { kind: "code", text: "--set" },
      { kind: "text", text: " and " },
      { kind: "text", text: "docs/x.md" },
      { kind: "text", text: "." },
    ],
  });
});

test.each([
  ["no title\n", "must begin with # Title"],
  ["# T\n\n### Deep\n", 'heading "Deep"'],
  ["# T\n\n<b>x</b>\n", "html is not used|HTML is not allowed"],
  ["# T\n\ntext <b>x</b>\n", "html is not used"],
  ["# T\n\n> quoted\n", "blockquote is not used"],
  ["# T\n\n![alt](a.png)\n", "image is not used"],
])("what the page cannot show is refused: %j", (text, said) => {
  expect(() => parseTeach(text)).toThrow(new RegExp(said));
});

test("the teacher's page is whole, and its ids are different", () => {
  const ids = teach.sections.map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids).toContain(idOf("A lesson of 45 minutes: how one head works"));
  const slots = teach.sections.flatMap(({ blocks }) =>
    blocks.filter(({ kind }) => kind === "slot"),
  );
  expect(slots).toEqual([{ kind: "slot", name: "papers" }]);
});

test("every printed worksheet has a sheet and a key for both papers", () => {
  for (const row of rowsOf(papers)) {
    for (const files of [row.blank, row.key]) {
      expect(files.map(({ paper }) => paper)).toEqual(["a4", "letter"]);
    }
  }
});
