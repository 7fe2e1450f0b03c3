/** The rules that the terminal follows too: chance, choice, hashes, 16-bit numbers, whole texts. */
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { generate } from "../../src/models/engine/generate";
import { fromBfloat16, fromFloat16 } from "../../src/models/engine/safetensors";
import {
  bestWords,
  chooseWord,
  logSumExp,
  PCG32,
  probabilityOf,
  samplingFrom,
  seedFrom,
} from "../../src/models/engine/sampling";
import { plainSha256, sha256 } from "../../src/models/engine/sha256";
import { inSlices } from "../../src/models/engine/slices";
import { caseFolded, splitWords, Tokenizer } from "../../src/models/engine/tokenizer";
import type { Step } from "../../src/models/engine/types";
import { readJson } from "./fixtures";

const PYTHON_TESTS = resolve(import.meta.dirname, "../../../tests/models");

describe("PCG32", () => {
  it("draws the numbers of the reference", () => {
    const { cases } = readJson<{ cases: { seed: string; u32: number[] }[] }>(
      join(PYTHON_TESTS, "pcg32.json"),
    );
    for (const { seed, u32 } of cases) {
      const draws = new PCG32(seed);
      expect(u32.map(() => draws.nextU32())).toEqual(u32);
    }
    expect(new PCG32(42).uniform()).toBe(0xa15c02b7 / 2 ** 32);
  });

  it.each([-1, 1.5, 2 ** 53, "1e3", "", "18446744073709551616"])("refuses seed %s", (seed) => {
    expect(() => seedFrom(seed)).toThrow(`seed (${seed}) must be between 0 and 2**64 - 1`);
  });
});

describe("choice", () => {
  it("follows the terminal's rule on every case of its fixture", () => {
    interface Case {
      temperature: number;
      top_k: number | null;
      seed: string;
      logits: number[];
      words: number[];
    }
    const { cases } = readJson<{ cases: Case[] }>(join(PYTHON_TESTS, "sampling.json"));
    for (const { temperature, top_k: topK, seed, logits, words } of cases) {
      const sampling = samplingFrom({ temperature, topK, seed }, logits.length);
      const draws = new PCG32(sampling.seed);
      expect(words.map(() => chooseWord(logits, sampling, draws))).toEqual(words);
    }
    expect(cases.length).toBeGreaterThan(3);
  });

  it("never takes ids beyond the vocabulary", () => {
    const sampling = samplingFrom({ temperature: 0 }, 6);
    expect(chooseWord([0, 0, 0, 0, 1, 0, 9, 9], sampling, new PCG32(0), 6)).toBe(4);
  });

  it("puts equal words in the order of their ids", () => {
    expect(bestWords([1, 3, 2, 3, 2, 2], 4)).toEqual([1, 3, 2, 4]);
  });

  it("finds the words that sorting all of them finds, however many are asked for", () => {
    const draws = new PCG32(7);
    for (let round = 0; round < 200; round++) {
      const length = 1 + (draws.nextU32() % 60);
      // Few different scores, so that many are equal; some are minus infinity.
      const scores = Array.from({ length }, () => {
        const drawn = draws.nextU32() % 12;
        return drawn === 0 ? -Infinity : drawn - 6;
      });
      const ids = scores.map((_, id) => id);
      ids.sort((a, b) =>
        scores[a] === scores[b] ? a - b : (scores[b] ?? 0) > (scores[a] ?? 0) ? 1 : -1,
      );
      for (const count of [1, 2, 5, length - 1, length, length + 3])
        expect(bestWords(scores, count)).toEqual(ids.slice(0, Math.max(0, count)));
    }
  });

  it("gives the softmax over all words, however large the logits", () => {
    expect(probabilityOf([0, 900, 900], 1)).toBeCloseTo(0.5, 12);
    expect(logSumExp([1000, 1000])).toBeCloseTo(1000 + Math.log(2), 10);
  });

  it.each([
    [{ temperature: -1 }, "temperature (-1)"],
    [{ temperature: Number.NaN }, "temperature (NaN)"],
    [{ topK: 0 }, "top-k (0)"],
    [{ topK: 5 }, "top-k (5) must be a whole number from 1 to 4"],
    [{ topK: 1.5 }, "top-k (1.5)"],
  ])("refuses %o", (settings, said) => {
    expect(() => samplingFrom(settings, 7)).toThrow(said);
  });

  it("refuses a logit that is no number", () => {
    const sampling = samplingFrom({}, 7);
    const logits = [0, 0, 0, 0, 0, Number.NaN, 0];
    expect(() => chooseWord(logits, sampling, new PCG32(0))).toThrow("word 5");
  });
});

