/** The answers of the Python engine: `python -m tools.page_fixtures web/tests/generated` writes them. */

import {
  isError,
  type Num,
  type NumberError,
  type Sheet,
  type SolveOptions,
  sheetFromData,
} from "../src/engine/attention";
import { catalog } from "../src/engine/types";
import text from "./generated/fixture.json?raw";

type Value = number | "inf" | "-inf";

export interface Numbers {
  shape: number[];
  values: Value[];
  exact: (string | null)[];
}

export interface EditCase {
  worksheet: string;
  sequence: string;
  edits: Record<string, string>;
  options: SolveOptions;
  receiver: number;
  row: Record<string, Numbers>;
  sums: Record<string, number>;
  marks: Record<string, number>;
}

export interface StepCase {
  quantity: string;
  label: string;
  kind: string;
  rule: string;
  formula: string;
  terms: string[][];
  zero_terms: number;
  given: boolean;
  value: Value;
  python: string;
}

export interface NumberCase {
  text: string;
  value?: number;
  exact?: string;
  error?: string;
}

export interface ShownCase {
  text: string;
  fraction: string;
  decimal: string;
}

interface Fixture {
  worksheets: { name: string; sequences: { name: string; fields: Record<string, Numbers> }[] }[];
  explanations: { worksheet: string; sequence: string; receiver: number; steps: StepCase[] }[];
  numbers: NumberCase[];
  shown: ShownCase[];
  edits: EditCase[];
}

export const fixture = JSON.parse(text) as Fixture;

export function sheetNamed(name: string): Sheet {
  const data = catalog.worksheets.find((worksheet) => worksheet.name === name);
  if (!data) throw new Error(`no worksheet ${name}`);
  return sheetFromData(data);
}

export function floatOf(value: Value): number {
  return typeof value === "number" ? value : value === "inf" ? Infinity : -Infinity;
}

/** Long text as Python cuts it. */
export function cut(exact: string | null): string | null {
  if (exact === null || exact.length <= 60) return exact;
  return `${exact.slice(0, 20)}...${exact.slice(-20)} (${exact.length})`;
}

/** Throws unless two numbers agree to 1e-12 of the larger of the number and `size`. */
export function expectClose(found: number, wanted: number, name: string, size = 1): void {
  const allowed = 1e-12 * Math.max(size, Math.abs(wanted));
  const isClose = Number.isFinite(wanted)
    ? Math.abs(found - wanted) <= allowed
    : Object.is(found, wanted);
  if (!isClose) throw new Error(`${name} is ${found}, Python says ${wanted} (allowed ${allowed})`);
}

/** What was asked for, or the reason why there is none, thrown. */
export function must<R extends object>(result: R): Exclude<R, NumberError> {
  if (isError(result)) throw new Error(result.error);
  return result as Exclude<R, NumberError>;
}

/** Every number of a table, in order. */
export function flat(table: unknown): Num[] {
  return (Array.isArray(table) ? table.flatMap(flat) : [table]) as Num[];
}
