/** What every view is handed. */

import type { LiveSolved } from "../../engine/live";

export interface StepProps {
  solved: LiveSolved;
  /** Counted from 0. */
  head: number;
  receiver: number;
  onpick: (receiver: number) => void;
}
