/** Where the reader is in the learn view, to and from its part of the address. */

import { partsOf } from "../app/address";

export const LEARN_PAGES = ["quiz", "exercises", "explain", "cards", "log"] as const;
export type LearnPage = (typeof LEARN_PAGES)[number];

export interface LearnPlace {
  /** null for the beginning of the view. */
  page: LearnPage | null;
  /** What is asked on that page: a question, a topic, a kind of exercise; "" for none. */
  name: string;
  /** The seed of an exercise, as it is written; "" for none. */
  seed: string;
  /** Of exercises only: the parts after the page's name as they were written, right or not. */
  asked?: readonly string[];
}

const LONGEST = 60;
/** `sheet`, seed, count and number of an exercise. */
const MOST_PARTS = 4;

/** The part of the address after `#learn/`, such as `quiz/wide-head`; "" for the beginning. */
export function encodeLearn({ page, name, seed, asked }: LearnPlace): string {
  const parts = [page ?? "", ...(asked ?? [name, seed])].map(encodeURIComponent);
  return parts.join("/").replace(/\/+$/, "");
}

/** Read what `encodeLearn` wrote; whatever names no page leads to the beginning, nothing throws. */
export function decodeLearn(part: string): LearnPlace {
  const [first = "", ...rest] = partsOf(part);
  const [name = "", seed = ""] = rest;
  const page = LEARN_PAGES.find((known) => known === first) ?? null;
  if (page === null) return { page, name: "", seed: "" };
  const place = { page, name: plain(name), seed: plain(seed) };
  return page === "exercises" ? { ...place, asked: rest.slice(0, MOST_PARTS).map(cut) } : place;
}

/** A name as ids and seeds are written; "" for anything else. */
function plain(text: string): string {
  return text.length <= LONGEST && /^[a-z0-9][a-z0-9.-]*$/.test(text) ? text : "";
}

/** A part that can be written again: not too long, no half of a character. */
function cut(text: string): string {
  return text.slice(0, LONGEST).replace(/\p{Cs}/gu, "");
}
