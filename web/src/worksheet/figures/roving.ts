/**
 * One stop for the Tab key in each group of numbers; arrow keys move between the numbers of a group, up
 * and down by what is seen. A field that is being typed in keeps left and right for its text.
 */

const ITEMS = "[data-item]";

function visible(item: HTMLElement): boolean {
  return item.getClientRects().length > 0;
}

function itemsOf(group: Element): HTMLElement[] {
  return [...group.querySelectorAll<HTMLElement>(ITEMS)].filter(visible);
}

function centre(item: Element): { x: number; y: number; height: number } {
  const { left, top, width, height } = item.getBoundingClientRect();
  return { x: left + width / 2, y: top + height / 2, height };
}

/** The nearest item in the nearest row above (-1) or below (1). */
function across(items: HTMLElement[], from: HTMLElement, way: -1 | 1): HTMLElement | null {
  const start = centre(from);
  const beyond = items
    .map((item) => ({ item, at: centre(item) }))
    .filter(({ at }) => (at.y - start.y) * way > Math.min(at.height, start.height) / 2);
  const nearest = Math.min(...beyond.map(({ at }) => Math.abs(at.y - start.y)));
  const row = beyond.filter(({ at }) => Math.abs(at.y - start.y) < nearest + at.height / 2);
  row.sort((one, other) => Math.abs(one.at.x - start.x) - Math.abs(other.at.x - start.x));
  return row[0]?.item ?? null;
}

function target(items: HTMLElement[], from: HTMLElement, key: string): HTMLElement | null {
  const at = items.indexOf(from);
  if (key === "ArrowUp") return across(items, from, -1);
  if (key === "ArrowDown") return across(items, from, 1);
  if (key === "ArrowLeft") return items[at - 1] ?? null;
  if (key === "ArrowRight") return items[at + 1] ?? null;
  if (key === "Home") return items[0] ?? null;
  return key === "End" ? (items.at(-1) ?? null) : null;
}

const KEYS = new Set(["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End"]);

function isTyping(item: Element): boolean {
  return item instanceof HTMLInputElement && item.dataset.typing !== undefined;
}

function onkeydown(event: KeyboardEvent, groups: string): void {
  if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
  if (!KEYS.has(event.key) || !(event.target instanceof HTMLElement)) return;
  const from = event.target.closest<HTMLElement>(ITEMS);
  const group = from?.closest(groups);
  if (!from || !group) return;
  if (isTyping(from) && !["ArrowUp", "ArrowDown"].includes(event.key)) return;
  event.preventDefault();
  target(itemsOf(group), from, event.key)?.focus();
}

/** The first item of a group that has no stop becomes its stop. */
function tidy(root: Element, groups: string): void {
  for (const group of root.querySelectorAll(groups)) {
    const items = [...group.querySelectorAll<HTMLElement>(ITEMS)];
    const [stop, ...others] = items.filter(({ tabIndex }) => tabIndex === 0);
    for (const other of others) other.tabIndex = -1;
    if (!stop && items[0]) items[0].tabIndex = 0;
  }
}

function onfocusin(event: FocusEvent, groups: string): void {
  if (!(event.target instanceof HTMLElement) || !event.target.matches(ITEMS)) return;
  const group = event.target.closest(groups);
  for (const item of group?.querySelectorAll<HTMLElement>(ITEMS) ?? []) {
    item.tabIndex = item === event.target ? 0 : -1;
  }
}

/** An attachment for the box that holds the groups; `groups` selects them. */
export function roving(groups: string): (root: HTMLElement) => () => void {
  return (root) => {
    const keydown = (event: KeyboardEvent) => onkeydown(event, groups);
    const focusin = (event: FocusEvent) => onfocusin(event, groups);
    const observer = new MutationObserver(() => tidy(root, groups));
    root.addEventListener("keydown", keydown);
    root.addEventListener("focusin", focusin);
    observer.observe(root, { childList: true, subtree: true });
    tidy(root, groups);
    return () => {
      root.removeEventListener("keydown", keydown);
      root.removeEventListener("focusin", focusin);
      observer.disconnect();
    };
  };
}
