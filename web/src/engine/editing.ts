/**
 * What a reader has changed and chosen in a worksheet, and its form in the address.
 *
 * The address, after `#worksheet/`: river-and-cheque/river/weights?head=1&receiver=10&edit=W_O.0.1:1/7
 * Heads and receivers count from 1 there; places of given numbers and names of numbers count from 0.
 */

import type { Num } from "../numbers/exact";
import { isError, type NumberError } from "../numbers/parse";
import type { SolveOptions } from "./interventions";
import { placeKeys, placeText } from "./places";
import { editSheet, givenNumber, type Sheet, sheetFromData } from "./sheet";
import type { Catalog, NumberMode, Sequence, Worksheet } from "./types";

/** One given number, replaced by what was typed. */
export interface Edit {
  /** As `data-quantity` names it, without the worksheet: heads.0.W_Q[3][1]. */
  readonly place: string;
  readonly text: string;
}

/** Everything that makes the sum differ from the one in the worksheet. */
export interface Changes {
  /** In the order in which they were made; a place at most once. */
  readonly edits: readonly Edit[];
  /** null: as the worksheet says. */
  readonly isCausal: boolean | null;
  /** Heads removed before W_O, counted from 0, in order. */
  readonly headsOff: readonly number[];
  readonly isWide: boolean;
  readonly hasZeroQuery: boolean;
}

export interface WorksheetState {
  readonly worksheet: string;
  readonly sequence: string;
  /** Counted from 0, as the receiver. */
  readonly head: number;
  readonly receiver: number;
  readonly step: string;
  readonly numbers: NumberMode;
  readonly changes: Changes;
  /** Names of the numbers being explained, without the worksheet: the asked one, then deeper ones. */
  readonly trail: readonly string[];
}

/** The steps of a worksheet, in order. */
export type StepNames = (worksheet: Worksheet) => readonly string[];

export const NO_CHANGES: Changes = {
  edits: [],
  isCausal: null,
  headsOff: [],
  isWide: false,
  hasZeroQuery: false,
};

const MODES: readonly NumberMode[] = ["decimals", "fractions", "symbols"];
const MAX_TRAIL = 24;
const MAX_EDITS = 1000;

const sheets = new WeakMap<Worksheet, Sheet>();

/** The engine's form of a worksheet as it is given, made once. */
export function givenSheet(worksheet: Worksheet): Sheet {
  const known = sheets.get(worksheet);
  if (known) return known;
  const made = sheetFromData(worksheet);
  sheets.set(worksheet, made);
  return made;
}

export function isSameNumber(one: Num, other: Num): boolean {
  if (one.exact && other.exact) return one.exact.equals(other.exact);
  return one.value === other.value && one.exact === other.exact;
}

/** The edits with one more, or why it cannot be; typing the given number again removes the edit. */
export function withEdit(
  given: Sheet,
  edits: readonly Edit[],
  place: string,
  text: string,
): readonly Edit[] | NumberError {
  const keys = placeKeys(place);
  if (isError(keys)) return keys;
  const written = placeText(keys);
  const changed = editSheet(given, written, text);
  if (isError(changed)) return changed;
  const [before, after] = [givenNumber(given, written), givenNumber(changed, written)];
  const edit = { place: written, text: text.trim() };
  if (!isError(before) && !isError(after) && isSameNumber(before, after)) {
    return withoutEdits(edits, [written]);
  }
  const at = edits.findIndex((other) => other.place === written);
  return at < 0 ? [...edits, edit] : edits.with(at, edit);
}

export function withoutEdits(edits: readonly Edit[], places: readonly string[]): readonly Edit[] {
  const gone = new Set(places);
  return edits.some(({ place }) => gone.has(place))
    ? edits.filter(({ place }) => !gone.has(place))
    : edits;
}

/** The worksheet with all edits in it. */
export function editedSheet(given: Sheet, edits: readonly Edit[]): Sheet {
  return edits.reduce((sheet, { place, text }) => {
    const changed = editSheet(sheet, place, text);
    return isError(changed) ? sheet : changed;
  }, given);
}

export function solveOptions(changes: Changes): SolveOptions {
  return {
    ...(changes.isCausal === null ? {} : { causal: changes.isCausal }),
    headsOff: changes.headsOff,
    wide: changes.isWide,
    zeroQuery: changes.hasZeroQuery,
  };
}

export function hasChanges({ edits, isCausal, headsOff, isWide, hasZeroQuery }: Changes): boolean {
  return edits.length > 0 || headsOff.length > 0 || isCausal !== null || isWide || hasZeroQuery;
}

export function isSameChanges(one: Changes, other: Changes): boolean {
  return one === other || changeParams(one).join("&") === changeParams(other).join("&");
}

/** What is left as it is in an address, beside letters and digits. */
const PLAIN = /%(?:2F|28|29|2A|2B|3A|2C)/g;

function coded(text: string): string {
  return encodeURIComponent(text).replace(PLAIN, decodeURIComponent);
}

