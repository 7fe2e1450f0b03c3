/** Text within a line: marked's tokens, and the two forms that the story adds to Markdown. */

import type { Token, TokenizerAndRendererExtension, Tokens } from "marked";

export type Inline =
  | { kind: "text"; text: string }
  | { kind: "code"; text: string }
  | { kind: "strong" | "emphasis"; inline: Inline[] }
  | { kind: "link"; href: string; inline: Inline[] }
  /** A number that the engine fills in: its name, and decimals or "fraction" where asked for. */
  | { kind: "number"; name: string; form: NumberForm | null };

export type NumberForm = "fraction" | "percent" | number;

export interface ListItem {
  inline: Inline[];
  at: number;
}

/** `at`: the build of the frame with which the block appears, counted from 0. */
export type Block =
  | { kind: "paragraph" | "heading"; inline: Inline[]; at: number }
  | { kind: "code"; text: string; at: number }
  | { kind: "list"; isOrdered: boolean; items: ListItem[]; at: number }
  | {
      kind: "figure";
      name: string;
      options: Record<string, string>;
      caption: Inline[];
      /** How many further builds the figure has after it appeared. */
      builds: number;
      at: number;
    };

export interface Frame {
  id: string;
  title: string;
  /** The id of its chapter. */
  chapter: string;
  /** beside: text left of the figure; cover: large, alone; cards: a box for each ### heading. */
  layout: "stack" | "beside" | "cover" | "cards";
  blocks: Block[];
  notes: Block[];
  /** What the article says beyond the slide. */
  companion: Block[];
  builds: number;
}

export interface Chapter {
  id: string;
  title: string;
  frames: Frame[];
}

const FIGURE =
  /^!\[(.*)\]\(figure:([a-z][a-z0-9-]*)((?: +[a-z-]+=(?:"[^"]*"|[^\s")]+))*) *\)(?:\n|$)/;
const OPTION = /([a-z-]+)=(?:"([^"]*)"|([^\s")]+))/g;
const NUMBER = /^\{\{([^{}|]+)(?:\|([^{}|]+))?\}\}/;
const LINK = /^(#|https:\/\/)/;

/** `![caption](figure:NAME key=value other="two words")`, alone on its line. */
export const figureExtension: TokenizerAndRendererExtension = {
  name: "figure",
  level: "block",
  start: (source) => /^!\[.*\]\(figure:/m.exec(source)?.index,
  tokenizer(source) {
    const found = FIGURE.exec(source);
    if (!found) return undefined;
    const [raw, caption = "", name = "", given = ""] = found;
    const options = Object.fromEntries(
      [...given.matchAll(OPTION)].map(([, key, quoted, plain]) => [key, quoted ?? plain]),
    );
    return { type: "figure", raw, name, options, tokens: this.lexer.inlineTokens(caption) };
  },
};

/** `{{river-and-cheque:river.attn_weights[0][9][5]|3}}`: a number by its name, and how to write it. */
export const numberExtension: TokenizerAndRendererExtension = {
  name: "number",
  level: "inline",
  start: (source) => {
    const at = source.indexOf("{{");
    return at < 0 ? undefined : at;
  },
  tokenizer(source) {
    const found = NUMBER.exec(source);
    if (!found) return undefined;
    const [raw, name = "", form] = found;
    return { type: "number", raw, name: name.trim(), form: form?.trim() };
  },
};

function numberForm(text: string | undefined, fail: (why: string) => never): NumberForm | null {
  if (text === undefined) return null;
  if (text === "fraction" || text === "percent") return text;
  if (/^[0-6]$/.test(text)) return Number(text);
  return fail(`|${text} is not a form of a number: use fraction, percent or 0 to 6 decimals`);
}

export function inlineOf(tokens: Token[], fail: (why: string) => never): Inline[] {
  return tokens.flatMap((token) => oneInline(token, fail));
}

function oneInline(token: Token, fail: (why: string) => never): Inline[] {
  switch (token.type) {
    case "text":
      if ("tokens" in token && token.tokens) return inlineOf(token.tokens, fail);
      if (token.raw.includes("{{")) fail(`"${token.raw}" has a number that cannot be read`);
      return [{ kind: "text", text: (token as Tokens.Text).text.replace(/\s*\n\s*/g, " ") }];
    case "escape":
      return [{ kind: "text", text: (token as Tokens.Escape).text }];
    case "codespan":
      return [{ kind: "code", text: (token as Tokens.Codespan).text }];
    case "strong":
    case "em":
      return [
        {
          kind: token.type === "em" ? "emphasis" : "strong",
          inline: inlineOf(token.tokens ?? [], fail),
        },
      ];
    case "link":
      return [linkOf(token as Tokens.Link, fail)];
    case "number":
      return [{ kind: "number", name: token.name, form: numberForm(token.form, fail) }];
    case "space":
      return [];
    default:
      return fail(`${token.type} is not used in the story: "${token.raw.slice(0, 40)}"`);
  }
}

function linkOf({ href, tokens }: Tokens.Link, fail: (why: string) => never): Inline {
  if (!LINK.test(href)) fail(`link to ${href} must begin with # or https://`);
  return { kind: "link", href, inline: inlineOf(tokens, fail) };
}

/** The names of all numbers in a text. */
export function numberNames(inline: Inline[]): string[] {
  return inline.flatMap((part) => {
    if (part.kind === "number") return [part.name];
    return "inline" in part ? numberNames(part.inline) : [];
  });
}
