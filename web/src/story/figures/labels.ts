/** The words in the story's drawings and tables, from a file that a translator can edit. */

import texts from "../text/labels.json";

export const labels = texts;

/** A label with its places filled: `filled("head {head}", { head: 2 })` is "head 2". */
export function filled(label: string, values: Readonly<Record<string, string | number>>): string {
  return label.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`label "${label}" has no {${name}} to fill`);
    return String(value);
  });
}
