/** Light, dark, or what the system says; remembered where the browser allows it. */

export type Theme = "auto" | "light" | "dark";

const KEY = "manyheads-theme";

export function readTheme(): Theme {
  try {
    const found = localStorage.getItem(KEY);
    return found === "light" || found === "dark" ? found : "auto";
  } catch {
    return "auto";
  }
}

export function applyTheme(theme: Theme): void {
  if (theme === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = theme;
  try {
    if (theme === "auto") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, theme);
  } catch {
    // A browser may refuse storage to a page opened from disk; the theme still holds until it closes.
  }
}
