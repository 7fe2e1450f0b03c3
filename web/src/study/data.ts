/** The shipped studies as `tools/page/study.py` writes them, and the place of one in the address. */

import built from "../generated/study.json";

export interface Moments {
  mean: number | null;
  /** Over seeds, dividing by n - 1; null of one seed. */
  sd: number | null;
}

export interface StudyRun {
  model: string;
  seed: number;
  parameters: number;
  steps: number;
  selected_step: number;
  validation_loss: number;
  test_loss: number;
  test_perplexity: number;
  seconds: number;
  learning_rate?: number | null;
  trace: { step: number; validation_loss?: number | null }[];
  /** Words of generated stories whose source is known; absent elsewhere. */
  labelled?: { num_stories: number; kinds: LabelledKind[] };
}

/** A number of stories out of some, and its 95 % interval. */
export interface Share {
  stories: number;
  share: number;
  interval: [number, number];
}

export interface LabelledKind {
  kind: string;
  predicted: Share;
  preferred: Share;
  most_frequent: number;
  heads: { found: Share; shuffled_mean: number; shuffled_greatest: number }[];
}

export interface Pair {
  model_a: string;
  model_b: string;
  metric: string;
  n: number;
  mean: number | null;
  sd: number | null;
  interval: [number, number] | null;
  method: string | null;
  t_interval: [number, number] | null;
  note: string;
}

export interface StudyModel {
  name: string;
  kind: string;
  num_heads?: number | null;
  head_dim?: number | null;
  pattern?: string;
}

type Settings = Record<string, unknown>;

export interface StudyData {
  name: string;
  plan: {
    description: string;
    seeds: number[];
    models: StudyModel[];
    protocol: Settings;
    data: Settings;
  };
  plan_sha256: string;
  data_sha256: string;
  data: Settings;
  environment: Settings;
  runs: StudyRun[];
  aggregate: Record<string, Record<string, Moments>>;
  paired: Pair[];
  /** What these numbers do not show, a paragraph each. */
  limits: string[];
  /** The published experiment whose protocol this study follows. */
  published?: {
    figures: Record<string, Record<string, Partial<Moments>>>;
    settings: { setting: string; published: string; here: string }[];
  };
}

export const studies = (built as unknown as { studies: StudyData[] }).studies;

/** The models that have runs, in the order of the plan. */
export function modelsOf(study: StudyData): StudyModel[] {
  return study.plan.models.filter(({ name }) => name in study.aggregate);
}

/** The runs of a model, each with its place among all runs. */
export function runsOf(study: StudyData, model: string): { index: number; run: StudyRun }[] {
  return study.runs.map((run, index) => ({ index, run })).filter(({ run }) => run.model === model);
}

/** The most steps that a run took. */
export function longestRun(study: StudyData): number {
  return Math.max(...study.runs.map(({ steps }) => steps));
}

/** Where a seed stands in the results. */
export function seedPath(study: StudyData, seed: number): string {
  return `runs[${study.runs.findIndex((run) => run.seed === seed)}].seed`;
}

/** What names a study's runs on a badge: "own-recipe 0123456789ab, seeds 11, 29, 47". */
export function runName(study: StudyData): string {
  const seeds = [...new Set(study.runs.map(({ seed }) => seed))];
  const noun = seeds.length === 1 ? "seed" : "seeds";
  return `${study.name} ${study.plan_sha256.slice(0, 12)}, ${noun} ${seeds.join(", ")}`;
}

/** Models that differ in their number of heads alone, least first. */
export interface Arm {
  title: string;
  models: { name: string; numHeads: number }[];
}

/** The arms with at least three head counts; none in other studies. */
export function armsOf(study: StudyData): Arm[] {
  const groups = new Map<number | null, Arm["models"]>();
  for (const { name, num_heads, head_dim, pattern = "learned" } of modelsOf(study)) {
    if (!num_heads || pattern !== "learned") continue;
    const width = head_dim ?? null;
    groups.set(width, [...(groups.get(width) ?? []), { name, numHeads: num_heads }]);
  }
  return [...groups]
    .filter(([, models]) => models.length >= 3)
    .map(([width, models]) => ({
      title:
        width === null
          ? `width ${study.plan.protocol.width ?? "fixed"}, split among the heads`
          : `every head ${width} wide`,
      models: models.sort((a, b) => a.numHeads - b.numHeads),
    }));
}

const CONTROLS: Record<string, string> = {
  uniform: "all words have equal weight, fixed",
  shared: "all heads share one pattern",
};

/** Models whose heads have no patterns of their own, with what they are for. */
export function controlsOf(study: StudyData): { name: string; meaning: string }[] {
  return modelsOf(study).flatMap(({ name, pattern = "learned" }) =>
    pattern in CONTROLS ? [{ name, meaning: CONTROLS[pattern] ?? "" }] : [],
  );
}

/** A setting: its name, where it stands in the results, and one value or a list of them. */
export interface Setting {
  name: string;
  path: string;
  values: { path: string; value: unknown }[];
}

/** All settings of a part of the results, tables within tables written out. */
export function settingsOf(settings: Settings, path: string, prefix = ""): Setting[] {
  return Object.entries(settings).flatMap(([key, value]): Setting[] => {
    const [name, own] = [`${prefix}${key}`, `${path}.${key}`];
    if (Array.isArray(value)) {
      const values = value.map((each, at) => ({ path: `${own}[${at}]`, value: each as unknown }));
      return [{ name: name.replaceAll("_", " "), path: own, values }];
    }
    if (value !== null && typeof value === "object")
      return settingsOf(value as Settings, own, `${name}.`);
    return [{ name: name.replaceAll("_", " "), path: own, values: [{ path: own, value }] }];
  });
}

/** The title of each study on the page. */
export const STUDY_TITLES: Record<string, string> = {
  "three-models": "Three models, the published protocol",
  "own-recipe": "The same models with a faster recipe",
  "own-recipe-stories": "The same models on generated stories",
  "head-count": "How many heads?",
};

export interface StudyPlace {
  /** The study that the page is scrolled to; null for its beginning. */
  study: string | null;
}

/** The part of the address after `#study/`: the name of a study; "" for the beginning. */
export function encodeStudy(place: StudyPlace): string {
  return place.study ?? "";
}

/** Read what `encodeStudy` wrote; an unknown name leads to the beginning, nothing throws. */
export function decodeStudy(part: string): StudyPlace {
  return { study: studies.find(({ name }) => name === part)?.name ?? null };
}
