/**
 * The file of `manyheads look --save`, read as text from a stranger: every field is checked, nothing
 * of it is ever markup, and what is too large is refused. And the place of a head in the address.
 */

/** No larger file is read, in bytes. */
export const LARGEST_FILE = 64_000_000;
const STEPS = 65_534;
const BLOCKED = 65_535;
const LONGEST_TEXT = 80;
const MOST = { layers: 1000, heads: 1024, axis: 4096 };

/** What a head does, above what chance gives. */
export interface Label {
  behaviour: string;
  score: number;
  greatest: number;
  p: number;
  draws: number;
}

export interface Head {
  layer: number;
  head: number;
  /** Null: no behaviour above its null. */
  label: Label | null;
  /** Change of the loss without the head, nats; null where it was not measured. */
  ablation: number | null;
  /** Its part of the logit that was asked for. */
  logit: number | null;
}

/** The weights of one head in the first sample. */
export interface WeightMap {
  rows: number;
  columns: number;
  steps: Uint16Array;
  queries: readonly string[];
  keys: readonly string[];
}

export interface Saved {
  type: string;
  sha256: string;
  dtype: string;
  /** The heads of each layer. */
  layers: readonly (readonly Head[])[];
  /** The number of key/value heads of each layer. */
  groups: readonly number[];
  proof: readonly { name: string; value: number }[];
  /** The reason for each layer without contributions. */
  refused: readonly { layer: number; reason: string }[];
  behaviours: ReadonlyMap<string, string>;
  maps: ReadonlyMap<string, WeightMap>;
}

/** Why a file cannot be shown, in a sentence for its reader. */
export class FileProblem extends Error {}

/** "18.6", as everywhere in the product. */
export const nameOf = (layer: number, head: number): string => `${layer}.${head}`;

/** The weight of a pair; null where the mask does not allow it. */
export function weightOf(map: WeightMap, query: number, key: number): number | null {
  const steps = map.steps[query * map.columns + key] ?? BLOCKED;
  return steps === BLOCKED ? null : steps / STEPS;
}

/**
 * Read a file.
 *
 * @throws FileProblem where it is no such file.
 */
export function readSaved(text: string): Saved {
  let found: unknown;
  try {
    found = JSON.parse(text);
  } catch {
    throw new FileProblem("This file is not JSON: choose one that manyheads look --save wrote.");
  }
  const document = fields(found, "document");
  if (document.format !== "manyheads-look-1")
    throw new FileProblem("This file is not a saved look: write one with manyheads look --save.");
  const model = fields(document.model, "model");
  const layers = layersOf(list(document.heads, "heads"));
  const proof = fields(document.proof, "proof");
  return {
    type: words(model.type, "model.type"),
    sha256: words(model.sha256, "model.sha256"),
    dtype: words(model.dtype, "model.dtype"),
    layers,
    groups: layers.map((heads, at) => groupsOf(model.groups, at, heads.length)),
    proof: PROOF.flatMap((name) => {
      const value = proof[name];
      return value === null ? [] : [{ name, value: number(value, `proof.${name}`) }];
    }),
    refused: list(proof.refused, "proof.refused").map((one) => {
      const { layer, reason } = fields(one, "proof.refused");
      return { layer: count(layer, MOST.layers, "layer"), reason: words(reason, "reason", 300) };
    }),
    behaviours: new Map(
      Object.entries(fields(document.behaviours ?? {}, "behaviours")).map(([name, says]) => [
        name.slice(0, LONGEST_TEXT),
        words(says, "behaviours"),
      ]),
    ),
    maps: mapsOf(list(document.maps ?? [], "maps"), fields(document.axes ?? {}, "axes")),
  };
}

const PROOF = ["output_gap", "found_gap", "sum_error", "intervention_error"] as const;

function layersOf(entries: readonly unknown[]): Head[][] {
  const layers: Head[][] = [];
  for (const entry of entries) {
    const given = fields(entry, "heads");
    const layer = count(given.layer, MOST.layers, "heads.layer");
    const head = count(given.head, MOST.heads, "heads.head");
    if (layer === layers.length && head === 0) layers.push([]);
    const heads = layers[layer];
    if (heads === undefined || heads.length !== head) throw wrong("heads");
    const ablation = given.ablation ?? null;
    heads.push({
      layer,
      head,
      label: given.label === null ? null : labelOf(given),
      ablation: ablation === null ? null : number(fields(ablation, "ablation").change, "change"),
      logit: given.logit === null ? null : number(given.logit, "heads.logit"),
    });
  }
  if (layers.length === 0) throw wrong("heads");
  return layers;
}

