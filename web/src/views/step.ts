/** What every view is handed. */

import type { Solved } from "../lib/quantities";

export interface StepProps {
  solved: Solved;
  /** Counted from 0. */
  head: number;
  receiver: number;
  onpick: (receiver: number) => void;
}
