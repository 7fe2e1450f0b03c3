/**
 * Records of a learner, one JSON object per line, in the format of the terminal's files.
 *
 * A line keeps its text; a line that is not a record is returned with a reason, never dropped.
 */

export type Fields = Readonly<Record<string, unknown>>;

export interface Line {
  readonly text: string;
  readonly fields: Fields;
}

export interface Damage {
  /** Counted from 1. */
  readonly number: number;
  readonly text: string;
  readonly why: string;
}

export interface Lines {
  readonly lines: readonly Line[];
  readonly damaged: readonly Damage[];
}

/** What is wrong with the fields of a record; null for nothing. */
export type Rule = (fields: Fields) => string | null;

/** No record is longer than this many characters. */
export const LONGEST_LINE = 100_000;

/** Read records; empty lines are passed over. */
export function readLines(text: string, rule: Rule): Lines {
  const lines: Line[] = [];
  const damaged: Damage[] = [];
  for (const [at, whole] of text.split("\n").entries()) {
    const line = whole.replace(/[\r\uFEFF]/g, "").trim();
    if (line === "") continue;
    const fields = readFields(line);
    const why = typeof fields === "string" ? fields : rule(fields);
    if (why === null && typeof fields !== "string") lines.push({ text: line, fields });
    else damaged.push({ number: at + 1, text: whole, why: why ?? "is not a record" });
  }
  return { lines, damaged };
}

function readFields(line: string): Fields | string {
  if (line.length > LONGEST_LINE) return `is longer than ${LONGEST_LINE} characters`;
  try {
    const found: unknown = JSON.parse(line);
    const isObject = typeof found === "object" && found !== null && !Array.isArray(found);
    return isObject ? (found as Fields) : "is not a JSON object";
  } catch {
    return "is not JSON";
  }
}

/** A record as one line, its fields in alphabetical order. */
export function lineOf(fields: Fields): Line {
  const text = JSON.stringify(sorted(fields));
  return { text, fields };
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value === "string") return value.replace(/\p{Cs}/gu, "");
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(entries.map(([name, inner]) => [name, sorted(inner)]));
}

export function textOf(lines: readonly Line[]): string {
  return lines.map(({ text }) => `${text}\n`).join("");
}

/** The time of a record, in milliseconds; null where it says none. */
export function timeOf({ fields }: Line): number | null {
  const time = typeof fields.when === "string" ? Date.parse(fields.when) : Number.NaN;
  return Number.isNaN(time) ? null : time;
}

/**
 * Merge two lists of records by time; each keeps its order, and a record in both occurs once.
 *
 * A clock that was set back stays visible: a record never moves before one that preceded it.
 */
export function merged(
  mine: readonly Line[],
  others: readonly Line[],
  keyOf: (line: Line) => string = wholeKey,
): Line[] {
  const known = new Set(mine.map(keyOf));
  const fresh = others.filter((line) => {
    const key = keyOf(line);
    const isNew = !known.has(key);
    known.add(key);
    return isNew;
  });
  const all: Line[] = [];
  let [at, next] = [0, 0];
  while (at < mine.length || next < fresh.length) {
    const [one, other] = [mine[at], fresh[next]];
    const isOther = one === undefined || (other !== undefined && isBefore(other, one));
    if (isOther) next += 1;
    else at += 1;
    const taken = isOther ? other : one;
    if (taken) all.push(taken);
  }
  return all;
}

/** Records are the same where all their fields are. */
export function wholeKey({ fields }: Line): string {
  return JSON.stringify(sorted(fields));
}

function isBefore(one: Line, other: Line): boolean {
  return (timeOf(one) ?? 0) < (timeOf(other) ?? 0);
}

const LONGEST_ID = 200;
const TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)$/;

function timeIn({ when }: Fields): string | null {
  const isTime = typeof when === "string" && TIME.test(when) && !Number.isNaN(Date.parse(when));
  return isTime ? null : "has no time with a time zone in the field when";
}

function textIn(fields: Fields, name: string): string | null {
  const text = fields[name];
  return typeof text === "string" && text !== "" ? null : `has no text in the field ${name}`;
}

function first(...found: (string | null)[]): string | null {
  return found.find((one) => one !== null) ?? null;
}

export const reviewRule: Rule = (fields) =>
  first(
    textIn(fields, "card") ??
      (String(fields.card).length > LONGEST_ID ? "has a name of a card that is too long" : null),
    [1, 2, 3, 4].includes(fields.rating as number) ? null : "has no rating from 1 to 4",
    timeIn(fields),
  );

export const quizRule: Rule = (fields) => first(textIn(fields, "question"), timeIn(fields));

export const exerciseRule: Rule = (fields) => {
  const { typed, right, misconceptions } = fields;
  const isNamed =
    Array.isArray(misconceptions) && misconceptions.every((name) => typeof name === "string");
  return first(
    textIn(fields, "exercise") ??
      (String(fields.exercise).length > LONGEST_ID
        ? "has a name of an exercise that is too long"
        : null),
    typeof typed === "string" ? null : "has no text in the field typed",
    typeof right === "boolean" ? null : "must have true or false in the field right",
    isNamed ? null : "has no list of names in the field misconceptions",
    timeIn(fields),
  );
};

export const explainRule: Rule = (fields) => first(textIn(fields, "topic"), timeIn(fields));

export const predictionRule: Rule = (fields) => {
  const missing = ["where", "try", "prediction", "outcome"].find(
    (name) => typeof fields[name] !== "string",
  );
  const isJudged = fields.right === null || typeof fields.right === "boolean";
  return first(
    missing === undefined ? null : `has no text in the field ${missing}`,
    isJudged ? null : "must have true, false or null in the field right",
    timeIn(fields),
  );
};
