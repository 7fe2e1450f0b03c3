/** What numbers on a living worksheet may ask of it; other pages have no desk, and numbers stay text. */

import { getContext, hasContext, setContext } from "svelte";

export interface Desk {
  /** Name of the number whose explanation is open, with its worksheet; null for none. */
  readonly asked: string | null;
  /** Whether the original values are shown next to changed ones. */
  readonly showsFormer: boolean;
  /** Open the explanation of a number; by keyboard, the focus goes there. */
  explain(name: string, from: Element, isByKeyboard: boolean): void;
  /** Change a given number; if that fails, return the reason and keep the last valid state. */
  edit(place: string, text: string): string | null;
  /** The number is typed: the next edit is a step of its own to undo. */
  settle(): void;
  /** Bring places back to what the worksheet gives. */
  reset(places: readonly string[]): void;
  /** Whether the number at a place is another than the worksheet gives. */
  isEdited(place: string): boolean;
  /** The text of the field while it is typed. */
  typed(place: string): string;
  /** What a given number is, for readers. */
  label(place: string): string;
  /** Read out by screen readers. */
  say(text: string): void;
}

const KEY = Symbol("desk");

export function setDesk(desk: Desk): void {
  setContext(KEY, desk);
}

/** The desk of a figure, or null. */
export function findDesk(): Desk | null {
  return hasContext(KEY) ? getContext<Desk>(KEY) : null;
}
