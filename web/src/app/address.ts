/**
 * Which view the reader is in, to and from the fragment of the address; the rest is the view's own.
 *
 * `#worksheet/three-heads/main/dots?head=2` is the view `worksheet` with the rest after the slash.
 * Nothing here throws.
 */

export interface Address {
  view: string;
  /** What follows `#view/`, as it is written; "" for the beginning of the view. */
  rest: string;
}

const LONGEST = 100_000;

/** How a view writes its place: a new entry of the history, or a change of the present one. */
export type Move = (rest: string, how: "push" | "replace") => void;

/** What the shell gives to every view; the view reads its place from `rest` and asks for another. */
export interface ViewProps {
  rest: string;
  move: Move;
}

/** Read a fragment; one that names none of the views leads to the first of them. */
export function parseAddress(fragment: string, names: readonly string[]): Address {
  const text = fragment.replace(/^#/, "").slice(0, LONGEST);
  const earlier = earlierAddress(text);
  if (earlier) return earlier;
  const [, name = "", rest = ""] = /^([^/?]*)[/?]?([\s\S]*)$/.exec(text) ?? [];
  return names.includes(name) ? { view: name, rest } : { view: names[0] ?? "", rest: "" };
}

export function formatAddress({ view, rest }: Address): string {
  return rest === "" ? `#${view}` : `#${view}/${rest}`;
}

/** The parts of a rest between slashes, decoded; a part that cannot be decoded stays as it is. */
export function partsOf(rest: string): string[] {
  return rest.split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
}

/** An address of the page before it had views: `#worksheet=two-routes&step=dots&head=2`. */
function earlierAddress(text: string): Address | null {
  if (!/^(?:worksheet|sequence|step|head|receiver|numbers)=/.test(text)) return null;
  const params = new URLSearchParams(text);
  const written = (name: string) => encodeURIComponent(params.get(name) ?? "");
  const path = ["worksheet", "sequence", "step"].map(written).join("/");
  const query = ["head", "receiver", "numbers"]
    .filter((name) => params.has(name))
    .map((name) => `${name}=${written(name)}`);
  return { view: "worksheet", rest: query.length > 0 ? `${path}?${query.join("&")}` : path };
}

/** Milliseconds between two writes of one address; browsers refuse too many in a row. */
const PAUSE = 300;

/** Writes the address: a new entry of the history at once, a changed one at most every 300 ms. */
export class AddressBar {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private waiting: string | null = null;

  constructor(private readonly history: Pick<History, "pushState" | "replaceState">) {}

  push(fragment: string): void {
    this.flush();
    this.history.pushState(null, "", fragment);
  }

  replace(fragment: string): void {
    if (this.timer !== undefined) {
      this.waiting = fragment;
      return;
    }
    this.history.replaceState(null, "", fragment);
    this.timer = setTimeout(() => this.flush(), PAUSE);
  }

  /** Write what waits. */
  flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (this.waiting !== null) this.history.replaceState(null, "", this.waiting);
    this.waiting = null;
  }

  /** Forget what waits: the reader has gone elsewhere. */
  drop(): void {
    this.waiting = null;
    this.flush();
  }
}
