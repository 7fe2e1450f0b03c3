/** The notebooks that this build of the page contains. */

import built from "../generated/notebooks.json";

export interface Notebook {
  name: string;
  title: string;
  /** Where its file is, from the page. */
  path: string;
  /** Its sections, each with the number of its first cell. */
  sections: { cell: number; title: string }[];
}

export const shipped = built as unknown as { plain: string; notebooks: Notebook[] };
