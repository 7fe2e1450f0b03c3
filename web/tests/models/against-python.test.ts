/** The engine of the page against PyTorch and the terminal's own words. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { lossesOf, modelFrom } from "../../src/models/engine/engine";
import type { LanguageModel } from "../../src/models/engine/language-model";
import { open } from "../../src/models/engine/open";
import { readModelFile } from "../../src/models/engine/safetensors";
import { splitWords, Tokenizer } from "../../src/models/engine/tokenizer";
import type { GenerateSettings, ModelIndex } from "../../src/models/engine/types";
import {
  type Expected,
  gap,
  indexOf,
  loaderOf,
  readJson,
  removeFixtures,
  type Story,
  setsIn,
  type TokenizerCases,
  unpacked,
  writeFixtures,
} from "./fixtures";

const ALLOWED = 1e-4;
let folder = "";

beforeAll(() => {
  folder = process.env.MANYHEADS_MODEL_FIXTURES ?? writeFixtures();
}, 600_000);
afterAll(() => {
  if (!process.env.MANYHEADS_MODEL_FIXTURES) removeFixtures(folder);
});

/** Every model of every set with what is expected of it. */
function* cases(): Generator<{ set: string; index: ModelIndex; name: string; expected: Expected }> {
  for (const name of setsIn(folder)) {
    const set = join(folder, name);
    const index = indexOf(set);
    const all = readJson<Record<string, Expected>>(set, "expected.json");
    for (const { name: model } of index.models)
      yield { set, index, name: model, expected: all[model] as Expected };
  }
}

function modelOf(set: string, name: string): LanguageModel {
  const bytes = new Uint8Array(readFileSync(join(set, `models/${name}.safetensors`)));
  return modelFrom(toEnd(readModelFile(bytes)));
}

function toEnd<T>(work: Generator<void, T, void>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
}

async function all<T>(from: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of from) found.push(one);
  return found;
}

describe("models", { timeout: 300_000 }, () => {
  it("are those that the folder holds, the one without heads first", () => {
    const names = indexOf(join(folder, "made-up")).models.map(({ name }) => name);
    expect(names).toEqual(["mlp", "one-head", "uniform", "shared", "uneven", "four-heads"]);
  });

  it("agree with PyTorch on every logit of every window", () => {
    let compared = 0;
    for (const { set, name, expected } of cases()) {
      const model = modelOf(set, name);
      for (const { ids, logits } of expected.answers) {
        const wanted = unpacked(logits);
        expect(gap(model.logits(ids), wanted), `${name}, ${ids.length} words`).toBeLessThan(
          ALLOWED,
        );
        compared += wanted.length;
      }
    }
    expect(compared).toBeGreaterThanOrEqual(6 * 5 * 4000);
  });

  it("see the last words of a longer text", () => {
    const { ids, logits } = modelAnswers("four-heads").at(-1) as { ids: number[]; logits: string };
    const found = modelOf(join(folder, "made-up"), "four-heads").logits([9, 8, 7, ...ids]);
    expect(gap(found, unpacked(logits))).toBeLessThan(ALLOWED);
  });

  it("agree on all grids, and rows add up to one", () => {
    let compared = 0;
    for (const { set, name, expected } of cases()) {
      const model = modelOf(set, name);
      for (const { ids, grids } of expected.answers) {
        if (!grids) continue;
        const { ownWeights, weights, numHeads, size } = model.grids(ids);
        expect(gap(ownWeights, unpacked(grids)), name).toBeLessThan(1e-5);
        expect(weights).toEqual(ownWeights);
        for (let row = 0; row < numHeads * size; row++) {
          const sum = weights.slice(row * size, (row + 1) * size).reduce((a, b) => a + b, 0);
          expect(sum).toBeCloseTo(1, 5);
        }
        compared++;
      }
    }
    expect(compared).toBeGreaterThanOrEqual(25);
  });

  it("agree with heads off, uniform, or with another head's weights", () => {
    let changed = 0;
    for (const { set, name, expected } of cases()) {
      const model = modelOf(set, name);
      for (const { ids, switched = [], logits } of expected.answers)
        for (const { heads, logits: wanted } of switched) {
          const found = model.logits(ids, heads);
          expect(gap(found, unpacked(wanted)), `${name} ${heads}`).toBeLessThan(ALLOWED);
          if (gap(found, unpacked(logits)) > 100 * ALLOWED) changed++;
        }
    }
    expect(changed).toBeGreaterThan(50);
  });

  it("agree on the loss of a text longer than the window, in nats", () => {
    for (const { set, name, expected } of cases()) {
      const { ids, nats } = expected.losses;
      const found = toEnd(lossesOf(modelOf(set, name), ids));
      expect(gap(found, nats), name).toBeLessThan(ALLOWED);
    }
  });

  it("tell the terminal's stories, word for word", async () => {
    const endings = new Set<string>();
    for (const { set, index, name, expected } of cases()) {
      const surroundings = { index, makeWorker: null, load: loaderOf(set) };
      const host = await open(name, surroundings, {});
      for (const story of expected.stories) {
        const steps = await all(host.generate(story.prompt, settingsOf(story)));
        expect(steps.map(({ piece }) => piece).join(""), name).toBe(story.text);
        expect(steps.map(({ id }) => id)).toEqual(story.ids);
        expect(
          gap(
            steps.map(({ probability }) => probability),
            story.probabilities,
          ),
        ).toBeLessThan(1e-5);
        expect(steps.at(-1)?.context).toEqual(story.context);
        expect(steps.at(-1)?.endedBy).toBe(story.ended_by);
        endings.add(story.ended_by);
      }
      host.close();
    }
    expect(endings).toEqual(new Set(["stop", "max tokens", "end of story"]));
  });
});

function modelAnswers(name: string) {
  const all = readJson<Record<string, Expected>>(folder, "made-up", "expected.json");
  return (all[name] as Expected).answers;
}

function settingsOf(story: Story): GenerateSettings {
  const { seed, temperature, top_k: topK, max_tokens: maxTokens, stop } = story;
  return {
    seed,
    ...(temperature === undefined ? {} : { temperature }),
    ...(topK === undefined ? {} : { topK }),
    ...(maxTokens === undefined ? {} : { maxTokens }),
    ...(stop === undefined ? {} : { stop }),
  };
}

describe("the tokeniser", { timeout: 60_000 }, () => {
  it("gives Python's words, ids and joined text", () => {
    const { texts } = readJson<TokenizerCases>(folder, "tokenizer.json");
    const words = readJson<string[]>(folder, "made-up", "models", "words.json");
    const tokenizer = new Tokenizer(words);
    expect(words).toHaveLength(4000);
    for (const { text, words: wanted, ids, decoded } of texts) {
      expect(splitWords(text), JSON.stringify(text)).toEqual(wanted);
      expect(tokenizer.encode(text)).toEqual(ids);
      expect(tokenizer.decode(ids)).toBe(decoded);
      const read = tokenizer.read(text);
      expect(read.slice(1).map(({ word }) => word)).toEqual(wanted);
      expect(read.map(({ id }) => id)).toEqual([1, ...ids]);
    }
  });

  it("gives Python's words around every assigned character", () => {
    const { characters } = readJson<TokenizerCases>(folder, "tokenizer.json");
    const wrong = characters.filter(
      (block) => block && splitWords(block[0]).join("\n") !== block[1].join("\n"),
    );
    expect(wrong.map((block) => block?.[0])).toEqual([]);
    expect(characters.filter((block) => block).length).toBeGreaterThan(500);
  });
});
