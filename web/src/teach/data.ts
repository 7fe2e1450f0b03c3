/** The teacher's text, and the printed worksheets that lie beside the page. */

import source from "../../../docs/teach.md?raw";
import built from "../generated/paper.json";
import { parseTeach } from "./reading";

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
