/** The parts of the story, as `story.ts` reads them and the views draw them. */

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
  builds: number;
}

export interface Chapter {
  id: string;
  title: string;
  frames: Frame[];
}
