/** What Python expects of the model engine: written anew for each run, in a folder of its own. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { ReadFile } from "../../src/models/engine/files";
import { loadFile } from "../../src/models/engine/files";
import type { Ending, HeadSwitch, ModelIndex } from "../../src/models/engine/types";

export interface Answer {
  ids: number[];
  logits: string;
  grids?: string;
  switched?: { heads: HeadSwitch[]; logits: string }[];
}

export interface Story {
  prompt: string;
  seed: string;
  temperature?: number;
  top_k?: number;
  max_tokens?: number;
  stop?: string;
  ids: number[];
  text: string;
  probabilities: number[];
  context: number[];
  ended_by: Ending;
}

export interface Expected {
  answers: Answer[];
  losses: { ids: number[]; nats: number[] };
  stories: Story[];
}

export interface TokenizerCases {
  texts: { text: string; words: string[]; ids: number[]; decoded: string }[];
  characters: ([string, string[]] | null)[];
}

const ROOT = resolve(import.meta.dirname, "../../..");

/** Have Python write the fixtures; the folder is the caller's to remove. */
export function writeFixtures(): string {
  const folder = mkdtempSync(join(tmpdir(), "manyheads-models-"));
  const python = join(ROOT, ".venv/bin/python");
  execFileSync(python, ["-m", "tests.web.model_fixtures", folder], { cwd: ROOT });
  return folder;
}

export function removeFixtures(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
}

export function readJson<T>(...path: string[]): T {
  return JSON.parse(readFileSync(join(...path), "utf8")) as T;
}

/** The sets of models: those made up for the tests, and the shipped ones where there are any. */
export function setsIn(folder: string): string[] {
  return ["made-up", "real"].filter((name) => existsSync(join(folder, name)));
}

export const indexOf = (set: string) => readJson<ModelIndex>(set, "index.json");

/** Reads a set's files from disk, with their hashes verified as on the page. */
export function loaderOf(set: string): typeof loadFile {
  const read: ReadFile = async ({ path, size }, onBytes) => {
    const bytes = new Uint8Array(readFileSync(join(set, path)));
    onBytes(size);
    return bytes;
  };
  return (facts, onBytes, signal) => loadFile(facts, onBytes, signal, read);
}

/** Float32 numbers that Python wrote as base64. */
export function unpacked(text: string): Float32Array {
  return new Float32Array(new Uint8Array(Buffer.from(text, "base64")).buffer);
}

/** The largest difference; infinite where the lengths differ or a number is none. */
export function gap(found: ArrayLike<number>, expected: ArrayLike<number>): number {
  if (found.length !== expected.length) return Infinity;
  let most = 0;
  for (let i = 0; i < expected.length; i++) {
    const difference = Math.abs((found[i] as number) - (expected[i] as number));
    if (!(difference <= most)) most = Number.isNaN(difference) ? Infinity : difference;
  }
  return most;
}
