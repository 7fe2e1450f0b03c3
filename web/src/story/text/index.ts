/** The chapters: every Markdown file of this folder, in the order of their names. */

import { parseStory } from "../reading";

const files: Record<string, string> = import.meta.glob("./*.md", {
  eager: true,
  query: "?raw",
  import: "default",
});

export const chapters = parseStory(files);
export const frames = chapters.flatMap((chapter) => chapter.frames);
