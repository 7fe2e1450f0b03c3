/** The engine's worker, whose text is part of the page: a page opened from disk loads no other. */
import EngineWorker from "./engine.worker.ts?worker&inline";

/** A new worker; throws where workers are refused. */
export function makeWorker(): Worker {
  return new EngineWorker();
}
