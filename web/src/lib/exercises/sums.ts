/** Short exact sums for the ways to go wrong; the right answers come from the worksheet engine. */

import type { Matrix, Row } from "../../engine/sheet";
import { add, dot, MINUS_ONE, multiply, reciprocal, total } from "../../numbers/arithmetic";
import { type Num, ratio } from "../../numbers/exact";
import { fraction } from "../../numbers/fraction";

/** An entry that is known to be there. */
export function at<T>(list: readonly T[], index: number): T {
  const found = list[index];
  if (found === undefined) throw new Error(`no entry ${index} among ${list.length}`);
  return found;
}

export function part(num: number, den: number): Num {
  return ratio(fraction(num, den));
}

export function transposed(matrix: Matrix): Matrix {
  return at(matrix, 0).map((_, i) => matrix.map((row) => at(row, i)));
}

/** A row of weights times a matrix: the weighted sum of its rows. */
export function mixed(weights: Row, rows: Matrix): Row {
  return transposed(rows).map((column) => dot(weights, column));
}

export function times(numbers: Row, factor: Num): Row {
  return numbers.map((number) => multiply(number, factor));
}

export function plus(left: Row, right: Row): Row {
  return left.map((number, i) => add(number, at(right, i)));
}

/** One row less another. */
export function less(left: Row, right: Row): Row {
  return plus(left, times(right, MINUS_ONE));
}

/** Each number divided by their sum, which is not zero. */
export function shares(numbers: Row): Row {
  return times(numbers, reciprocal(total(numbers)));
}

/** The plain mean of rows. */
export function mean(rows: Matrix): Row {
  const share = part(1, rows.length);
  return mixed(
    rows.map(() => share),
    rows,
  );
}

/** Numbers without their signs. */
export function sizes(numbers: Row): Row {
  return numbers.map((number) => (number.value < 0 ? multiply(number, MINUS_ONE) : number));
}

/** Some numbers of a row, by places counted from 0. */
export function picked(row: Row, places: readonly number[]): Row {
  return places.map((place) => at(row, place));
}

/** Whole numbers from `from` up to, not including, `to`. */
export function range(from: number, to: number, step = 1): number[] {
  const found: number[] = [];
  for (let i = from; i < to; i += step) found.push(i);
  return found;
}
