/** What a figure is drawn on: how much larger than its natural size, and how wide the column is. */

import { createContext } from "svelte";
import texts from "../text/labels.json";

export interface Surface {
  /** 1 in the article; on the stage as the frame asks. */
  readonly zoom: number;
  /** Whether the column is too narrow for a drawing that lies down. */
  readonly isNarrow: boolean;
}

export const [getSurface, setSurface] = createContext<Surface>();

/** What every figure of the story is handed. */
export interface FigureProps {
  options: Record<string, string>;
  /** How many of the figure's own builds are shown; all of them in the article. */
  step: number;
  /** How many builds it has; 0 where everything is shown at once. */
  builds: number;
  /** Whether the same numbers are wanted as a table. */
  isTable: boolean;
}

/** The words of the figures, which can be translated without touching code. */
export const labels = texts;

/** A label with its places filled: `filled("head {head}", { head: 2 })` is "head 2". */
export function filled(label: string, values: Readonly<Record<string, string | number>>): string {
  return label.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`label "${label}" has no {${name}} to fill`);
    return String(value);
  });
}
