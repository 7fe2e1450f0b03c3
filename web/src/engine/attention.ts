/**
 * The page's one engine: solves a sentence of a worksheet, step by step, as exactly as its numbers allow.
 *
 * Fields have the names and axes of `fields.ts`; each is solved when it is first asked for. Numbers are
 * exact where the Python engine's are, and right to the last digit or so of a float64 where they are not.
 */

import {
  add,
  BLOCKED,
  dot,
  exponential,
  isPositive,
  multiply,
  softmax,
  total,
  ZERO,
} from "../numbers/arithmetic";
import type { Num } from "../numbers/exact";
import { axisSize, type Field, fieldsOf } from "./fields";
import { changedSheet, type SolveOptions } from "./interventions";
import {
  type Matrix,
  type Row,
  type Sheet,
  type SheetHead,
  type SheetSequence,
  scaleOf,
  sequenceOf,
  valueDim,
} from "./sheet";

export type { Num } from "../numbers/exact";
export { isError, type NumberError, parseNumber } from "../numbers/parse";
export type { SolveOptions } from "./interventions";
export { editSheet, givenNumber, type Sheet, sheetFromData } from "./sheet";

/** Numbers in rows within rows, an axis a level. */
export type Table = Num | readonly Table[];

export class Solution {
  private readonly solved = new Map<string, Table>();

  constructor(
    /** What was solved, with the options in it: a head that is off has W_V zero. */
    readonly sheet: Sheet,
    readonly sequence: SheetSequence,
  ) {}

  get fields(): readonly Field[] {
    return fieldsOf(this.sheet);
  }

  get tokens(): readonly string[] {
    return this.sequence.tokens;
  }

  has(field: string): boolean {
    return this.fields.some(({ name }) => name === field);
  }

  shape(field: string): number[] {
    const found = this.fields.find(({ name }) => name === field);
    if (!found) throw new Error(`${this.sheet.name} has no ${field}`);
    return [...found.axes].map((axis) => axisSize(this.sheet, this.sequence.name, axis));
  }

  /** A whole field. */
  table(field: string): Table {
    const known = this.solved.get(field);
    if (known !== undefined) return known;
    const rule = SOLVERS[field];
    if (!rule || !this.has(field)) throw new Error(`${this.sheet.name} has no ${field}`);
    const made = rule(this);
    this.solved.set(field, made);
    return made;
  }

  /** One number. */
  get(field: string, ...index: number[]): Num {
    const found = index.reduce<Table | undefined>(
      (table, i) => (Array.isArray(table) ? table[i] : undefined),
      this.table(field),
    );
    if (found === undefined || !("value" in found)) {
      throw new Error(
        `${this.sheet.name}:${this.sequence.name} has no ${field}[${index.join("][")}]`,
      );
    }
    return found;
  }

  /** One row of numbers. */
  row(field: string, ...index: number[]): Row {
    return Array.from({ length: this.shape(field)[index.length] ?? 0 }, (_, i) =>
      this.get(field, ...index, i),
    );
  }

  matrix(field: string): Matrix {
    return this.table(field) as Matrix;
  }

  matrices(field: string): readonly Matrix[] {
    return this.table(field) as readonly Matrix[];
  }
}

/** Whether the mask hides a source from a receiver; both count from 0. */
export function isHidden(sheet: Sheet, receiver: number, source: number): boolean {
  return sheet.isCausal && source > receiver;
}

/** Solve one sentence; an unknown name takes the first. */
export function solve(sheet: Sheet, sequence: string, options: SolveOptions = {}): Solution {
  return new Solution(changedSheet(sheet, options), sequenceOf(sheet, sequence));
}

function columnsOf(matrix: Matrix): Matrix {
  return (matrix[0] ?? []).map((_, i) => matrix.map((row) => row[i] ?? ZERO));
}

function affine(rows: Matrix, weight: Matrix, bias: Row | null): Matrix {
  const columns = columnsOf(weight);
  const products = rows.map((row) => columns.map((column) => dot(row, column)));
  return bias === null ? products : products.map((row) => rowSum(row, bias));
}

function rowSum(left: Row, right: Row): Row {
  return left.map((number, i) => add(number, right[i] ?? ZERO));
}

function mapped(matrix: Matrix, change: (number: Num, row: number, column: number) => Num): Matrix {
  return matrix.map((row, t) => row.map((number, s) => change(number, t, s)));
}

