/** Long work in short pieces, so that a page that computes can still be used. */

/** Milliseconds of work without a pause on the page's own thread: a third of a frame. */
const BUDGET = 6;

/**
 * Run work to its end, pausing at its `yield`s when the budget is used up.
 *
 * @throws the signal's reason once it is aborted, at the next pause.
 */
export async function inSlices<T>(
  work: Generator<void, T, void>,
  signal?: AbortSignal,
  budget = BUDGET,
): Promise<T> {
  let since = performance.now();
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
    if (performance.now() - since < budget) continue;
    await pause();
    signal?.throwIfAborted();
    since = performance.now();
  }
}

/** Let the page do what waits. */
function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve));
}
