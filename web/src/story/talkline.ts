/**
 * The line between the stage and the presenter's window: plain messages between a window and the one
 * that it opened. It needs no server and no shared origin, so it also works for a page opened from disk.
 */

import { parseStoryPlace } from "./presenter";

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