function inputRows({ sheet, sequence }: Solution): Matrix {
  const { sequences, token_embedding: rows, position_embedding: positions } = sheet.given;
  const keys = sequence.tokenKeys;
  if (keys === null) return sequences[sequence.name]?.X ?? [];
  return keys.map((key, t) => {
    const token = rows?.[key] ?? [];
    return positions === null ? token : rowSum(token, positions[t] ?? []);
  });
}

type Projection = "Q" | "K" | "V";

function projected(letter: Projection): (solution: Solution) => Table {
  return (solution) =>
    solution.sheet.given.heads.map((head: SheetHead) =>
      affine(solution.matrix("x"), head[`W_${letter}`], head[`b_${letter}`]),
    );
}

function dots(solution: Solution): Table {
  const keys = solution.matrices("k");
  return solution
    .matrices("q")
    .map((queries, h) => queries.map((q) => (keys[h] ?? []).map((key) => dot(q, key))));
}

function eachHead(field: string, solveHead: (matrix: Matrix, head: number) => Table) {
  return (solution: Solution): Table => solution.matrices(field).map(solveHead);
}

function weightedValues(solution: Solution): Table {
  const values = solution.matrices("v");
  return solution
    .matrices("attn_weights")
    .map((rows, h) =>
      rows.map((row) => row.map((w, s) => (values[h]?.[s] ?? []).map((v) => multiply(w, v)))),
    );
}

function headOutputs(solution: Solution): Table {
  const values = solution.matrices("v");
  return solution.matrices("attn_weights").map((rows, h) => {
    const columns = columnsOf(values[h] ?? []);
    return rows.map((row) => columns.map((column) => dot(row, column)));
  });
}

function concatenated(solution: Solution): Table {
  const outputs = solution.matrices("head_outputs");
  return solution.tokens.map((_, t) => outputs.flatMap((rows) => rows[t] ?? []));
}

function contributions(solution: Solution): Table {
  const width = valueDim(solution.sheet);
  return solution.matrices("head_outputs").map((rows, h) => {
    const block = solution.sheet.given.W_O.slice(h * width, (h + 1) * width);
    return affine(rows, block, null);
  });
}

function layer(source: (solution: Solution) => string, part: "hidden" | "vocab") {
  return (solution: Solution): Table => {
    const { prediction } = solution.sheet.given;
    if (!prediction) return [];
    return affine(
      solution.matrix(source(solution)),
      prediction[`W_${part}`],
      prediction[`b_${part}`],
    );
  };
}

/** The row that the prediction reads. */
export function streamOf(sheet: Sheet): "updated" | "output" {
  return sheet.hasResidual ? "updated" : "output";
}

const SOLVERS: Readonly<Record<string, (solution: Solution) => Table>> = {
  x: inputRows,
  q: projected("Q"),
  k: projected("K"),
  v: projected("V"),
  dots,
  scores: (solution) => {
    const scale = scaleOf(solution.sheet);
    return solution.matrices("dots").map((rows) => mapped(rows, (dot) => multiply(dot, scale)));
  },
  masked_scores: (solution) =>
    solution
      .matrices("scores")
      .map((rows) => mapped(rows, (n, t, s) => (isHidden(solution.sheet, t, s) ? BLOCKED : n))),
  exp_scores: eachHead("masked_scores", (rows) => mapped(rows, exponential)),
  exp_sum: eachHead("exp_scores", (rows) => rows.map(total)),
  attn_weights: eachHead("masked_scores", (rows) => rows.map(softmax)),
  weighted_values: weightedValues,
  head_outputs: headOutputs,
  concat: concatenated,
  output: (solution) => {
    const { W_O, b_O } = solution.sheet.given;
    return affine(solution.matrix("concat"), W_O, b_O);
  },
  head_contributions: contributions,
  updated: (solution) => {
    const output = solution.matrix("output");
    return solution.matrix("x").map((row, t) => rowSum(row, output[t] ?? []));
  },
  hidden_pre: layer(({ sheet }) => streamOf(sheet), "hidden"),
  hidden: (solution) => mapped(solution.matrix("hidden_pre"), (n) => (isPositive(n) ? n : ZERO)),
  logits: layer(() => "hidden", "vocab"),
  probabilities: (solution) => solution.matrix("logits").map(softmax),
};
