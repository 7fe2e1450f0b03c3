/**
 * The story as data: Markdown files become chapters, frames, blocks and builds.
 *
 * A file is a chapter: front matter with `id` and `title`, then frames separated by `---`. A frame
 * begins with `## Title {#id}`. A quote that begins with `note:` is for the speaker, one with `read:`
 * for the article. What the reader sees is made by the views; nothing here is HTML.
 */

import { Lexer, Marked, type Token, type Tokens } from "marked";
import type { Block, Chapter, Frame, ListItem } from "./inline";
import { figureExtension, inlineOf, numberExtension } from "./inline";

const marked = new Marked({ extensions: [figureExtension, numberExtension] });
const FRONT_MATTER = /^---\r?\n([\s\S]*?)\r?\n---\r?\n/;
const HEADING = /^(.*?)\s*\{#([a-z0-9][a-z0-9-]*)\}$/;
const LAYOUTS = ["stack", "beside", "cover", "cards"] as const;

/** Files in the order of their names. Throws with the file's name where one cannot be read. */
export function parseStory(files: Record<string, string>): Chapter[] {
  const chapters = Object.keys(files)
    .sort()
    .map((file) => parseChapter(file, files[file] ?? ""));
  const seen = new Set<string>();
  for (const { id } of chapters.flatMap(({ frames }) => frames)) {
    if (seen.has(id)) throw new Error(`two frames of the story are named ${id}`);
    seen.add(id);
  }
  return chapters;
}

export function parseChapter(file: string, source: string): Chapter {
  const found = FRONT_MATTER.exec(source);
  if (!found) throw new Error(`${file} must begin with front matter between two lines of ---`);
  const { id, title } = frontMatter(file, found[1] ?? "");
  const groups: Token[][] = [[]];
  for (const token of lex(source.slice(found[0].length))) {
    if (token.type === "hr") groups.push([]);
    else groups.at(-1)?.push(token);
  }
  const frames = groups.map((tokens) => new FrameReader(file, id).read(tokens));
  return { id, title, frames };
}

function lex(markdown: string): Token[] {
  return new Lexer(marked.defaults).lex(markdown);
}

function frontMatter(file: string, text: string): { id: string; title: string } {
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== "");
  const pairs = lines.map((line) => {
    const at = line.indexOf(":");
    if (at < 1) throw new Error(`${file}: front matter has "${line}", expected key: value`);
    return [line.slice(0, at).trim(), line.slice(at + 1).trim()] as const;
  });
  const { id, title } = Object.fromEntries(pairs) as Record<string, string>;
  if (!id || !title) throw new Error(`${file}: front matter needs id and title`);
  return { id, title };
}

/** Reads the tokens of one frame, counting builds as they come. */
class FrameReader {
  private builds = 0;
  private layout: Frame["layout"] = "stack";
  private title = "";
  private id = "";
  private readonly notes: Block[] = [];
  private readonly companion: Block[] = [];
  private readonly blocks: Block[] = [];

  constructor(
    private readonly file: string,
    private readonly chapter: string,
  ) {}

  read(tokens: Token[]): Frame {
    for (const token of tokens) this.take(token);
    if (this.id === "") this.fail("a frame must begin with ## Title {#name}");
    const { id, title, chapter, layout, notes, companion, builds } = this;
    const blocks = this.blocks.map((block) =>
      block.kind === "figure"
        ? { ...block, builds: Math.min(block.builds, builds - block.at) }
        : block,
    );
    return { id, title, chapter, layout, blocks, notes, companion, builds };
  }

  private fail(why: string): never {
    throw new Error(`${this.file}, frame ${this.id || "without a name"}: ${why}`);
  }

  private take(token: Token): void {
    if (token.type === "space") return;
    if (token.type === "html") this.direct(token.raw.trim());
    else if (token.type === "heading" && this.id === "") this.name(token as Tokens.Heading);
    else if (isAside(token, "note")) this.notes.push(...this.aside(token, "note"));
    else if (isAside(token, "read")) this.companion.push(...this.aside(token, "read"));
    else this.blocks.push(this.block(token));
  }

