/** SHA-256: the browser's own where the page may use it, and a plain one where it may not. */
import { inSlices } from "./slices";

/** Bytes hashed without a pause. */
const PIECE = 1 << 17;
const PRIMES = primes(64);
const fraction = (value: number) => Math.floor((value - Math.floor(value)) * 2 ** 32);
/** The first 32 bits of the fractions of the primes' cube roots and square roots. */
const ROUND = Int32Array.from(PRIMES, (p) => fraction(Math.cbrt(p)));
const START = Int32Array.from(PRIMES.slice(0, 8), (p) => fraction(Math.sqrt(p)));

function primes(count: number): number[] {
  const found: number[] = [];
  for (let n = 2; found.length < count; n++) if (found.every((p) => n % p !== 0)) found.push(n);
  return found;
}

/** The hash of bytes, in hexadecimal digits. */
export async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  if (typeof crypto === "undefined" || !crypto.subtle) return inSlices(plainSha256(bytes));
  return hex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));
}

/** The same without the browser's help, a piece at a time. Source: FIPS 180-4, section 6.2. */
export function* plainSha256(bytes: Uint8Array): Generator<void, string, void> {
  const state = START.slice();
  const schedule = new Int32Array(64);
  const whole = bytes.length & ~63;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let offset = 0; offset < whole; offset += 64) {
    addBlock(state, schedule, view, offset);
    if (offset % PIECE === 0) yield;
  }
  const end = lastBlocks(bytes.subarray(whole), bytes.length);
  for (let offset = 0; offset < end.byteLength; offset += 64)
    addBlock(state, schedule, end, offset);
  const digest = new DataView(new ArrayBuffer(32));
  for (const [place, word] of state.entries()) digest.setInt32(4 * place, word);
  return hex(new Uint8Array(digest.buffer));
}

/** What is left, a one bit, zeros, and the length in bits. */
function lastBlocks(rest: Uint8Array, length: number): DataView {
  const padded = new Uint8Array(rest.length < 56 ? 64 : 128);
  padded.set(rest);
  padded[rest.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(length / 2 ** 29));
  view.setUint32(padded.length - 4, (length << 3) >>> 0);
  return view;
}

const turned = (word: number, by: number) => (word >>> by) | (word << (32 - by));

function addBlock(state: Int32Array, w: Int32Array, view: DataView, offset: number): void {
  for (let t = 0; t < 16; t++) w[t] = view.getInt32(offset + 4 * t);
  for (let t = 16; t < 64; t++) {
    const early = w[t - 15] as number;
    const late = w[t - 2] as number;
    const small = turned(early, 7) ^ turned(early, 18) ^ (early >>> 3);
    const large = turned(late, 17) ^ turned(late, 19) ^ (late >>> 10);
    w[t] = ((w[t - 16] as number) + small + (w[t - 7] as number) + large) | 0;
  }
  let [a, b, c, d, e, f, g, h] = state as unknown as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  for (let t = 0; t < 64; t++) {
    const high = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25);
    const first = (h + high + ((e & f) ^ (~e & g)) + (ROUND[t] as number) + (w[t] as number)) | 0;
    const low = turned(a, 2) ^ turned(a, 13) ^ turned(a, 22);
    const second = (low + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
  }
  for (const [place, word] of [a, b, c, d, e, f, g, h].entries())
    state[place] = ((state[place] as number) + word) | 0;
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
