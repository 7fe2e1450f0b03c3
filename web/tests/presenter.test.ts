import { expect, test, vi } from "vitest";
import {
  backward,
  clockText,
  deedOf,
  forward,
  KEYS,
  parseStoryPlace,
  readTalk,
  stopOf,
  storyPath,
  TalkLine,
  type TalkMessage,
} from "../src/story/presenter";

const FRAMES = [
  { id: "a", builds: 0 },
  { id: "b", builds: 2 },
  { id: "c", builds: 1 },
];

test("a place survives its address", () => {
  for (const place of [
    { frame: "", build: 0, mode: null },
    { frame: "two-source", build: 3, mode: null },
    { frame: "start", build: 0, mode: "read" as const },
    { frame: "bank", build: 12, mode: "presenter" as const },
  ]) {
    expect(parseStoryPlace(storyPath(place).split("/").slice(1))).toEqual(place);
  }
});

test("an address that makes no sense falls back", () => {
  const junk = ["<script>", "-1", "sideways"];
  expect(parseStoryPlace(junk)).toEqual({ frame: "", build: 0, mode: null });
  expect(parseStoryPlace([])).toEqual({ frame: "", build: 0, mode: null });
  expect(parseStoryPlace(["a".repeat(65), "999", "stage"]).frame).toBe("");
});

test("unknown frames and builds take the nearest that exist", () => {
  expect(stopOf(FRAMES, { frame: "zzz", build: 9, mode: null })).toEqual({ at: 0, build: 0 });
  expect(stopOf(FRAMES, { frame: "b", build: 9, mode: null })).toEqual({ at: 1, build: 2 });
});

test("forward visits every build of every frame once, and backward undoes it", () => {
  let stop = { at: 0, build: 0 };
  const visited = [stop];
  for (let step = 0; step < 10; step += 1) {
    const next = forward(FRAMES, stop);
    if (next.at === stop.at && next.build === stop.build) break;
    expect(backward(FRAMES, next)).toEqual(stop);
    visited.push(next);
    stop = next;
  }
  expect(visited.map(({ at, build }) => `${at}${build}`)).toEqual([
    "00",
    "10",
    "11",
    "12",
    "20",
    "21",
  ]);
  expect(backward(FRAMES, { at: 0, build: 0 })).toEqual({ at: 0, build: 0 });
});

test("the clock counts hours only when there are some", () => {
  expect([0, 75_000, 3_725_000, -5].map(clockText)).toEqual(["0:00", "1:15", "1:02:05", "0:00"]);
});

test("no key has two meanings, and case does not matter", () => {
  const keys = KEYS.flatMap(({ keys }) => keys);
  expect(new Set(keys).size).toBe(keys.length);
  expect([deedOf("O"), deedOf("Escape"), deedOf("x")]).toEqual(["overview", "overview", null]);
});

test("messages that are none of ours are not read", () => {
  const mark = "manyheads-talk";
  const wrong = [null, "go", { does: "go" }, { mark, does: "jump" }, { mark: "x", does: "hello" }];
  for (const message of wrong) expect(readTalk(message)).toBeNull();
  expect(readTalk({ mark, does: "go", frame: "<b>", build: "1e9", isBlank: 1 })).toEqual({
    does: "go",
    frame: "",
    build: 0,
    isBlank: false,
  });
});

/** A window as far as the line needs one. */
class FakeWindow extends EventTarget {
  opener: FakeWindow | null = null;
  closed = false;
  sender: FakeWindow | null = null;
  focus = vi.fn();
  open = vi.fn(() => null as FakeWindow | null);

  postMessage(data: unknown) {
    const event = Object.assign(new Event("message"), { data, source: this.sender });
    this.dispatchEvent(event);
  }
}

function lineOf(own: FakeWindow, role: "stage" | "presenter") {
  const heard: TalkMessage[] = [];
  const line = new TalkLine(own as unknown as Window, role, (message) => heard.push(message));
  return { line, heard };
}

test("stage and presenter hear each other, and nobody else", () => {
  const stage = new FakeWindow();
  const presenter = new FakeWindow();
  const stranger = new FakeWindow();
  presenter.opener = stage;
  [stage.sender, presenter.sender] = [presenter, stage];
  const a = lineOf(stage, "stage");
  const b = lineOf(presenter, "presenter");

  b.line.say({ does: "hello" });
  expect(a.heard).toEqual([{ does: "hello" }]);
  a.line.say({ does: "at", frame: "bank", build: 1, isBlank: true });
  expect(b.heard).toEqual([{ does: "at", frame: "bank", build: 1, isBlank: true }]);

  stage.sender = stranger;
  presenter.sender = stranger;
  stage.postMessage({ mark: "manyheads-talk", does: "hello" });
  presenter.postMessage({ mark: "manyheads-talk", does: "at", frame: "x", build: 0 });
  expect([a.heard.length, b.heard.length]).toEqual([1, 1]);

  a.line.close();
  stage.sender = presenter;
  b.line.say({ does: "hello" });
  expect(a.heard).toHaveLength(1);
});

test("the second window opens once, comes to the front later, and may be refused", () => {
  const stage = new FakeWindow();
  const { line } = lineOf(stage, "stage");
  expect(line.open("#x")).toBe(false);
  const other = new FakeWindow();
  stage.open.mockReturnValue(other);
  expect(line.open("#x")).toBe(true);
  expect(line.open("#x")).toBe(true);
  expect(stage.open).toHaveBeenCalledTimes(2);
  expect(other.focus).toHaveBeenCalledOnce();
  other.closed = true;
  expect(line.isConnected).toBe(false);
});
