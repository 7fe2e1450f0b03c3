/** The worksheets, written by Python before the page is built and bundled with it. */

import data from "../generated/worksheets.json";
import type { Catalog } from "./types";

export const catalog = data as unknown as Catalog;
