/** What a record of each file has to say; the terminal writes and reads the same. */

import type { Fields, Rule } from "./records";

const LONGEST_ID = 200;
const TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)$/;

function timeIn({ when }: Fields): string | null {
  const isTime = typeof when === "string" && TIME.test(when) && !Number.isNaN(Date.parse(when));
  return isTime ? null : "has no time with a zone under when";
}

function textIn(fields: Fields, name: string): string | null {
  const text = fields[name];
  return typeof text === "string" && text !== "" ? null : `has no text under ${name}`;
}

function first(...found: (string | null)[]): string | null {
  return found.find((one) => one !== null) ?? null;
}

export const reviewRule: Rule = (fields) =>
  first(
    textIn(fields, "card") ?? (String(fields.card).length > LONGEST_ID ? "names no card" : null),
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
      (String(fields.exercise).length > LONGEST_ID ? "names no exercise" : null),
    typeof typed === "string" ? null : "has no text under typed",
    typeof right === "boolean" ? null : "has neither true nor false under right",
    isNamed ? null : "has no list of names under misconceptions",
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
    missing === undefined ? null : `has no text under ${missing}`,
    isJudged ? null : "has neither true, false nor null under right",
    timeIn(fields),
  );
};
