/** Where a reader of the story is, and how two windows of one talk stay in step. No framework. */

import { partsOf } from "../app/address";

/** `stage`: frames one by one; `read`: all frames as an article; `presenter`: the second window. */
export type StoryMode = "stage" | "read" | "presenter";

export interface StoryPlace {
  /** Name of a frame; "" is the first one. */
  frame: string;
  /** How many builds of the frame are shown beyond its beginning. */
  build: number;
  /** null: an article on a narrow window, else the stage. */
  mode: StoryMode | null;
}

const MODES: readonly string[] = ["stage", "read", "presenter"];
const FRAME = /^[a-z0-9][a-z0-9-]{0,63}$/;
const BUILD = /^\d{1,2}$/;

/** The parts of an address after `story/`; whatever does not fit is left out. Never throws. */
export function parseStoryPlace(parts: readonly string[]): StoryPlace {
  const [frame = "", build = "", mode = ""] = parts;
  return {
    frame: FRAME.test(frame) ? frame : "",
    build: BUILD.test(build) ? Number(build) : 0,
    mode: MODES.includes(mode) ? (mode as StoryMode) : null,
  };
}

/** Whether a place is the speaker's own window, which has no room for a header. */
export function isPresenter(rest: string): boolean {
  return parseStoryPlace(partsOf(rest)).mode === "presenter";
}

/** `story/two-source/3` or `story/two-source/3/presenter`, without the `#`. */
export function storyPath({ frame, build, mode }: StoryPlace): string {
  if (frame === "" && mode === null) return "story";
  const tail = mode === null ? "" : `/${mode}`;
  return `story/${frame || "start"}/${build}${tail}`;
}

export interface FrameSize {
  id: string;
  builds: number;
}

export interface Stop {
  /** Index of the frame. */
  at: number;
  build: number;
}

/** Where a place is among the frames; what does not exist falls back to the nearest that does. */
export function stopOf(frames: readonly FrameSize[], { frame, build }: StoryPlace): Stop {
  const at = Math.max(
    0,
    frames.findIndex(({ id }) => id === frame),
  );
  return { at, build: Math.max(0, Math.min(build, frames[at]?.builds ?? 0)) };
}

/** One build on, or the next frame; at the end it stays. */
export function forward(frames: readonly FrameSize[], { at, build }: Stop): Stop {
  if (build < (frames[at]?.builds ?? 0)) return { at, build: build + 1 };
  return at + 1 < frames.length ? { at: at + 1, build: 0 } : { at, build };
}

/** One build back, or the frame before with all its builds; at the beginning it stays. */
export function backward(frames: readonly FrameSize[], { at, build }: Stop): Stop {
  if (build > 0) return { at, build: build - 1 };
  return at > 0 ? { at: at - 1, build: frames[at - 1]?.builds ?? 0 } : { at, build };
}

/** 75 seconds are `1:15`; from an hour on `1:02:05`. */
export function clockText(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  const two = (count: number) => String(count).padStart(2, "0");
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  const tail = two(seconds % 60);
  return hours > 0 ? `${hours}:${two(minutes)}:${tail}` : `${minutes}:${tail}`;
}

export type KeyDeed =
  | "forward"
  | "backward"
  | "next-frame"
  | "previous-frame"
  | "first"
  | "last"
  | "overview"
  | "notes"
  | "presenter"
  | "blank"
  | "full"
  | "read"
  | "help";

/** The keyboard map, as it is shown and as it works. */
export const KEYS: readonly { deed: KeyDeed; keys: readonly string[]; says: string }[] = [
  { deed: "forward", keys: ["ArrowRight", " ", "PageDown"], says: "next build or frame" },
  { deed: "backward", keys: ["ArrowLeft", "PageUp"], says: "previous build or frame" },
  { deed: "next-frame", keys: ["ArrowDown"], says: "next frame, builds skipped" },
  { deed: "previous-frame", keys: ["ArrowUp"], says: "previous frame, from its start" },
  { deed: "first", keys: ["Home"], says: "first frame" },
  { deed: "last", keys: ["End"], says: "last frame" },
  { deed: "overview", keys: ["Escape", "o"], says: "overview of all frames" },
  { deed: "notes", keys: ["n"], says: "notes below the stage" },
  { deed: "presenter", keys: ["p"], says: "second window with notes and clock" },
  { deed: "blank", keys: ["b", "."], says: "blank the stage" },
  { deed: "full", keys: ["f"], says: "full screen" },
  { deed: "read", keys: ["r"], says: "read as an article" },
  { deed: "help", keys: ["?"], says: "this list" },
];

export function deedOf(key: string): KeyDeed | null {
  const wanted = key.length === 1 ? key.toLowerCase() : key;
  return KEYS.find(({ keys }) => keys.includes(wanted))?.deed ?? null;
}

const KEY_LABELS: Record<string, string> = {
  " ": "Space",
  ArrowRight: "→",
  ArrowLeft: "←",
  ArrowDown: "↓",
  ArrowUp: "↑",
  Escape: "Esc",
};

export function keyLabel(key: string): string {
  return KEY_LABELS[key] ?? (key.length === 1 ? key.toUpperCase() : key);
}

const MARK = "manyheads-talk";

export interface TalkState {
  frame: string;
  build: number;
  isBlank: boolean;
}

/** hello: the presenter is there; at: where the stage is; go: where the presenter wants it. */
export type TalkMessage = { does: "hello" } | ({ does: "at" | "go" } & TalkState);

/** A message that somebody sent, or null where it is none of ours. */
export function readTalk(data: unknown): TalkMessage | null {
  if (typeof data !== "object" || data === null) return null;
  const { mark, does, frame, build, isBlank } = data as Record<string, unknown>;
  if (mark !== MARK) return null;
  if (does === "hello") return { does };
  if (does !== "at" && does !== "go") return null;
  const place = parseStoryPlace([String(frame), String(build)]);
  return { does, frame: place.frame, build: place.build, isBlank: isBlank === true };
}

export class TalkLine {
  private other: Window | null = null;

  constructor(
    private readonly own: Window,
    private readonly role: "stage" | "presenter",
    private readonly heard: (message: TalkMessage) => void,
  ) {
    if (role === "presenter") this.other = own.opener as Window | null;
    own.addEventListener("message", this.receive);
  }

  /** Open the second window, or bring it to the front; false where the browser refuses. */
  open(address: string): boolean {
    if (this.other && !this.other.closed) {
      this.other.focus();
      return true;
    }
    this.other = this.own.open(address, "manyheads-presenter", "popup,width=1100,height=720");
    return this.other !== null;
  }

  get isConnected(): boolean {
    return this.other !== null && !this.other.closed;
  }

  say(message: TalkMessage): void {
    // Any origin: a page from disk has none. The receiver checks which window spoke.
    if (this.isConnected) this.other?.postMessage({ mark: MARK, ...message }, "*");
  }

  close(): void {
    this.own.removeEventListener("message", this.receive);
  }

  private readonly receive = ({ source, data }: MessageEvent): void => {
    const sender = source as Window | null;
    if (!sender || !this.isPartner(sender)) return;
    const message = readTalk(data);
    if (!message) return;
    if (this.role === "stage") this.other = sender;
    this.heard(message);
  };

  private isPartner(sender: Window): boolean {
    if (this.role === "presenter") return sender === this.own.opener;
    return sender.opener === this.own;
  }
}
