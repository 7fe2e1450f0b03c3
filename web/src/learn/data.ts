/** What the learn view asks, as `manyheads.web.learn` writes it. */

import type { Changes } from "../engine/editing";
import built from "../generated/learn.json";
import type { CardSettings } from "./schedule";

/** A number in a sentence, as the engine gives it. */
export interface Quoted {
  quantity: string;
  value: number;
  text: string;
}

/** A sentence: texts and numbers in turn. */
export type Said = (string | Quoted)[];

/** A number that is asked for. */
export interface Ask {
  prompt: Said;
  quantity: string;
  value: number;
  /** Such as "4/7"; null where only decimals are known. */
  exact: string | null;
}

export interface Question {
  id: string;
  title: string;
  prompt: Said;
  /** Asked before the full answer is seen. */
  numbers: Ask[];
  /** An empty line begins a paragraph. */
  answer: Said;
  /** What a complete answer says, a point a sentence. */
  rubric: Said[];
  /** The frame of the story that shows it. */
  frame: string;
  /** The worksheet whose given numbers one has to look at; null where the prompts say enough. */
  worksheet: string | null;
}

export interface Point {
  /** What a complete answer says. */
  says: Said;
  /** The follow-up question for a learner who left it out. */
  follow_up: Said;
  /** What a good answer to that question says. */
  look_for: Said;
  /** What rules look for in a free text: a name, and beginnings of words. */
  words: [string, string[]][];
}

/** An explanation and an application are asked for one after the other. */
export const HALVES = ["explain", "apply"] as const;
export type Half = (typeof HALVES)[number];

export interface HalfData {
  prompt: Said;
  points: Point[];
}

export interface Topic extends Record<Half, HalfData> {
  id: string;
  title: string;
}

export interface Card {
  id: string;
  topic: string;
  front: Said;
  back: Said;
}

/** An experiment on a worksheet; its numbers are computed when it is run. */
export interface Try {
  worksheet: string;
  sequence: string;
  name: string;
  /** What changes, in one sentence. */
  change: string;
  /** The number that is predicted. */
  quantity: string;
  /** What that number is. */
  label: string;
  changes: Partial<Changes>;
}

export interface LearnData {
  tries: Try[];
  questions: Question[];
  topics: Topic[];
  cards: Card[];
  settings: CardSettings;
}

export const data = built as unknown as LearnData;