  private name({ depth, raw, text }: Tokens.Heading): void {
    const found = HEADING.exec(text);
    if (depth !== 2 || !raw.startsWith("##") || !found) {
      this.fail(`"${text}" is not a heading of a frame, expected ## Title {#name}`);
    }
    this.title = found[1] ?? "";
    this.id = found[2] ?? "";
  }

  /** A comment that says something: `<!-- build -->` or `<!-- layout: beside -->`. */
  private direct(comment: string): void {
    const text = /^<!--([\s\S]*)-->$/.exec(comment)?.[1]?.trim();
    const layout = LAYOUTS.find((name) => text === `layout: ${name}`);
    if (text === "build") this.builds += 1;
    else if (layout) this.layout = layout;
    else this.fail(`"${comment}" is neither a build nor a layout, and HTML is not allowed`);
  }

  private aside(token: Tokens.Blockquote, kind: Aside): Block[] {
    return lex(token.text.slice(kind.length + 1).trimStart()).flatMap((part) =>
      part.type === "space" ? [] : [this.block(part)],
    );
  }

  private block(token: Token): Block {
    const at = this.builds;
    switch (token.type) {
      case "paragraph":
      case "text":
        return { kind: "paragraph", inline: this.inline(token), at };
      case "heading":
        return this.subheading(token as Tokens.Heading, at);
      case "code":
        return { kind: "code", text: (token as Tokens.Code).text, at };
      case "list":
        return this.list(token as Tokens.List, at);
      case "figure":
        return this.figure(token as Tokens.Generic, at);
      default:
        return this.fail(`${token.type} is not used in the story: "${token.raw.slice(0, 40)}"`);
    }
  }

  private subheading(token: Tokens.Heading, at: number): Block {
    if (!token.raw.startsWith("###")) this.fail("put a blank line before ---, or use ### inside");
    return { kind: "heading", inline: this.inline(token), at };
  }

  /** Items that begin with + come one by one; with - or a number all at once. */
  private list(token: Tokens.List, at: number): Block {
    const isBuilt = token.raw.trimStart().startsWith("+");
    const items = token.items.map((item): ListItem => {
      if (isBuilt) this.builds += 1;
      return { inline: item.tokens.flatMap((part) => this.inline(part)), at: this.builds };
    });
    return { kind: "list", isOrdered: token.ordered, items, at: items[0]?.at ?? at };
  }

  /** A figure has builds of its own (`builds=2`), or goes with those of the frame (`from=0`). */
  private figure(token: Tokens.Generic, at: number): Block {
    const { builds = "0", from, ...options } = token.options as Record<string, string>;
    if (!/^\d$/.test(builds) || !/^\d?$/.test(from ?? "")) {
      this.fail(`builds and from of figure ${token.name} must be one digit`);
    }
    if (from === undefined) this.builds += Number(builds);
    const caption = this.inline(token as Token);
    const start = from === undefined ? at : Number(from);
    return {
      kind: "figure",
      name: token.name,
      options,
      caption,
      builds: from === undefined ? Number(builds) : Number.POSITIVE_INFINITY,
      at: start,
    };
  }

  private inline(token: Token) {
    const tokens = "tokens" in token ? (token.tokens ?? []) : [];
    return inlineOf(tokens, (why) => this.fail(why));
  }
}

/** What a block quote is: for the speaker, or for the reader of the article. */
type Aside = "note" | "read";

function isAside(token: Token, kind: Aside): token is Tokens.Blockquote {
  return token.type === "blockquote" && (token as Tokens.Blockquote).text.startsWith(`${kind}:`);
}

/** Every block of a frame, its notes and its companion, for checks over the whole story. */
export function blocksOf(frame: Frame): Block[] {
  return [...frame.blocks, ...frame.notes, ...frame.companion];
}
