/** Prompts of the models view, fixed before any model was asked.
 *
 * The quoted ones follow one rule: the first 20 words of the first two training stories and of the
 * first two test stories of the sample, split by `manyheads.data.windows.split_of_normalised`. In `presets.json`, `data_sha256` names the sample
 * as studies name their data.
 */

import fixed from "./presets.json";

/** "training": the models learned from the story. "held-out": a test story, read by no run before
 * all choices were frozen. "outside": no story at all. */
export type PresetKind = "training" | "held-out" | "outside";

export interface Preset {
  /** In the address. */
  id: string;
  label: string;
  kind: PresetKind;
  text: string;
  /** The next word of the story; null where the text is no quotation. */
  goesOn: string | null;
  /** The story's line in the sample, counted from 1; null where the text is no quotation. */
  line: number | null;
  /** The whole story that the text begins; null where the text is no quotation. */
  story: string | null;
  /** Where the text comes from, in a sentence. */
  source: string;
}

/** Whom the quotations are from, and their licence. */
export const ATTRIBUTION =
  "Quoted from TinyStories by Ronen Eldan and Yuanzhi Li (arXiv:2305.07759), licence CDLA-Sharing-1.0.";

export const KIND_LABELS: Record<PresetKind, string> = {
  training: "from training stories",
  "held-out": "from held-out stories",
  outside: "outside the domain",
};

export const PRESETS = fixed.presets as readonly Preset[];

/** Where a preset's text comes from, with author and licence where it is a quotation. */
export function sourceOf(preset: Preset): string {
  return preset.line === null ? preset.source : `${preset.source} ${ATTRIBUTION}`;
}
