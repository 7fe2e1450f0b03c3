/** How the page looks to this reader: light or dark, and how wide text runs; remembered if allowed. */

export const THEMES = ["auto", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

export const WIDTHS = ["narrow", "normal", "wide"] as const;
export type ReadingWidth = (typeof WIDTHS)[number];

const THEME_KEY = "manyheads-theme";
const WIDTH_KEY = "manyheads-width";

export function readTheme(): Theme {
  return THEMES.find((theme) => theme === recall(THEME_KEY)) ?? "auto";
}

export function readWidth(): ReadingWidth {
  return WIDTHS.find((width) => width === recall(WIDTH_KEY)) ?? "normal";
}

/** "auto" follows the system. */
export function applyTheme(theme: Theme): void {
  if (theme === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = theme;
  remember(THEME_KEY, theme === "auto" ? null : theme);
}

/** The style sheet reads it as `--measure`, the width of a line of running text. */
export function applyWidth(width: ReadingWidth): void {
  document.documentElement.dataset.width = width;
  remember(WIDTH_KEY, width === "normal" ? null : width);
}

function recall(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function remember(key: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(key);
    else localStorage.setItem(key, value);
  } catch {
    // A browser may refuse storage to a page opened from disk; the choice still holds until it closes.
  }
}
