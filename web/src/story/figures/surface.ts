/** What a figure is drawn on: how much larger than its natural size, and how wide the column is. */

import { createContext } from "svelte";

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
