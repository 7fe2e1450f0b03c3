/** How a position of a sentence is named. */

/** Whether a token only repeats its own place, as in worksheets without words. */
export function isPlainCount(token: string, position: number): boolean {
  return token === String(position + 1);
}
