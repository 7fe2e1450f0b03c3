/** The learner's own records: each stored file, and what is added to it. */

import { reviewKey } from "./deck";
import type { Fields, Line, Rule } from "./records";
import { exerciseRule, explainRule, predictionRule, quizRule, reviewRule } from "./records";
import { browserStorage, RecordFile, type Shelf, type Taken } from "./shelf";

export class Kept {
  private readonly file: RecordFile;
  /** What is kept. */
  shelf = $state.raw<Shelf>({ lines: [], trouble: null, aside: "" });

  constructor(name: string, rule: Rule, keyOf?: (line: Line) => string) {
    this.file = new RecordFile(name, rule, browserStorage, keyOf);
    this.shelf = this.file.read();
    addEventListener("storage", ({ key }) => {
      if (key === null || key === this.file.key) this.shelf = this.file.read();
    });
  }

  get name(): string {
    return this.file.name;
  }

  add(fields: Fields): void {
    this.shelf = this.file.add(fields);
  }

  take(text: string): Taken {
    const taken = this.file.take(text);
    this.shelf = this.file.read();
    return taken;
  }

  text(): string {
    return this.file.text();
  }

  forgetAside(): void {
    this.file.forgetAside();
    this.shelf = this.file.read();
  }
}

export interface Learner {
  readonly reviews: Kept;
  readonly quiz: Kept;
  readonly exercises: Kept;
  readonly explained: Kept;
  readonly predictions: Kept;
}

let opened: Learner | undefined;

/** The one learner of this browser; opened by the first view that asks. */
export function learner(): Learner {
  opened ??= {
    reviews: new Kept("reviews.jsonl", reviewRule, reviewKey),
    quiz: new Kept("quiz.jsonl", quizRule),
    exercises: new Kept("exercises.jsonl", exerciseRule),
    explained: new Kept("explain.jsonl", explainRule),
    predictions: new Kept("predictions.jsonl", predictionRule),
  };
  return opened;
}

/** Now, as records write times. */
export function writtenNow(): string {
  return new Date().toISOString();
}

const drafts = new Map<string, readonly string[]>();

export function draftOf(name: string): readonly string[] {
  return drafts.get(name) ?? [];
}

export function keepDraft(name: string, texts: readonly string[]): void {
  drafts.set(name, [...texts]);
}

export function dropDraft(name: string): void {
  drafts.delete(name);
}
