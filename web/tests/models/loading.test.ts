/** Files, workers and pages that refuse: what is loaded is verified, and what fails says so. */
import { afterEach, describe, expect, it, vi } from "vitest";
import { Connection } from "../../src/models/engine/connection";
import { type Port, serveEngine } from "../../src/models/engine/engine";
import {
  decodePieces,
  loadFile,
  type ReadFile,
  readByFetch,
  scriptPath,
} from "../../src/models/engine/files";
import { filesOf, open } from "../../src/models/engine/open";
import { problemOf } from "../../src/models/engine/runtime";
import { plainSha256 } from "../../src/models/engine/sha256";
import { inSlices } from "../../src/models/engine/slices";
import { fastestOf, timeEach } from "../../src/models/engine/timing";
import type { FileFacts, ModelIndex, Progress, Timing } from "../../src/models/engine/types";
import { fileOf, IDS, INDEX, smallModel, WORDS } from "./small-model";

afterEach(() => vi.unstubAllGlobals());

async function factsOf(path: string, bytes: Uint8Array): Promise<FileFacts> {
  return { path, size: bytes.length, sha256: await inSlices(plainSha256(bytes)) };
}

const gives =
  (bytes: Uint8Array<ArrayBuffer>): ReadFile =>
  async () =>
    bytes.slice();

describe("a file", () => {
  const bytes = Uint8Array.of(1, 2, 3, 4);

  it("is given when length and hash are right", async () => {
    const facts = await factsOf("models/a.safetensors", bytes);
    expect(await loadFile(facts, undefined, undefined, gives(bytes))).toEqual(bytes);
  });

  it("with another byte is not used, and the error names both hashes", async () => {
    const facts = await factsOf("models/a.safetensors", bytes);
    const changed = Uint8Array.of(1, 2, 3, 5);
    const { sha256 } = await factsOf("", changed);
    await expect(loadFile(facts, undefined, undefined, gives(changed))).rejects.toThrow(
      `The file models/a.safetensors has the hash ${sha256.slice(0, 12)}, expected ${facts.sha256.slice(0, 12)}`,
    );
  });

  it("that is cut off says so", async () => {
    const facts = await factsOf("models/a.safetensors", bytes);
    const read = gives(bytes.slice(0, 3));
    await expect(loadFile(facts, undefined, undefined, read)).rejects.toThrow(
      "has 3 bytes, expected 4",
    );
  });

  it("is fetched piece by piece from the page's own address", async () => {
    const facts = await factsOf("models/a.safetensors", bytes);
    vi.stubGlobal("document", { baseURI: "http://localhost/lesson/index.html" });
    const fetched = vi.fn(async () => new Response(bytes));
    vi.stubGlobal("fetch", fetched);
    const seen: number[] = [];
    expect(await readByFetch(facts, (loaded) => seen.push(loaded))).toEqual(bytes);
    expect(seen.at(-1)).toBe(4);
    expect(fetched).toHaveBeenCalledWith(
      "http://localhost/lesson/models/a.safetensors",
      expect.anything(),
    );
  });

  it.each([
    ["absent", async () => new Response("", { status: 404 }), "cannot be loaded"],
    ["unreachable", () => Promise.reject(new TypeError("refused")), "cannot be loaded"],
    ["too long", async () => new Response(new Uint8Array(5)), "more than 4 bytes"],
  ])("that is %s says so", async (_, answer, said) => {
    const facts = await factsOf("models/a.safetensors", bytes);
    vi.stubGlobal("document", { baseURI: "http://localhost/" });
    vi.stubGlobal("fetch", answer);
    await expect(readByFetch(facts, () => {})).rejects.toThrow(said);
  });

  it("comes from a script as pieces of text", async () => {
    const facts = await factsOf("models/a.safetensors", bytes);
    expect(scriptPath(facts.path)).toBe("models/a.js");
    expect(scriptPath("models/a.b.json")).toBe("models/a.b.js");
    expect(
      await inSlices(decodePieces(facts, [btoa("\x01\x02\x03"), btoa("\x04")], () => {})),
    ).toEqual(bytes);
    for (const [pieces, said] of [
      [["!"], "models/a.js is damaged"],
      [[btoa("\x01\x02\x03\x04\x05")], "more than 4 bytes"],
    ] as const)
      await expect(inSlices(decodePieces(facts, pieces, () => {}))).rejects.toThrow(said);
  });
});

