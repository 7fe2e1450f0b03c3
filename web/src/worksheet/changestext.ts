/** What was changed in a worksheet, in words: for paper, where switches and fields are not. */

import type { Changes } from "../engine/editing";

/** "head 2 off, W_O[0][1] = 1/7"; "" for the worksheet as it is given. */
export function changesText({ edits, isCausal, headsOff, isWide, hasZeroQuery }: Changes): string {
  const said = edits.map(({ place, text }) => `${place} = ${text}`);
  if (isCausal !== null) said.push(isCausal ? "causal mask on" : "causal mask off");
  said.push(...headsOff.map((head) => `head ${head + 1} off`));
  if (isWide) said.push("one wide head");
  if (hasZeroQuery) said.push("zero query");
  return said.join(", ");
}
