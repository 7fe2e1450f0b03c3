/** A line to the engine: to a worker where the browser allows one, else to the page's own thread. */
import {
  type Call,
  type Port,
  type Reply,
  type Request,
  type Results,
  serveEngine,
} from "./engine";
import { ModelError } from "./types";

/** What a worker and one end of a channel have in common. */
interface Line {
  postMessage(message: Request, transfer: Transferable[]): void;
  onmessage: ((event: MessageEvent<Reply>) => void) | null;
  /** A worker that fails; a channel never does. */
  onerror?: ((event: ErrorEvent) => void) | null;
  end(): void;
}

/** Makes a worker that serves the engine, or throws where workers are refused. */
export type MakeWorker = () => Worker;

interface Waiting {
  resolve(value: Results[keyof Results]): void;
  reject(error: Error): void;
  /** Stop listening to the signal. */
  leave(): void;
}

/** Milliseconds that a worker may take to say that it is there. */
const PATIENCE = 5000;

export class Connection {
  private last = 0;
  /** Why there are no more answers; null while there are. */
  private ended: string | null = null;
  private readonly waiting = new Map<number, Waiting>();

  private constructor(
    private readonly line: Line,
    readonly place: "worker" | "page",
  ) {
    line.onmessage = ({ data }) => this.settle(data);
    line.onerror = () => this.fail("The worker that computes has failed: open the model again.");
  }

  /** Begin with a worker, or, where it is refused or silent, on the page. */
  static async open(makeWorker: MakeWorker | null): Promise<Connection> {
    const worker = makeWorker && (await livingWorker(makeWorker));
    return worker ? new Connection(worker, "worker") : new Connection(lineOnPage(), "page");
  }

  /** Send a call; an aborted signal ends it with the signal's reason. */
  ask<Name extends keyof Results>(
    call: Extract<Call, { name: Name }> | (Call & { name: Name }),
    signal?: AbortSignal,
    transfer: Transferable[] = [],
  ): Promise<Results[Name]> {
    if (this.ended) return Promise.reject(new ModelError(this.ended));
    if (signal?.aborted) return Promise.reject(signal.reason as Error);
    const request = ++this.last;
    const answer = new Promise<Results[keyof Results]>((resolve, reject) => {
      const stop = () => {
        this.waiting.delete(request);
        this.line.postMessage({ request: ++this.last, call: { name: "cancel", request } }, []);
        reject(signal?.reason as Error);
      };
      signal?.addEventListener("abort", stop, { once: true });
      const leave = () => signal?.removeEventListener("abort", stop);
      this.waiting.set(request, { resolve, reject, leave });
    });
    this.line.postMessage({ request, call }, transfer);
    return answer as Promise<Results[Name]>;
  }

  close(): void {
    this.fail("The model was closed.");
  }

  private fail(why: string): void {
    this.ended ??= why;
    this.line.end();
    for (const { reject, leave } of this.waiting.values()) {
      leave();
      reject(new ModelError(why));
    }
    this.waiting.clear();
  }

  private settle({ request, value, error, isShown }: Reply): void {
    const waiting = this.waiting.get(request);
    this.waiting.delete(request);
    waiting?.leave();
    if (error === undefined) waiting?.resolve(value ?? null);
    else waiting?.reject(isShown ? new ModelError(error) : new Error(error));
  }
}

/** A worker that has answered; null where there is none. */
async function livingWorker(makeWorker: MakeWorker): Promise<Line | null> {
  let worker: Worker;
  try {
    worker = makeWorker();
  } catch {
    return null;
  }
  const isAlive = await new Promise<boolean>((resolve) => {
    const timer = setTimeout(() => resolve(false), PATIENCE);
    const settle = (answer: boolean) => {
      clearTimeout(timer);
      resolve(answer);
    };
    worker.onerror = () => settle(false);
    worker.onmessage = () => settle(true);
  });
  worker.onmessage = worker.onerror = null;
  if (!isAlive) {
    worker.terminate();
    return null;
  }
  return Object.assign(worker, { end: () => worker.terminate() });
}

function lineOnPage(): Line {
  const { port1, port2 } = new MessageChannel();
  serveEngine(port2 as unknown as Port);
  return Object.assign(port1, { end: () => port1.close() });
}
