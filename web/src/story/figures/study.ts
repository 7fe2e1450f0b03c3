/** The measured study, where the page was built with its results. */

import type { Quantity } from "../../engine/types";

interface Run {
  model: string;
  seed: number;
  parameters: number;
  test_loss: number | null;
}

interface Pair {
  model_a: string;
  model_b: string;
  metric: string;
  mean: number | null;
  t_interval: [number, number] | null;
  n: number;
  level: number;
}

interface Study {
  name: string;
  plan_sha256?: string;
  runs: Run[];
  aggregate: Record<string, Record<string, { mean: number | null; sd: number | null }>>;
  paired: Pair[];
}

const files: Record<string, { studies: Study[] }> = import.meta.glob("../../generated/study.json", {
  eager: true,
  import: "default",
});
const studies = Object.values(files).flatMap(({ studies }) => studies);
/** The recipe of the models that the page runs; else the published protocol. */
const study = ["own-recipe", "three-models"]
  .map((plan) => studies.find(({ name }) => name === plan))
  .find((found) => found !== undefined);

export const isMeasured = study !== undefined;

/** `own-recipe`, the plan that was run; "" where none was. */
export const planName = study?.name ?? "";

/** The run as a badge names it: its plan, and the beginning of that plan's hash. */
export const runName = `${planName} ${(study?.plan_sha256 ?? "").slice(0, 8)}`.trim();

/** A number of the study, named by its path in the results of its plan. */
function measured(path: string, value: number): Quantity {
  return { name: `${planName}:${path}`, value, exact: null };
}

function pairIndex(a: string, b: string): number {
  const isWanted = ({ model_a, model_b, metric }: Pair) =>
    model_a === a && model_b === b && metric === "test_loss";
  return study?.paired.findIndex(isWanted) ?? -1;
}

export interface ModelLosses {
  model: string;
  mean: Quantity;
  runs: { seed: number; loss: Quantity }[];
}

/** Test loss of every run, model by model, in the order of the plan. */
export function losses(): ModelLosses[] {
  const runs = (study?.runs ?? []).map((run, index) => ({ ...run, index }));
  return Object.keys(study?.aggregate ?? {}).flatMap((model) => {
    const mean = study?.aggregate[model]?.test_loss?.mean ?? null;
    if (mean === null) return [];
    return [
      {
        model,
        mean: measured(`aggregate.${model}.test_loss.mean`, mean),
        runs: runs.flatMap(({ model: own, seed, test_loss: loss, index }) =>
          own === model && loss !== null
            ? [{ seed, loss: measured(`runs[${index}].test_loss`, loss) }]
            : [],
        ),
      },
    ];
  });
}

export interface Difference {
  title: string;
  mean: Quantity;
  from: Quantity;
  to: Quantity;
  seeds: number;
}

/** Mean paired differences of test loss with their t intervals. */
export function differences(): Difference[] {
  return (study?.paired ?? []).flatMap((pair, index) => {
    const { model_a: a, model_b: b, metric, mean, t_interval, n } = pair;
    if (metric !== "test_loss" || mean === null || t_interval === null) return [];
    const name = `paired[${index}]`;
    return [
      {
        title: `${a} − ${b}`,
        mean: measured(`${name}.mean`, mean),
        from: measured(`${name}.t_interval[0]`, t_interval[0]),
        to: measured(`${name}.t_interval[1]`, t_interval[1]),
        seeds: n,
      },
    ];
  });
}

/** Parameters, loss, perplexity and seconds of each model, in the order of the plan. */
export function results(): { model: string; cells: (Quantity | null)[] }[] {
  return losses().map(({ model }) => ({
    model,
    cells: [
      studyNumber(`study:parameters.${model}`),
      ...["test_loss", "test_perplexity", "seconds"].map((metric) =>
        studyNumber(`study:aggregate.${model}.${metric}.mean`),
      ),
    ],
  }));
}

const PARAMETERS = /^study:parameters\.([a-z0-9-]+)$/;
const PAIRED = /^study:paired\.([a-z0-9-]+)\.([a-z0-9-]+)\.(?:mean|t_interval\[([01])\])$/;
const AGGREGATE = /^study:aggregate\.([a-z0-9-]+)\.([a-z_]+)\.(mean|sd)$/;

/**
 * A measured number as the text asks for it: `study:paired.four-heads.one-head.mean`, whatever place
 * that pair has in the results. null where it was not measured.
 */
export function studyNumber(name: string): Quantity | null {
  const counted = PARAMETERS.exec(name)?.[1];
  if (counted !== undefined) return parametersOf(counted);
  const found = PAIRED.exec(name);
  if (found) return pairNumber(found[1] ?? "", found[2] ?? "", found[3]);
  const [, model = "", metric = "", statistic] = AGGREGATE.exec(name) ?? [];
  const value = study?.aggregate[model]?.[metric]?.[statistic as "mean" | "sd"] ?? null;
  return value === null ? null : measured(`aggregate.${model}.${metric}.${statistic}`, value);
}

/** The number of parameters of a model: all its runs have the same. */
function parametersOf(model: string): Quantity | null {
  const index = study?.runs.findIndex((run) => run.model === model) ?? -1;
  const count = study?.runs[index]?.parameters;
  return count === undefined ? null : measured(`runs[${index}].parameters`, count);
}

function pairNumber(a: string, b: string, end: string | undefined): Quantity | null {
  const index = pairIndex(a, b);
  const pair = study?.paired[index];
  const value = (end === undefined ? pair?.mean : pair?.t_interval?.[Number(end)]) ?? null;
  if (value === null) return null;
  const path = end === undefined ? "mean" : `t_interval[${end}]`;
  return measured(`paired[${index}].${path}`, value);
}

/** Whether a name is of the kind that only a study can fill. */
export function isStudyName(name: string): boolean {
  return PAIRED.test(name) || AGGREGATE.test(name) || PARAMETERS.test(name);
}
