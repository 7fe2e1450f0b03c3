/**
 * The pages of the learn view, in the order of its tabs. A further page is an entry here, its name in
 * `place.ts`, and its component in `Learn.svelte`.
 */

import type { LearnPage } from "./place";

export interface Page {
  page: LearnPage;
  title: string;
  says: string;
}

export const PAGES: readonly Page[] = [
  {
    page: "quiz",
    title: "Quiz",
    says: "Answer before you look; then mark yourself, point by point.",
  },
  {
    page: "exercises",
    title: "Exercises",
    says: "Drawn from a seed, marked by computing them again; a known mistake is named.",
  },
  {
    page: "explain",
    title: "Explain it back",
    says: "Say it in your own words, then use it. The first gap gets a question of its own.",
  },
  {
    page: "cards",
    title: "Cards",
    says: "Recall, turn, rate. A card comes back when you are about to forget it.",
  },
  {
    page: "log",
    title: "Predictions",
    says: "What you expected before you ran it, and what happened.",
  },
];
