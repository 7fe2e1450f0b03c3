/** Where the reader is, to and from the fragment of the address. Counts from 1, as labels do. */

import type { Catalog, NumberMode, Sequence, Worksheet } from "./types";

export interface PageState {
  worksheet: string;
  sequence: string;
  /** Counted from 0 inside the page, from 1 in the address. */
  head: number;
  receiver: number;
  step: string;
  numbers: NumberMode;
}

export interface Place {
  worksheet: Worksheet;
  sequence: Sequence;
}

/** The steps of a worksheet, in order, as `views/index.ts` lists them. */
export type StepsOf = (worksheet: Worksheet) => string[];

export function placeOf(catalog: Catalog, worksheetName: string, sequenceName: string): Place {
  const worksheet =
    catalog.worksheets.find(({ name }) => name === worksheetName) ?? catalog.worksheets[0];
  if (!worksheet) throw new Error("the page was built without a worksheet");
  const sequence =
    worksheet.sequences.find(({ name }) => name === sequenceName) ?? worksheet.sequences[0];
  if (!sequence) throw new Error(`${worksheet.name} has no sequence`);
  return { worksheet, sequence };
}

function readCount(text: string | null, limit: number, otherwise: number): number {
  if (text === null || !/^[1-9]\d{0,5}$/.test(text)) return otherwise;
  const count = Number(text);
  return count <= limit ? count - 1 : otherwise;
}

/** Read a fragment. Whatever does not fit the worksheet falls back to a default; never throws. */
export function parseFragment(fragment: string, catalog: Catalog, stepsOf: StepsOf): PageState {
  const params = new URLSearchParams(fragment.replace(/^#/, ""));
  const { worksheet, sequence } = placeOf(
    catalog,
    params.get("worksheet") ?? "",
    params.get("sequence") ?? "",
  );
  const steps = stepsOf(worksheet);
  const step = params.get("step") ?? "";
  const last = sequence.tokens.length;
  return {
    worksheet: worksheet.name,
    sequence: sequence.name,
    head: readCount(params.get("head"), worksheet.heads.length, 0),
    receiver: readCount(params.get("receiver"), last, last - 1),
    step: steps.includes(step) ? step : (steps[0] ?? ""),
    numbers: params.get("numbers") === "fractions" ? "fractions" : "decimals",
  };
}

export function formatFragment(state: PageState): string {
  const params = new URLSearchParams({
    worksheet: state.worksheet,
    sequence: state.sequence,
    head: String(state.head + 1),
    receiver: String(state.receiver + 1),
    step: state.step,
    numbers: state.numbers,
  });
  return `#${params}`;
}

/** The same place after a change; what no longer fits falls back as in `parseFragment`. */
export function moved(
  state: PageState,
  change: Partial<PageState>,
  catalog: Catalog,
  stepsOf: StepsOf,
): PageState {
  const next = { ...state, ...change };
  const params = new URLSearchParams(formatFragment(next).slice(1));
  const before = placeOf(catalog, state.worksheet, state.sequence).sequence;
  const isLast = state.receiver === before.tokens.length - 1;
  const isElsewhere = next.worksheet !== state.worksheet || next.sequence !== state.sequence;
  if (isElsewhere && isLast && change.receiver === undefined) params.delete("receiver");
  return parseFragment(params.toString(), catalog, stepsOf);
}