/** A worker that is one end of a channel. */
function fakeWorker(): Worker {
  const { port1, port2 } = new MessageChannel();
  serveEngine(port2 as unknown as Port);
  return Object.assign(port1, { terminate: () => port1.close() }) as unknown as Worker;
}

const brokenWorker = (): Worker => {
  const worker = { terminate() {} } as unknown as Worker;
  setTimeout(() => worker.onerror?.({} as ErrorEvent));
  return worker;
};

const refusedWorker = (): Worker => {
  throw new DOMException("refused", "SecurityError");
};

describe("a connection", () => {
  it.each([
    ["worker", fakeWorker],
    ["page", null],
    ["page", refusedWorker],
    ["page", brokenWorker],
  ] as const)("computes the same on a %s", async (place, makeWorker) => {
    const connection = await Connection.open(makeWorker);
    expect(connection.place).toBe(place);
    await connection.ask<"open">({ name: "open", bytes: fileOf() });
    const logits = await connection.ask<"logits">({ name: "logits", ids: IDS });
    expect(logits).toEqual(smallModel().logits(IDS));
    connection.close();
    await expect(connection.ask<"logits">({ name: "logits", ids: IDS })).rejects.toThrow("closed");
  });

  it("passes errors on as sentences, and goes on", async () => {
    const connection = await Connection.open(null);
    await expect(connection.ask<"logits">({ name: "logits", ids: IDS })).rejects.toThrow(
      "No model is loaded.",
    );
    await connection.ask<"open">({ name: "open", bytes: fileOf() });
    await expect(connection.ask<"logits">({ name: "logits", ids: [99] })).rejects.toThrow(
      "ids (99)",
    );
    expect(await connection.ask<"logits">({ name: "logits", ids: [4] })).toHaveLength(6);
    connection.close();
  });

  it("ends work that is cancelled, with the reason, and answers the next call", async () => {
    const connection = await Connection.open(null);
    await connection.ask<"open">({ name: "open", bytes: fileOf() });
    const control = new AbortController();
    const ids = new Array<number>(200_000).fill(4);
    const answer = connection.ask<"losses">({ name: "losses", ids }, control.signal);
    setTimeout(() => control.abort(new Error("enough")), 30);
    await expect(answer).rejects.toThrow("enough");
    expect(await connection.ask<"logits">({ name: "logits", ids: [4] })).toHaveLength(6);
    connection.close();
  });
});