function plain(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** heads.0.W_Q[3][1] as heads.0.W_Q.3.1, which an address need not escape. */
function shortPlace(place: string): string {
  return coded(place.replace(/\[(\d+)\]/g, ".$1"));
}

function longPlace(text: string): string | null {
  const keys = placeKeys(plain(text));
  return isError(keys) ? null : placeText(keys);
}

function changeParams(changes: Changes): string[] {
  const params: string[] = [];
  if (changes.isCausal !== null) params.push(`causal=${changes.isCausal ? "on" : "off"}`);
  if (changes.headsOff.length > 0) {
    params.push(`off=${changes.headsOff.map((head) => head + 1).join(",")}`);
  }
  if (changes.isWide) params.push("wide=on");
  if (changes.hasZeroQuery) params.push("zero=on");
  if (changes.edits.length > 0) {
    const edits = changes.edits.map(({ place, text }) => `${shortPlace(place)}:${coded(text)}`);
    params.push(`edit=${edits.join(";")}`);
  }
  return params;
}

/** Write a state as the part of the address after `#worksheet/`. */
export function encodeWorksheet(state: WorksheetState): string {
  const path = [state.worksheet, state.sequence, state.step].map(coded).join("/");
  const params = [`head=${state.head + 1}`, `receiver=${state.receiver + 1}`];
  if (state.numbers !== "decimals") params.push(`numbers=${state.numbers}`);
  params.push(...changeParams(state.changes));
  if (state.trail.length > 0) params.push(`why=${state.trail.map(shortPlace).join(";")}`);
  return `${path}?${params.join("&")}`;
}

function count(text: string | undefined, limit: number, otherwise: number): number {
  if (text === undefined || !/^[1-9]\d{0,5}$/.test(text)) return otherwise;
  const read = Number(text);
  return read <= limit ? read - 1 : otherwise;
}

function paramsOf(query: string): Map<string, string> {
  const params = new Map<string, string>();
  for (const pair of query.split("&")) {
    const at = pair.indexOf("=");
    if (at > 0) params.set(pair.slice(0, at), pair.slice(at + 1));
  }
  return params;
}

function readEdits(given: Sheet, text: string): readonly Edit[] {
  let edits: readonly Edit[] = [];
  for (const part of text.split(";").slice(0, MAX_EDITS)) {
    const at = part.indexOf(":");
    if (at <= 0) continue;
    const read = withEdit(given, edits, plain(part.slice(0, at)), plain(part.slice(at + 1)));
    if (!isError(read)) edits = read;
  }
  return edits;
}

function readHeads(text: string, limit: number): readonly number[] {
  const heads = text.split(",").map((part) => count(part, limit, -1));
  return [...new Set(heads.filter((head) => head >= 0))].sort((one, other) => one - other);
}

function readChanges(worksheet: Worksheet, params: Map<string, string>): Changes {
  const causal = params.get("causal");
  const isCausal = causal === "on" ? true : causal === "off" ? false : null;
  return {
    edits: readEdits(givenSheet(worksheet), params.get("edit") ?? ""),
    isCausal: isCausal === worksheet.is_causal ? null : isCausal,
    headsOff: readHeads(params.get("off") ?? "", worksheet.heads.length),
    isWide: params.get("wide") === "on",
    hasZeroQuery: params.get("zero") === "on",
  };
}

function readTrail(text: string): readonly string[] {
  const names = text.split(";").slice(0, MAX_TRAIL).map(longPlace);
  return names.filter((name) => name !== null);
}

function named<T extends { name: string }>(list: readonly T[], name: string, what: string): T {
  const found = list.find((one) => one.name === name) ?? list[0];
  if (!found) throw new Error(`the page was built without a ${what}`);
  return found;
}

/** The worksheet and the sentence that a state speaks of. */
export function placeOfState(
  state: Pick<WorksheetState, "worksheet" | "sequence">,
  catalog: Catalog,
): { worksheet: Worksheet; sequence: Sequence } {
  const worksheet = named(catalog.worksheets, state.worksheet, "worksheet");
  return { worksheet, sequence: named(worksheet.sequences, state.sequence, "sentence") };
}

/**
 * Read the part of the address after `#worksheet/`. Whatever does not fit falls back to a default,
 * part by part; never throws, whatever the text.
 */
export function decodeWorksheet(
  text: string,
  catalog: Catalog,
  stepsOf: StepNames,
): WorksheetState {
  const [path = "", query = ""] = text.includes("?")
    ? [text.slice(0, text.indexOf("?")), text.slice(text.indexOf("?") + 1)]
    : [text, ""];
  const [first = "", second = "", third = ""] = path.split("/").map(plain);
  const { worksheet, sequence } = placeOfState({ worksheet: first, sequence: second }, catalog);
  const params = paramsOf(query);
  const steps = stepsOf(worksheet);
  const last = sequence.tokens.length;
  return {
    worksheet: worksheet.name,
    sequence: sequence.name,
    step: steps.includes(third) ? third : (steps[0] ?? ""),
    head: count(params.get("head"), worksheet.heads.length, 0),
    receiver: count(params.get("receiver"), last, last - 1),
    numbers: MODES.find((mode) => mode === params.get("numbers")) ?? "decimals",
    changes: readChanges(worksheet, params),
    trail: readTrail(params.get("why") ?? ""),
  };
}

/** "head 2 off, W_O[0][1] = 1/7"; "" for the worksheet as it is given. */
export function changesText({ edits, isCausal, headsOff, isWide, hasZeroQuery }: Changes): string {
  const said = edits.map(({ place, text }) => `${place} = ${text}`);
  if (isCausal !== null) said.push(isCausal ? "causal mask on" : "causal mask off");
  said.push(...headsOff.map((head) => `head ${head + 1} off`));
  if (isWide) said.push("one wide head");
  if (hasZeroQuery) said.push("zero query");
  return said.join(", ");
}
