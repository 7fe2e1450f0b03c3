/**
 * The exercises that come with the page: the same seeds as `manyheads quiz exercises`, drawn in advance by
 * `manyheads.web.exercises`, one script per kind. A script is loaded when an exercise of its kind is
 * opened; unlike a fetched file it also loads in a page that was opened from disk.
 */

import type { Matrix, Row } from "../../engine/sheet";
import built from "../../generated/exercises.json";
import { decimal, type Num } from "../../numbers/exact";
import { isError, parseNumber } from "../../numbers/parse";

export interface Kind {
  /** As in commands and addresses, such as `weight-row`. */
  readonly name: string;
  readonly title: string;
}

/** All kinds, in the order in which they are learned. */
export const KINDS: readonly Kind[] = built.kinds;
/** The page has the exercises of the seeds 0 to this one. */
export const LAST_SEED = built.seeds - 1;

/** One thing that is given: a named table of exact numbers. */
export interface GivenTable {
  readonly name: string;
  readonly rows: Matrix;
  readonly rowLabels: readonly string[];
  readonly columnLabels: readonly string[];
}

/** A known mistake, and the numbers that it gives. */
export interface Misconception {
  /** Unique in its exercise, such as `scale:model-width` or `forgot-exp`. */
  readonly name: string;
  readonly says: string;
  readonly values: Row;
}

export interface Exercise {
  /** `kind/seed`. */
  readonly id: string;
  readonly kind: string;
  readonly seed: number;
  readonly title: string;
  readonly prompt: string;
  readonly given: readonly GivenTable[];
  /** The name of each number that is asked for. */
  readonly asks: readonly string[];
  readonly answer: Row;
  readonly misconceptions: readonly Misconception[];
  readonly working: readonly string[];
}

/** An exercise as `manyheads quiz exercises --json --with-answers` writes it; numbers are texts. */
export interface ExerciseData {
  readonly id: string;
  readonly kind: string;
  readonly seed: number;
  readonly title: string;
  readonly prompt: string;
  readonly given: readonly {
    readonly name: string;
    readonly rows: readonly (readonly string[])[];
    readonly row_labels: readonly string[];
    readonly column_labels: readonly string[];
  }[];
  readonly asks: readonly string[];
  readonly answer: readonly string[];
  readonly misconceptions: readonly {
    readonly name: string;
    readonly says: string;
    readonly values: readonly string[];
  }[];
  readonly working: readonly string[];
}

/** Where the scripts leave their exercises: by kind, in the order of the seeds. */
const loaded = globalThis as { manyheadsExercises?: Record<string, readonly ExerciseData[]> };

/**
 * Load one exercise.
 *
 * @throws Error the script of its kind is missing or damaged.
 */
export async function loadExercise(kind: string, seed: number): Promise<Exercise> {
  const path = `exercises/${kind}.js`;
  if (!loaded.manyheadsExercises?.[kind]) await runScript(path);
  const found = loaded.manyheadsExercises?.[kind]?.[seed];
  if (!found) throw new Error(`The file ${path} cannot be loaded: reload the page.`);
  return exerciseFrom(found);
}

function runScript(path: string): Promise<void> {
  return new Promise((resolve) => {
    const script = document.createElement("script");
    script.onload = script.onerror = () => {
      script.remove();
      resolve();
    };
    script.src = path;
    document.head.append(script);
  });
}

export function exerciseFrom(data: ExerciseData): Exercise {
  const { given, answer, misconceptions, ...rest } = data;
  return {
    ...rest,
    given: given.map(({ name, rows, row_labels, column_labels }) => ({
      name,
      rows: rows.map((row) => row.map(numberFrom)),
      rowLabels: row_labels,
      columnLabels: column_labels,
    })),
    answer: answer.map(numberFrom),
    misconceptions: misconceptions.map(({ name, says, values }) => ({
      name,
      says,
      values: values.map(numberFrom),
    })),
  };
}

/** A number as the data has it: exact, or `~` and the nearest float64. */
function numberFrom(text: string): Num {
  if (text.startsWith("~")) return decimal({ value: Number(text.slice(1)), low: 0 });
  const number = parseNumber(text);
  if (isError(number)) throw new Error(number.error);
  return number;
}
