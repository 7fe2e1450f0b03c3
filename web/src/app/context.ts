/** What every figure may ask without being told: how numbers are written, and what is pointed at. */

import { createContext } from "svelte";
import type { NumberMode } from "../engine/types";

export interface Reading {
  readonly numbers: NumberMode;
  /** The source position under the pointer or the focus, counted from 0; null for none. */
  readonly pointed: number | null;
}

export const [getReading, setReading] = createContext<Reading>();
