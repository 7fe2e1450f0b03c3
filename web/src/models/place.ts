/** Where the reader is in the models view, to and from its part of the address. */

import type { Backend, HeadSwitch } from "./engine/types";
import { PRESETS } from "./presets";

/** Everything that the address says of this view; positions count from 0 here, from 1 there. */
export interface ModelsPlace {
  /** The id of a preset; null where the reader wrote the text. */
  preset: string | null;
  /** The reader's own text; "" with a preset. */
  text: string;
  /** 0 takes the best word each time. */
  temperature: number;
  topK: number;
  /** A whole number from 0 to 2**64 - 1, as text. */
  seed: string;
  /** The most words to write. */
  length: number;
  /** The story ends with the word that completes this text; "" for none. */
  stop: string;
  backend: Backend;
  /** The name of the model whose heads are looked at. */
  look: string;
  /** One switch a head of that model; empty while all are "own". */
  heads: readonly HeadSwitch[];
  /** The locked word of the window, counted from 0; null for the last one. */
  locked: number | null;
}

export const MAX_TEXT = 2000;
export const MAX_LENGTH = 400;
export const MAX_TOP_K = 1000;
const MAX_HEADS = 64;
const MAX_CONTEXT = 1024;
const BACKENDS: readonly Backend[] = ["own", "onnx-wasm", "onnx-webgpu"];

export const FIRST_PLACE: ModelsPlace = {
  preset: PRESETS.find(({ kind }) => kind === "held-out")?.id ?? null,
  text: "",
  temperature: 0.8,
  topK: 40,
  seed: "4",
  length: 60,
  stop: "",
  backend: "own",
  look: "four-heads",
  heads: [],
  locked: null,
};

/** The text that the models continue. */
export function promptOf(place: ModelsPlace): string {
  return PRESETS.find(({ id }) => id === place.preset)?.text ?? wholeText(place.text);
}

/** The part of the address after `#models/`: a query such as `preset=car&t=0`; "" at first. */
export function encodeModels(place: ModelsPlace): string {
  const first = written(FIRST_PLACE);
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(written(place)))
    if (value !== first[name] || (name === "text" && place.preset === null))
      params.set(name, value);
  if (place.preset === null) params.delete("preset");
  return params.toString();
}

/** Read what `encodeModels` wrote; whatever is out of range falls back, nothing throws. */
export function decodeModels(part: string): ModelsPlace {
  const params = new URLSearchParams(part.replace(/^[?/]+/, ""));
  const first = FIRST_PLACE;
  const text = params.get("text");
  const preset = PRESETS.find(({ id }) => id === params.get("preset"))?.id ?? first.preset;
  const seed = params.get("seed") ?? "";
  const backend = BACKENDS.find((name) => name === params.get("engine"));
  const look = params.get("look") ?? "";
  return {
    preset: text === null ? preset : null,
    text: wholeText((text ?? "").slice(0, MAX_TEXT)),
    temperature: number(params.get("t"), 0, 10, first.temperature),
    topK: whole(params.get("k"), MAX_TOP_K, first.topK),
    seed: isSeed(seed) ? seed : first.seed,
    length: whole(params.get("length"), MAX_LENGTH, first.length),
    stop: (params.get("stop") ?? "").slice(0, 100),
    backend: backend ?? first.backend,
    look: /^[a-z0-9-]{1,40}$/.test(look) ? look : first.look,
    heads: switches(params.get("heads") ?? ""),
    locked: position(params.get("word")),
  };
}

/** A text without halves of characters. */
function wholeText(text: string): string {
  return text.replace(/\p{Cs}/gu, "");
}

/** Whether a text is a seed of PCG32. */
export function isSeed(text: string): boolean {
  return /^\d{1,20}$/.test(text) && BigInt(text) < 1n << 64n;
}

function written(place: ModelsPlace): Record<string, string> {
  return {
    preset: place.preset ?? "",
    text: place.text,
    t: String(place.temperature),
    k: String(place.topK),
    seed: place.seed,
    length: String(place.length),
    stop: place.stop,
    engine: place.backend,
    look: place.look,
    heads: place.heads.map((state) => (typeof state === "number" ? state + 1 : state)).join("."),
    word: place.locked === null ? "" : String(place.locked + 1),
  };
}

function number(text: string | null, least: number, most: number, otherwise: number): number {
  if (text === null || !/^\d{1,4}(\.\d{1,6})?$/.test(text)) return otherwise;
  const value = Number(text);
  return value >= least && value <= most ? value : otherwise;
}

function whole(text: string | null, most: number, otherwise: number): number {
  if (text === null || !/^[1-9]\d{0,5}$/.test(text)) return otherwise;
  const value = Number(text);
  return value <= most ? value : otherwise;
}

function position(text: string | null): number | null {
  const count = whole(text, MAX_CONTEXT, 0);
  return count === 0 ? null : count - 1;
}

/** "own.off.1" as switches; empty where any part of it is none. */
function switches(text: string): HeadSwitch[] {
  if (text === "") return [];
  const parts = text.split(".");
  if (parts.length > MAX_HEADS) return [];
  const found: HeadSwitch[] = [];
  for (const part of parts) {
    if (part === "own" || part === "off" || part === "uniform") found.push(part);
    else if (/^[1-9]\d?$/.test(part) && Number(part) <= parts.length) found.push(Number(part) - 1);
    else return [];
  }
  return found.every((state) => state === "own") ? [] : found;
}
