/**
 * The teacher's page as data: `docs/teach.md` becomes sections of blocks, and nothing in it is HTML.
 *
 * The file is also read in the repository. There, an address of the page is written as code (`#story/bank`)
 * and is a link here; a link to another page of the documentation is its text alone here.
 */

import { Lexer, Marked, type Token, type Tokens } from "marked";
import source from "../../../docs/teach.md?raw";
import built from "../generated/paper.json";
import type { Inline } from "../story/inline";
import { inlineOf } from "../story/inline";

export type TeachBlock =
  | { kind: "paragraph"; inline: Inline[] }
  | { kind: "list"; isOrdered: boolean; items: Inline[][] }
  | { kind: "code"; text: string }
  | { kind: "table"; header: Inline[][]; rows: Inline[][][] }
  /** Something that the page alone has, such as links to its files. */
  | { kind: "slot"; name: string };

export interface TeachSection {
  /** Made of its title, as documentation pages make them. */
  id: string;
  title: string;
  blocks: TeachBlock[];
}

export interface TeachPage {
  title: string;
  /** The text before the first section. */
  lead: TeachBlock[];
  sections: TeachSection[];
}

const marked = new Marked();
const SLOT = /^<!--\s*page:\s*([a-z-]+)\s*-->$/;
const COMMENT = /^<!--[\s\S]*-->$/;
const ADDRESS = /^#[a-z][a-z0-9-]*(?:\/[^\s]*)?$/;
const ABROAD = /^(?:#|https:\/\/)/;

/** Throws where the text has something that the page cannot show. */
export function parseTeach(markdown: string): TeachPage {
  const page: TeachPage = { title: "", lead: [], sections: [] };
  for (const token of new Lexer(marked.defaults).lex(markdown)) {
    if (token.type === "heading") addHeading(page, token as Tokens.Heading);
    else (page.sections.at(-1)?.blocks ?? page.lead).push(...blocksOf(token));
  }
  if (page.title === "") throw new Error("the teacher's page must begin with # Title");
  return page;
}

function addHeading(page: TeachPage, { depth, text }: Tokens.Heading): void {
  if (depth === 1 && page.title === "") page.title = text;
  else if (depth === 2) page.sections.push({ id: idOf(text), title: text, blocks: [] });
  else fail(`heading "${text}" must be # once at the top, or ##`);
}

/** `A lesson of 45 minutes: how one head works` is `a-lesson-of-45-minutes-how-one-head-works`. */
export function idOf(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "");
}

function blocksOf(token: Token): TeachBlock[] {
  switch (token.type) {
    case "space":
      return [];
    case "html":
      return slotOf(token.raw.trim());
    case "paragraph":
      return [{ kind: "paragraph", inline: inlineFrom((token as Tokens.Paragraph).tokens) }];
    case "code":
      return [{ kind: "code", text: (token as Tokens.Code).text }];
    case "list":
      return [listOf(token as Tokens.List)];
    case "table":
      return [tableOf(token as Tokens.Table)];
    default:
      return fail(`${token.type} is not used here: "${token.raw.slice(0, 40)}"`);
  }
}

function slotOf(comment: string): TeachBlock[] {
  const name = SLOT.exec(comment)?.[1];
  if (name) return [{ kind: "slot", name }];
  return COMMENT.test(comment) ? [] : fail(`"${comment.slice(0, 40)}": HTML is not allowed`);
}

function listOf({ ordered, items }: Tokens.List): TeachBlock {
  const inline = items.map(({ tokens }) =>
    inlineFrom(tokens.flatMap((part) => ("tokens" in part ? (part.tokens ?? []) : []))),
  );
  return { kind: "list", isOrdered: ordered, items: inline };
}

function tableOf({ header, rows }: Tokens.Table): TeachBlock {
  const cells = (row: Tokens.TableCell[]) => row.map(({ tokens }) => inlineFrom(tokens));
  return { kind: "table", header: cells(header), rows: rows.map(cells) };
}

function inlineFrom(tokens: Token[]): Inline[] {
  return inlineOf(tokens.flatMap(onPage), fail);
}

/** A link that leads nowhere from here is its text; an address in code is a link. */
function onPage(token: Token): Token[] {
  if (token.type === "link" && !ABROAD.test((token as Tokens.Link).href)) {
    return ((token as Tokens.Link).tokens ?? []).flatMap(onPage);
  }
  if (token.type === "codespan" && ADDRESS.test((token as Tokens.Codespan).text)) {
    const { raw, text } = token as Tokens.Codespan;
    const label = { ...token, text: text.replace(/\/0\/stage$/, "") } as Tokens.Codespan;
    return [{ type: "link", raw, href: text, title: null, text, tokens: [label] } as Tokens.Link];
  }
  return [token];
}

function fail(why: string): never {
  throw new Error(`docs/teach.md: ${why}`);
}

export interface Paper {
  worksheet: string;
  title: string;
  kind: "blank" | "key";
  paper: "a4" | "letter";
  /** From the page. */
  path: string;
  /** Bytes. */
  size: number;
}

export const teach = parseTeach(source);
export const papers = (built as unknown as { papers: Paper[] }).papers;

export interface PaperRow {
  worksheet: string;
  title: string;
  blank: Paper[];
  key: Paper[];
}

/** A row for each worksheet, with its files in the order of the list. */
export function rowsOf(all: Paper[]): PaperRow[] {
  const names = [...new Set(all.map(({ worksheet }) => worksheet))];
  return names.map((name) => {
    const own = all.filter(({ worksheet }) => worksheet === name);
    const of = (kind: Paper["kind"]) => own.filter((paper) => paper.kind === kind);
    return { worksheet: name, title: own[0]?.title ?? name, blank: of("blank"), key: of("key") };
  });
}