describe("hashes", () => {
  // FIPS 180-4's own examples, and lengths around the ends of a block.
  const known: [string, string][] = [
    ["", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"],
    ["abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"],
    [
      "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
    ],
    ["a".repeat(1_000_000), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"],
  ];

  it("are those of the standard", async () => {
    for (const [text, digest] of known) {
      const bytes = new TextEncoder().encode(text);
      expect(await inSlices(plainSha256(bytes))).toBe(digest);
      expect(await sha256(bytes)).toBe(digest);
    }
  });

  it("agree with the browser's at every length around a block", async () => {
    for (let length = 50; length < 140; length++) {
      const bytes = Uint8Array.from({ length }, (_, i) => (i * 37 + length) & 255);
      expect(await inSlices(plainSha256(bytes))).toBe(await sha256(bytes));
    }
  });
});

describe("numbers of 16 bits", () => {
  it("are read as IEEE 754 has them, all 65,536", () => {
    const halves = Uint16Array.from({ length: 65536 }, (_, bits) => bits);
    const found = new Float32Array(65536);
    fromFloat16(halves, found);
    const wrong = [...halves].filter((bits) => !Object.is(found[bits], byDefinition(bits)));
    expect(wrong).toEqual([]);
    expect([found[0x3c00], found[0xc000], found[1], found[0x7bff]]).toEqual([
      1,
      -2,
      2 ** -24,
      65504,
    ]);
  });

  it("are the upper half of a float32 in bfloat16", () => {
    const found = new Float32Array(3);
    fromBfloat16(Uint16Array.of(0x3f80, 0xc040, 0x7f80), found);
    expect([...found]).toEqual([1, -3, Infinity]);
  });
});

/** sign * 2 ** (exponent - 15) * 1.fraction, and the exceptions. */
function byDefinition(bits: number): number {
  const sign = bits >> 15 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? Number.NaN : sign * Infinity;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * 2 ** (exponent - 15) * (1 + fraction / 1024);
}

describe("texts", () => {
  it("have no upper or lower case where they are folded", () => {
    for (const [a, b] of [
      ["Straße", "STRASSE"],
      ["ΟΔΟΣ", "οδος"],
      ["ﬁn", "FIN"],
      ["ẞ", "ss"],
    ])
      expect(caseFolded(a as string)).toBe(caseFolded(b as string));
    expect(caseFolded("ı")).not.toBe(caseFolded("i"));
  });

  it("with half a character are refused", () => {
    expect(() => splitWords("a\ud800b")).toThrow("whole characters");
    expect(splitWords("a\u{1f600}b")).toEqual(["a", "\u{1f600}", "b"]);
  });

  it("keep unknown words as typed", () => {
    const tokenizer = new Tokenizer(["[PAD]", "[BOS]", "[EOS]", "[UNK]", "the", "cat"]);
    expect(tokenizer.read("The zebra")).toEqual([
      { id: 1, word: "[BOS]", piece: "", isUnknown: false },
      { id: 4, word: "the", piece: "the", isUnknown: false },
      { id: 3, word: "zebra", piece: " zebra", isUnknown: true },
    ]);
    expect(() => new Tokenizer(["the"])).toThrow("must begin with [PAD]");
  });
});

describe("stories", () => {
  const tokenizer = new Tokenizer(["[PAD]", "[BOS]", "[EOS]", "[UNK]", "a", "b"]);
  const flat = async () => new Float32Array(6);

  async function ids(settings: object, signal?: AbortSignal): Promise<number[]> {
    const steps: Step[] = [];
    for await (const step of generate(flat, tokenizer, 3, "a b a b", settings, signal))
      steps.push(step);
    return steps.map(({ id }) => id);
  }

  it.each([
    [{ maxTokens: 0 }, "length (0)"],
    [{ maxTokens: 100_001 }, "length (100001)"],
    [{ stop: "  " }, "stop must not be empty"],
  ])("refuse %o", async (settings, said) => {
    await expect(ids(settings)).rejects.toThrow(said);
  });

  it("see a window of the last words", async () => {
    const seen: number[][] = [];
    const ask = async (window: readonly number[]) => {
      seen.push([...window]);
      return Float32Array.of(0, 0, -9, 0, 1, 0);
    };
    for await (const _ of generate(ask, tokenizer, 3, "b", { temperature: 0, maxTokens: 3 }));
    expect(seen).toEqual([
      [1, 5],
      [1, 5, 4],
      [5, 4, 4],
    ]);
  });

  it("end when they are cancelled, also between asking and answer", async () => {
    const control = new AbortController();
    const ask = async () => {
      control.abort();
      return new Float32Array(6);
    };
    const steps: Step[] = [];
    for await (const step of generate(ask, tokenizer, 3, "", {}, control.signal)) steps.push(step);
    expect(steps).toEqual([]);
  });
});
