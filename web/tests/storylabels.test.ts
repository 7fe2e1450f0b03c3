/** The words in the story's drawings stand in a file of labels, where they can be translated. */
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parse } from "svelte/compiler";
import { describe, expect, it } from "vitest";
import { filled, labels } from "../src/story/figures/surface";

const FOLDER = resolve(import.meta.dirname, "../src/story/figures");
const FILES = readdirSync(FOLDER).filter((name) => /\.(svelte|ts)$/.test(name));
/** Attributes and keys whose text is read. */
const READ = new Set(["title", "label", "caption", "aria-label", "alt", "says", "note"]);
const TABLE = new Set(["columns", "rows"]);
const TWO_WORDS = /[A-Za-z]{2,} +[A-Za-z]{2,}/;
const WORD = /(?<![\w.])[A-Za-z]{3,}(?![\w.])/;
/** Names of code, which are the same in every language. */
const NAMES = new Set(["manyheads", "CLS"]);

interface Node {
  type: string;
  [key: string]: unknown;
}

const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && typeof (value as Node).type === "string";

/** Words of a figure that are not in the file of labels. */
function hardCoded(name: string, source: string): string[] {
  const text = name.endsWith(".ts") ? `<script lang="ts">\n${source}\n</script>` : source;
  const found: string[] = [];
  visit(parse(text, { modern: true }) as unknown as Node, "", found);
  return found;
}

/** @param context "read" where any word is shown, "quiet" where none is, else "". */
function visit(node: Node, context: string, found: string[]): void {
  const { type } = node;
  if (type === "ThrowStatement" || type === "ImportDeclaration" || type === "Comment") return;
  if (type === "TSLiteralType" || type === "TSTypeReference") return;
  const text = textOf(node);
  if (text !== null && context !== "quiet") {
    const isShown = context === "read" ? WORD.test(text.trim()) : TWO_WORDS.test(text);
    if (isShown && !NAMES.has(text.trim())) found.push(text.trim());
  }
  for (const [key, value] of Object.entries(node)) {
    if (key === "parent" || key === "css") continue;
    const own = contextOf(node, key, context);
    for (const child of Array.isArray(value) ? value : [value])
      if (isNode(child)) visit(child, own, found);
  }
}

function textOf(node: Node): string | null {
  if (node.type === "Text") return String(node.data);
  if (node.type === "Literal") return typeof node.value === "string" ? node.value : null;
  if (node.type === "TemplateElement") return (node.value as { cooked: string }).cooked;
  return null;
}

function contextOf(node: Node, key: string, context: string): string {
  if (node.type === "Fragment") return "read";
  if (node.type === "CallExpression" && key === "arguments")
    return (node.callee as Node).name === "filled" ? context : "quiet";
  if (node.type === "MemberExpression") return "quiet";
  if (node.type === "Attribute")
    return READ.has(String(node.name)) || TABLE.has(String(node.name)) ? "read" : "quiet";
  if (node.type === "Property")
    return READ.has(String((node.key as Node).name)) ? "read" : key === "key" ? "quiet" : context;
  if (node.type === "BinaryExpression" && /^[=!]/.test(String(node.operator))) return "quiet";
  return context;
}

describe("the story's drawings", () => {
  it.each(FILES)("%s holds no words of its own", (name) => {
    expect(hardCoded(name, readFileSync(join(FOLDER, name), "utf8"))).toEqual([]);
  });

  it.each([
    ["a sentence in a drawing", '<text x="1">as it came</text>', ["as it came"]],
    ["a word in a drawing", '<text x="1">queries</text>', ["queries"]],
    ["a title", '<Cells title="joined" />', ["joined"]],
    ["a column", '<FigureTable columns={["token", name]} />', ["token"]],
    ["a row", "<FigureTable rows={[[`message, number`]]} />", ["message, number"]],
    ["a variable", '<script>const label = "one set of weights";</script>', ["one set of weights"]],
    ["a part of a table", '<script>const x = [{ title: "score" }];</script>', ["score"]],
    ["no symbol", '<text class="strong label" x="1">× W<tspan>{"Q"}</tspan> →</text>', []],
    ["no name", '<FigureTable columns={[says.x, solved.row("attn weights of")]} />', []],
  ])("are searched: %s", (_, source, found) => {
    expect(hardCoded("a.svelte", source)).toEqual(found);
  });

  it("say all that the file of labels has", () => {
    const sources = FILES.map((name) => readFileSync(join(FOLDER, name), "utf8")).join("\n");
    for (const [figure, texts] of Object.entries(labels)) {
      expect(sources).toContain(`labels.${figure}`);
      for (const key of Object.keys(texts))
        expect(sources, `${figure}.${key}`).toMatch(
          new RegExp(`(says|texts|labels\\.${figure})(\\.${key}\\b|\\[part\\])|\\{ ${key} \\}`),
        );
    }
  });
});

describe("a label", () => {
  it("is filled where it has places", () => {
    expect(filled("{title}, head {head}", { title: "weights", head: 2 })).toBe("weights, head 2");
  });

  it("with a place that nothing fills is refused", () => {
    expect(() => filled("head {hed}", { head: 2 })).toThrow("{hed}");
  });
});
