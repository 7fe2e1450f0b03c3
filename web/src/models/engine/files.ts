/** Files that are loaded on demand from the page's own folder, and compared with their hash.
 *
 * A served page fetches them. A page opened from disk may fetch nothing; it loads a script beside
 * the file, which hands over the same bytes as text: `manyheadsFile(path, base64, base64, ...)`.
 */
import { sha256 } from "./sha256";
import { inSlices } from "./slices";
import { type FileFacts, ModelError } from "./types";

export type OnBytes = (loaded: number) => void;

/** Gives the bytes of a file, unverified. */
export type ReadFile = (
  facts: FileFacts,
  onBytes: OnBytes,
  signal?: AbortSignal,
) => Promise<Uint8Array<ArrayBuffer>>;

type Receive = (path: string, ...pieces: string[]) => void;

/**
 * Load a file and compare its length and hash with what this page expects.
 *
 * @throws ModelError the file is absent, cut off or changed.
 */
export async function loadFile(
  facts: FileFacts,
  onBytes: OnBytes = () => {},
  signal?: AbortSignal,
  read: ReadFile = readerHere(),
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = await read(facts, onBytes, signal);
  signal?.throwIfAborted();
  await verify(facts, bytes);
  signal?.throwIfAborted();
  return bytes;
}

async function verify(facts: FileFacts, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
  const { path, size } = facts;
  if (bytes.length !== size)
    throw new ModelError(
      `The file ${path} has ${bytes.length} bytes, expected ${size}: reload the page, or install manyheads again.`,
    );
  const digest = await sha256(bytes);
  if (digest !== facts.sha256)
    throw new ModelError(
      `The file ${path} has the hash ${digest.slice(0, 12)}, expected ${facts.sha256.slice(0, 12)}: it was changed or damaged, and is not used.`,
    );
}

/** Whether the page was opened from disk, where nothing can be fetched. */
export function isFromDisk(): boolean {
  return globalThis.location?.protocol === "file:";
}

function readerHere(): ReadFile {
  return isFromDisk() ? readByScript : readByFetch;
}

/** The address of a file of this page, wherever the page lies. */
export function addressOf(path: string): string {
  return new URL(path, document.baseURI).href;
}

export async function readByFetch(
  facts: FileFacts,
  onBytes: OnBytes,
  signal?: AbortSignal,
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(facts.size);
  let loaded = 0;
  try {
    const answer = await fetch(addressOf(facts.path), { signal: signal ?? null });
    if (!answer.ok || !answer.body) throw absent(facts);
    for (const reader = answer.body.getReader(); ; ) {
      const { done, value } = await reader.read();
      if (done) break;
      if (loaded + value.length > bytes.length) throw tooLong(facts);
      bytes.set(value, loaded);
      loaded += value.length;
      onBytes(loaded);
    }
  } catch (error) {
    signal?.throwIfAborted();
    throw error instanceof ModelError ? error : absent(facts);
  }
  return bytes.subarray(0, loaded);
}

export async function readByScript(
  facts: FileFacts,
  onBytes: OnBytes,
): Promise<Uint8Array<ArrayBuffer>> {
  const pieces = await piecesFromScript(facts);
  return inSlices(decodePieces(facts, pieces, onBytes));
}

/** Bytes from base64 texts, each of whole bytes. */
export function* decodePieces(
  facts: FileFacts,
  pieces: readonly string[],
  onBytes: OnBytes,
): Generator<void, Uint8Array<ArrayBuffer>, void> {
  const bytes = new Uint8Array(facts.size);
  let loaded = 0;
  for (const piece of pieces) {
    const text = decoded(facts, piece);
    if (loaded + text.length > bytes.length) throw tooLong(facts);
    for (let i = 0; i < text.length; i++) bytes[loaded + i] = text.charCodeAt(i);
    loaded += text.length;
    onBytes(loaded);
    yield;
  }
  return bytes.subarray(0, loaded);
}

function decoded(facts: FileFacts, piece: string): string {
  try {
    return atob(piece);
  } catch {
    throw new ModelError(`The file ${scriptPath(facts.path)} is damaged: write the site again.`);
  }
}

/** The name of the script that stands for a file: "models/mlp.js" for "models/mlp.safetensors". */
export function scriptPath(path: string): string {
  return path.replace(/\.[^./]+$/, ".js");
}

/** Scripts on their way, and who waits for what they hand over. */
const underway = new Map<string, Promise<string[]>>();
const receivers = new Map<string, (pieces: string[]) => void>();

function piecesFromScript(facts: FileFacts): Promise<string[]> {
  const { path } = facts;
  (globalThis as { manyheadsFile?: Receive }).manyheadsFile = (name, ...pieces) =>
    receivers.get(name)?.(pieces);
  const known = underway.get(path);
  if (known) return known;
  const begun = new Promise<string[]>((resolve, reject) => {
    receivers.set(path, resolve);
    const script = document.createElement("script");
    const end = () => {
      script.remove();
      receivers.delete(path);
      underway.delete(path);
      reject(absent(facts)); // nothing happens where the pieces have come
    };
    script.onload = script.onerror = end;
    script.src = addressOf(scriptPath(path));
    document.head.append(script);
  });
  underway.set(path, begun);
  return begun;
}

function absent({ path }: FileFacts): ModelError {
  const name = isFromDisk() ? scriptPath(path) : path;
  return new ModelError(`The file ${name} cannot be loaded: it is not there, or cannot be read.`);
}

function tooLong({ path, size }: FileFacts): ModelError {
  return new ModelError(
    `The file ${path} has more than ${size} bytes: reload the page, or install manyheads again.`,
  );
}
