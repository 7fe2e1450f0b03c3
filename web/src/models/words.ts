/** What the models view makes of logits and weights in order to show them; nothing is computed anew. */

import { bestWords, logSumExp } from "./engine/sampling";
import type { HeadSwitch, NextWord, WindowView } from "./engine/types";

/** The most probable words after some logits, best first. */
export function nextWords(
  logits: Float32Array,
  words: readonly string[],
  count: number,
): NextWord[] {
  const total = logSumExp(logits);
  return bestWords(logits, count).map((id) => nextWord(logits, words, total, id));
}

/** Those words after two sets of logits that are among the best of either, best of the first first. */
export function comparedWords(
  before: Float32Array,
  after: Float32Array,
  words: readonly string[],
  count: number,
): { before: NextWord; after: NextWord }[] {
  const ids = [...new Set([...bestWords(before, count), ...bestWords(after, count)])];
  const [totalBefore, totalAfter] = [logSumExp(before), logSumExp(after)];
  return ids.map((id) => ({
    before: nextWord(before, words, totalBefore, id),
    after: nextWord(after, words, totalAfter, id),
  }));
}

function nextWord(
  logits: Float32Array,
  words: readonly string[],
  total: number,
  id: number,
): NextWord {
  const logit = logits[id] ?? Number.NaN;
  return { id, word: words[id] ?? "", probability: Math.exp(logit - total), logit };
}

/** Whether every head is left as it was learned. */
export function isOwn(heads: readonly HeadSwitch[]): boolean {
  return heads.every((state, head) => state === "own" || state === head);
}

/** Switches as an attribute tells them: "own,off,uniform,0". */
export function switchText(heads: readonly HeadSwitch[]): string {
  return heads.join(",");
}

/** The weight that counts, of one receiver on one source. */
export function weightAt(view: WindowView, head: number, receiver: number, source: number): number {
  return view.weights[(head * view.size + receiver) * view.size + source] ?? 0;
}

/** The sources that a receiver looks at most, strongest first. */
export function strongest(
  view: WindowView,
  head: number,
  receiver: number,
  count: number,
): { source: number; weight: number }[] {
  const seen = Array.from({ length: receiver + 1 }, (_, source) => ({
    source,
    weight: weightAt(view, head, receiver, source),
  }));
  return seen
    .filter(({ weight }) => weight > 0)
    .sort((a, b) => b.weight - a.weight || b.source - a.source)
    .slice(0, count);
}

/** The largest weight of a receiver, over all heads; the first of equal ones. */
export function largest(
  view: WindowView,
  receiver: number,
): { head: number; source: number; weight: number } {
  let found = { head: 0, source: 0, weight: weightAt(view, 0, receiver, 0) };
  for (let head = 0; head < view.numHeads; head++)
    for (let source = 0; source <= receiver; source++) {
      const weight = weightAt(view, head, receiver, source);
      if (weight > found.weight) found = { head, source, weight };
    }
  return found;
}

/** A size as people read it: "2.6 MB". */
export function bytesText(bytes: number): string {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} KB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** The title of each model on the page. */
export const TITLES: Record<string, string> = {
  mlp: "No attention",
  "one-head": "One head",
  "four-heads": "Four heads",
};
