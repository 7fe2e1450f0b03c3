/** Steps back and forth through a row of states; nothing here is changed in place. */

export interface Timeline<T> {
  readonly past: readonly T[];
  readonly present: T;
  readonly future: readonly T[];
}

const MAX_STEPS = 200;

export function started<T>(present: T): Timeline<T> {
  return { past: [], present, future: [] };
}

/** A new state after the present one; what had been undone is forgotten. */
export function advanced<T>({ past, present }: Timeline<T>, next: T): Timeline<T> {
  return { past: [...past, present].slice(-MAX_STEPS), present: next, future: [] };
}

/** Another present state in place of this one, as while a number is still being typed. */
export function amended<T>({ past }: Timeline<T>, next: T): Timeline<T> {
  return { past, present: next, future: [] };
}

export function undone<T>(timeline: Timeline<T>): Timeline<T> {
  const { past, present, future } = timeline;
  const last = past.at(-1);
  if (last === undefined) return timeline;
  return { past: past.slice(0, -1), present: last, future: [present, ...future] };
}

export function redone<T>(timeline: Timeline<T>): Timeline<T> {
  const { past, present, future } = timeline;
  const [next, ...rest] = future;
  if (next === undefined) return timeline;
  return { past: [...past, present], present: next, future: rest };
}