function labelOf(given: Record<string, unknown>): Label {
  const chance = fields(given.null, "heads.null");
  return {
    behaviour: words(given.label, "heads.label"),
    score: number(given.score, "heads.score"),
    greatest: number(chance.greatest, "heads.null.greatest"),
    p: number(chance.p, "heads.null.p"),
    draws: number(chance.draws, "heads.null.draws"),
  };
}

function groupsOf(given: unknown, layer: number, numHeads: number): number {
  const groups = Array.isArray(given) ? given[layer] : given;
  const found = number(groups, "model.groups");
  return Number.isInteger(found) && found > 0 && numHeads % found === 0 ? found : numHeads;
}

function mapsOf(
  entries: readonly unknown[],
  axes: Record<string, unknown>,
): Map<string, WeightMap> {
  const maps = new Map<string, WeightMap>();
  for (const entry of entries) {
    const given = fields(entry, "maps");
    const rows = count(given.rows, MOST.axis, "maps.rows");
    const columns = count(given.columns, MOST.axis, "maps.columns");
    const layer = count(given.layer, MOST.layers, "maps.layer");
    const head = count(given.head, MOST.heads, "maps.head");
    const steps = stepsOf(given.weights);
    if (rows === 0 || steps.length !== rows * columns) throw wrong("maps.weights");
    const [queries, keys] = [namesOf(axes, rows), namesOf(axes, columns)];
    maps.set(nameOf(layer, head), { rows, columns, steps, queries, keys });
  }
  return maps;
}

function namesOf(axes: Record<string, unknown>, length: number): string[] {
  const found = list(axes[String(length)] ?? [], "axes");
  const isWhole = found.length === length;
  return isWhole
    ? found.map((name) => words(name, "axes"))
    : Array.from({ length }, (_, at) => String(at + 1));
}

function stepsOf(given: unknown): Uint16Array {
  if (typeof given !== "string") throw wrong("maps.weights");
  let bytes: string;
  try {
    bytes = atob(given);
  } catch {
    throw wrong("maps.weights");
  }
  const steps = new Uint16Array(bytes.length >> 1);
  for (let at = 0; at < steps.length; at++)
    steps[at] = bytes.charCodeAt(2 * at) + 256 * bytes.charCodeAt(2 * at + 1);
  return steps;
}

function wrong(field: string): FileProblem {
  return new FileProblem(`This file is damaged (${field}): save the look again.`);
}

function fields(value: unknown, name: string): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw wrong(name);
  return value as Record<string, unknown>;
}

function list(value: unknown, name: string): readonly unknown[] {
  if (!Array.isArray(value)) throw wrong(name);
  return value;
}

/** A text on one line, without control characters and signs that turn the direction of writing. */
function words(value: unknown, name: string, longest = LONGEST_TEXT): string {
  if (typeof value !== "string") throw wrong(name);
  const cut = [...value.slice(0, 4 * longest)].slice(0, longest).join("");
  return cut.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, "\u00b7");
}

function number(value: unknown, name: string): number {
  if (typeof value !== "number" || !Number.isFinite(value)) throw wrong(name);
  return value;
}

function count(value: unknown, most: number, name: string): number {
  const found = number(value, name);
  if (!Number.isInteger(found) || found < 0 || found > most) throw wrong(name);
  return found;
}

export interface LookPlace {
  layer: number;
  head: number;
  /** The query whose weights are listed, counted from 0; null for the last. */
  query: number | null;
}

/** The part of the address after `#look/`: `18.6` or `18.6/4`, where queries count from 1. */
export function encodeLook({ layer, head, query }: LookPlace): string {
  return query === null ? nameOf(layer, head) : `${nameOf(layer, head)}/${query + 1}`;
}

/** Read what `encodeLook` wrote; null for a text that names no head, nothing throws. */
export function decodeLook(rest: string): LookPlace | null {
  const found = /^(\d{1,4})\.(\d{1,4})(?:\/([1-9]\d{0,3}))?$/.exec(rest);
  if (!found) return null;
  const query = found[3] === undefined ? null : Number(found[3]) - 1;
  return { layer: Number(found[1]), head: Number(found[2]), query };
}

/** The head of a place that the file has; otherwise the one furthest above its null. */
export function headAt(saved: Saved, place: LookPlace | null): Head {
  const asked = place && saved.layers[place.layer]?.[place.head];
  if (asked) return asked;
  const heads = saved.layers.flat();
  const best = heads.reduce((a, b) => (aboveNull(b) > aboveNull(a) ? b : a));
  return best;
}

/** How far a head's score is above the greatest of its null; 0 without a label. */
export function aboveNull({ label }: Head): number {
  return label === null ? 0 : label.score - label.greatest;
}
