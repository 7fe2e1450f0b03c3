import { describe, expect, it } from "vitest";
import { reviewKey } from "../../src/learn/deck";
import { lineOf, reviewRule, textOf } from "../../src/learn/records";
import { LONGEST_FILE, RecordFile, type Storage } from "../../src/learn/shelf";

const KEY = "manyheads-reviews.jsonl";
const review = (card: string, minute = 0) => ({
  card,
  rating: 3,
  when: `2026-01-05T10:${String(minute).padStart(2, "0")}:00.000Z`,
});

/** A storage in memory with room for so many characters. */
class Box implements Storage {
  readonly held = new Map<string, string>();
  constructor(public room = 100_000) {}
  getItem(key: string) {
    return this.held.get(key) ?? null;
  }
  setItem(key: string, text: string) {
    const others = [...this.held].filter(([name]) => name !== key);
    const used = others.reduce((sum, [, value]) => sum + value.length, 0);
    if (used + text.length > this.room) throw new DOMException("full", "QuotaExceededError");
    this.held.set(key, text);
  }
  removeItem(key: string) {
    this.held.delete(key);
  }
}

const fileIn = (box: Storage | null) =>
  new RecordFile("reviews.jsonl", reviewRule, () => box, reviewKey);
const cards = (file: RecordFile) => file.read().lines.map(({ fields }) => fields.card);

describe("a file in the browser", () => {
  it("keeps records, and another tab's too", () => {
    const box = new Box();
    const [one, other] = [fileIn(box), fileIn(box)];
    one.add(review("a"));
    other.add(review("b", 1));
    expect(one.add(review("c", 2))).toMatchObject({ trouble: null, aside: "" });
    expect(cards(other)).toEqual(["a", "b", "c"]);
    expect(box.held.get(KEY)).toBe(
      textOf([review("a"), review("b", 1), review("c", 2)].map(lineOf)),
    );
  });

  it.each([
    ["garbage", "{{{ \u0000 no JSON", []],
    ["a whole other document", '{"version":1}', []],
    ["half a line at the end", `${lineOf(review("a")).text}\n{"card":"b","ra`, ["a"]],
  ])("sets %s aside and works", (_, stored, left) => {
    const box = new Box();
    box.held.set(KEY, stored);
    const file = fileIn(box);
    expect(cards(file)).toEqual(left);
    file.add(review("new"));
    expect(cards(file)).toEqual([...left, "new"]);
    const { aside, trouble } = file.read();
    expect(trouble).toBeNull();
    expect(stored).toContain(aside.trim());
    expect(aside.trim().length).toBeGreaterThan(5);
    expect(fileIn(box).read().aside).toBe(aside);
    file.forgetAside();
    expect(file.read().aside).toBe("");
  });

  it("leaves damage where it is when there is no room to set it aside", () => {
    const stored = `{"damaged":"${"x".repeat(200)}"}\n${lineOf(review("a")).text}\n`;
    const box = new Box(stored.length + 100);
    box.held.set(KEY, stored);
    const file = fileIn(box);
    expect(cards(file)).toEqual(["a"]);
    file.add(review("b", 1));
    expect(cards(file)).toEqual(["a", "b"]);
    expect(box.held.get(KEY)).toContain(stored);
    expect(file.take(textOf([lineOf(review("c", 2))])).isRefused).toBe(true);
    expect(box.held.get(KEY)).toContain(stored);
  });

  it("holds what does not fit until it is closed, and keeps it once there is room", () => {
    const box = new Box(150);
    const file = fileIn(box);
    file.add(review("a"));
    file.add(review("b", 1));
    const shelf = file.add(review("c", 2));
    expect(cards(file)).toEqual(["a", "b", "c"]);
    expect(shelf.trouble).toContain("full");
    expect(file.text().split("\n").length).toBe(4);
    box.room = 10_000;
    expect(file.add(review("d", 3)).trouble).toBeNull();
    expect(cards(fileIn(box))).toEqual(["a", "b", "c", "d"]);
  });

  it.each([
    ["refused", null],
    [
      "forbidden",
      {
        getItem() {
          throw new DOMException("denied", "SecurityError");
        },
        setItem() {
          throw new DOMException("denied", "SecurityError");
        },
        removeItem() {
          throw new DOMException("denied", "SecurityError");
        },
      },
    ],
  ])("works without storage that is %s, and says so", (_, storage) => {
    const file = fileIn(storage);
    file.add(review("a"));
    expect(cards(file)).toEqual(["a"]);
    expect(file.read().trouble).toContain("keep");
    expect(file.take(textOf([lineOf(review("b", 1))])).isRefused).toBe(false);
    expect(cards(file)).toEqual(["a", "b"]);
  });
});

describe("a file that is brought in", () => {
  it("adds what is new, line by line, and says what was damaged", () => {
    const box = new Box();
    const file = fileIn(box);
    file.add(review("a", 5));
    const text = `${textOf([review("a", 5), review("b", 1)].map(lineOf))}{damaged\n`;
    const { says, isRefused } = file.take(text);
    expect(isRefused).toBe(false);
    expect(says).toContain("1 of 2 records");
    expect(says).toContain("line 3");
    expect(cards(file)).toEqual(["b", "a"]);
    expect(file.take(text).says).toContain("0 of 2 records");
  });

  it.each([
    ["", "empty"],
    ["\n\n", "empty"],
    ["%PDF-1.7\n\u0000\u0001", "line 1 is not JSON"],
    [JSON.stringify({ question: "scale", when: "2026-01-05T10:00:00Z" }), "card"],
    ["x".repeat(LONGEST_FILE + 1), "longer"],
  ])("is refused where it holds nothing: %.20j", (text, why) => {
    const box = new Box();
    const file = fileIn(box);
    file.add(review("a"));
    const before = box.held.get(KEY);
    const { says, isRefused } = file.take(text);
    expect(isRefused).toBe(true);
    expect(says).toContain(why);
    expect(says).toContain("Nothing was changed");
    expect(box.held.get(KEY)).toBe(before);
  });

  it("changes nothing where there is no room for it", () => {
    const box = new Box(200);
    const file = fileIn(box);
    file.add(review("a"));
    const text = textOf(Array.from({ length: 9 }, (_, at) => lineOf(review(`b${at}`, at))));
    expect(file.take(text)).toMatchObject({ isRefused: true });
    expect(cards(file)).toEqual(["a"]);
  });
});
