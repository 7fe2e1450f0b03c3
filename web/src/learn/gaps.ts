/** Which point of a rubric is asked about next. */

/**
 * The first point that is neither covered nor asked about already; null where none is left.
 *
 * @param covered one flag a point
 * @param answers what was answered to the follow-up of each point; null where none was asked
 */
export function firstGap(
  covered: readonly boolean[],
  answers: readonly (string | null)[],
): number | null {
  const at = covered.findIndex(
    (isCovered, point) => !isCovered && (answers[point] ?? null) === null,
  );
  return at < 0 ? null : at;
}
