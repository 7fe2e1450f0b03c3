/** The engine in a worker; it reads and writes nothing but messages. */
import { type Port, serveEngine } from "./engine";

serveEngine(globalThis as unknown as Port, 40);