describe("a model by name", () => {
  const surroundings = {
    index: INDEX,
    makeWorker: null,
    load: async (facts: FileFacts) =>
      facts.path.endsWith("words.json")
        ? new TextEncoder().encode(JSON.stringify(WORDS))
        : fileOf(),
  };

  it("says how far loading is, and then answers", async () => {
    const seen: Progress[] = [];
    const host = await open("small", surroundings, { onProgress: (now) => seen.push(now) });
    expect(seen.map(({ stage }) => stage)).toEqual(["loading", "preparing", "ready"]);
    expect(seen.at(-1)).toMatchObject({ loaded: 30, total: 30 });
    const view = await host.view([1, 4, 5, 4], ["uniform", 0], { count: 2 });
    expect(view.words).toEqual(["a", "b", "a"]);
    expect(view.next).toHaveLength(2);
    expect([...view.weights.slice(0, 9)].map((w) => Math.round(w * 60))).toEqual([
      60, 0, 0, 30, 30, 0, 20, 20, 20,
    ]);
    expect(view.weights.slice(9)).toEqual(view.ownWeights.slice(0, 9));
    const { losses, mean } = await host.textLoss([1, 4, 5]);
    expect(losses).toHaveLength(2);
    expect(mean).toBeCloseTo(((losses[0] ?? 0) + (losses[1] ?? 0)) / 2, 12);
    expect((await host.textLoss([1])).mean).toBeNull();
    host.close();
  });

  it("that is not there says so", async () => {
    await expect(open("five-heads", surroundings, {})).rejects.toThrow(
      "The model five-heads is not part of this build",
    );
  });

  it("with a damaged file says so", async () => {
    const load = async (facts: FileFacts) => (await surroundings.load(facts)).slice(0, 40);
    const words = { ...(INDEX.words as FileFacts), sha256: "other" };
    const index: ModelIndex = { ...INDEX, words };
    const mended = async (facts: FileFacts) =>
      facts === words ? surroundings.load(facts) : load(facts);
    await expect(open("small", { ...surroundings, index, load: mended }, {})).rejects.toThrow(
      "The model's file is damaged",
    );
  });
});

describe("back ends", () => {
  it("name what they load before they load it", () => {
    const [info] = INDEX.models;
    if (!info) throw new Error("no model");
    expect(filesOf(info, "own", INDEX).map(({ path }) => path)).toEqual(["words.json", "small"]);
    expect(filesOf(info, "onnx-wasm", INDEX).map(({ path }) => path)).toEqual([
      "words.json",
      "small.onnx",
      "ort.js",
    ]);
  });

  it("say why they cannot be used", async () => {
    expect(await problemOf("wasm", { ...INDEX, runtime: null })).toContain(
      "not part of this build",
    );
    vi.stubGlobal("navigator", {});
    expect(await problemOf("webgpu", INDEX)).toBe("This browser has no WebGPU.");
    vi.stubGlobal("navigator", { gpu: { requestAdapter: async () => null } });
    expect(await problemOf("webgpu", INDEX)).toContain("no graphics adapter");
    vi.stubGlobal("navigator", { gpu: { requestAdapter: async () => ({}) } });
    expect(await problemOf("webgpu", INDEX)).toBeNull();
    vi.stubGlobal("location", { protocol: "file:" });
    expect(await problemOf("wasm", INDEX)).toContain("needs a served page");
  });

  it("do not wait for a browser that never names an adapter", async () => {
    vi.useFakeTimers();
    vi.stubGlobal("navigator", { gpu: { requestAdapter: () => new Promise(() => {}) } });
    const problem = problemOf("webgpu", INDEX);
    await vi.advanceTimersByTimeAsync(3000);
    expect(await problem).toContain("in 3 seconds");
    vi.useRealTimers();
  });

  it("are timed on the same stories, and one that fails says why", async () => {
    const surroundings = {
      index: INDEX,
      makeWorker: null,
      load: async (facts: FileFacts) =>
        facts.path === "words.json" ? new TextEncoder().encode(JSON.stringify(WORDS)) : fileOf(),
    };
    const seen: Timing[] = [];
    const { timings, fastest } = await timeEach(
      ["own", "onnx-wasm"],
      (backend) =>
        open("small", { ...surroundings, index: { ...INDEX, runtime: null } }, { backend }),
      { tokens: 12, onTiming: (timing) => seen.push(timing) },
    );
    expect(fastest).toBe("own");
    expect(seen).toEqual(timings);
    expect(timings[0]).toMatchObject({ backend: "own", tokens: 12, problem: null });
    expect(timings[0]?.tokensPerSecond).toBeGreaterThan(0);
    expect(timings[1]).toMatchObject({ backend: "onnx-wasm", tokensPerSecond: null });
    expect(timings[1]?.problem).toContain("not part of this build");
    expect(fastestOf([])).toBeNull();
  });
});
