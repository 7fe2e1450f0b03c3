/** Where the reader is in the learn view, to and from its part of the address. */

import { partsOf } from "../app/address";

export interface Page {
  page: string;
  title: string;
  says: string;
}

/** The pages of the learn view, in the order of its tabs. A new page is an entry here and its component in `Learn.svelte`. */
export const PAGES: readonly Page[] = [
  {
    page: "quiz",
    title: "Quiz",
    says: "Answer first, then compare with the full answer, point by point.",
  },
  {
    page: "exercises",
    title: "Exercises",
    says: "Numbers from a random seed, marked exactly. If you make a known mistake, the page names it.",
  },
  {
    page: "explain",
    title: "Explain a topic",
    says: "Explain a topic in your own words, then apply it. Then answer a question about the first point that you missed.",
  },
  {
    page: "cards",
    title: "Cards",
    says: "Recall the answer, turn the card, rate yourself. A card returns shortly before you would forget it.",
  },
  {
    page: "notebooks",
    title: "Notebooks",
    says: "The calculation, the study and your own module as cells that you run and change in Jupyter.",
  },
  {
    page: "log",
    title: "Predictions",
    says: "What you predicted before an experiment, and what happened.",
  },
];

export interface LearnPlace {
  /** null for the beginning of the view. */
  page: string | null;
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
  const page = PAGES.find((known) => known.page === first)?.page ?? null;
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
