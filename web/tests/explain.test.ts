import { describe, expect, it } from "vitest";
import { editSheet, givenNumber, type Num, type Solution, solve } from "../src/engine/attention";
import { canExplain, type Explanation, explain } from "../src/engine/explain";
import { placeKeys, placeText } from "../src/engine/places";
import { expectClose, fixture, floatOf, must, type StepCase, sheetNamed } from "./fixture";

/** A formula of the page in Python's signs. */
function plain(formula: string): string {
  return formula
    .replace(/1\/\u221a(\d+)$/, "1/sqrt($1)")
    .replace(/\u221a(\d+)/g, "sqrt($1)")
    .replace(/\u221e/g, "infinity")
    .replace(/\u2212/g, "-")
    .replace(/\u00b7/g, "*")
    .replace(/ \u00d7 /g, " x ");
}

/** A name of Python's in the page's form. */
function pageName(worksheet: string, name: string): string {
  return `${worksheet}:${placeText(must(placeKeys(name)))}`;
}

function checkStep(solution: Solution, step: StepCase): void {
  const sheet = solution.sheet.name;
  const found = explain(solution, step.quantity);
  expectClose(found.value.value, floatOf(step.value), step.quantity);
  expect({
    quantity: found.quantity,
    label: found.label,
    kind: found.kind,
    rule: found.rule,
    formula: plain(found.formula),
    terms: found.products.map((product) => product.map(({ quantity }) => quantity)),
    zeroTerms: found.zeroTerms,
    isGiven: found.isGiven,
    python: found.python,
  }).toEqual({
    quantity: pageName(sheet, step.quantity),
    label: step.label,
    kind: step.kind,
    rule: step.rule,
    formula: step.formula,
    terms: step.terms.map((term) => term.map((name) => pageName(sheet, name))),
    zeroTerms: step.zero_terms,
    isGiven: step.given,
    python: step.python,
  });
}

/** What a line of Python computes; its arithmetic is written in JavaScript alike. */
function evaluated(python: string): number {
  const expression = python
    .replace(/^.*?value = /, "")
    .replace(/float\("(-?)inf"\)/g, "($1Infinity)");
  expect(expression).toMatch(/^[-+*/(), 0-9.a-zI]*$/);
  const known = { exp: Math.exp, log: Math.log, sqrt: Math.sqrt, max: Math.max };
  return new Function(...Object.keys(known), `return ${expression}`)(...Object.values(known));
}

/** How large the numbers are that are added. */
function size({ products, value }: Explanation): number {
  const product = (parts: readonly { value: Num }[]) =>
    parts.reduce((all, part) => all * Math.abs(part.value.value), 1);
  return Math.max(Math.abs(value.value), ...products.map(product).filter(Number.isFinite));
}

/** Explain a number and all that it is made of; how many numbers that is, and how many are given. */
function walked(solution: Solution, quantity: string, seen = new Map<string, boolean>()) {
  if (seen.has(quantity)) return seen;
  const found = explain(solution, quantity);
  expect(found.quantity).toBe(quantity);
  seen.set(quantity, found.isGiven);
  if (found.value.value !== Number.POSITIVE_INFINITY) {
    expectClose(evaluated(found.python), found.value.value, found.python, size(found));
  }
  const clicked = found.pieces.flatMap((piece) =>
    typeof piece === "string" ? [] : [piece.quantity],
  );
  expect(new Set(clicked)).toEqual(new Set(found.terms.map((part) => part.quantity)));
  for (const part of found.terms) {
    expect(part.value).toEqual(explain(solution, part.quantity).value);
    walked(solution, part.quantity, seen);
  }
  return seen;
}

describe("an explanation", () => {
  for (const { worksheet, sequence, steps } of fixture.explanations) {
    it(`is Python's, for every number of one receiver of ${worksheet}`, { timeout: 60_000 }, () => {
      const solution = solve(sheetNamed(worksheet), sequence);
      for (const step of steps) checkStep(solution, step);
      expect(steps.length).toBeGreaterThan(50);
    });

    it(`ends in given numbers, and computes in Python, ${worksheet}`, { timeout: 60_000 }, () => {
      const solution = solve(sheetNamed(worksheet), sequence);
      const last = solution.fields.at(-1)?.name ?? "";
      const index = solution
        .shape(last)
        .map((length) => length - 1)
        .join("][");
      const seen = walked(solution, `${worksheet}:${sequence}.${last}[${index}]`);
      const ends = [...seen].filter(([, isGiven]) => isGiven).map(([quantity]) => quantity);
      expect(ends.length).toBeGreaterThan(10);
      for (const quantity of ends) {
        expect(givenNumber(solution.sheet, quantity.slice(worksheet.length + 1))).toHaveProperty(
          "value",
        );
      }
    });
  }

  it("covers every number of every field after an edit, with every option", {
    timeout: 60_000,
  }, () => {
    const sheet = must(editSheet(sheetNamed("two-routes"), "sequences.main.X[1][1]", "0.3"));
    for (const options of [
      {},
      { causal: false },
      { headsOff: [1] },
      { wide: true },
      { zeroQuery: true },
    ]) {
      const solution = solve(sheet, "main", options);
      const seen = new Map<string, boolean>();
      for (const field of solution.fields) {
        const shape = solution.shape(field.name);
        const count = shape.reduce((all, length) => all * length, 1);
        for (let i = 0; i < count; i += 1) {
          let rest = i;
          const index = [...shape].reverse().map((length) => {
            const at = rest % length;
            rest = Math.floor(rest / length);
            return `[${at}]`;
          });
          walked(solution, `two-routes:main.${field.name}${index.reverse().join("")}`, seen);
        }
      }
      expect(seen.size).toBeGreaterThan(150);
    }
  });

  it("explains a weighted value, and follows the style that is asked for", () => {
    const solution = solve(sheetNamed("two-routes"), "main");
    const found = explain(solution, "main.weighted_values[0][2][1][1]");
    expect(found.formula).toBe("8/7 = 2/7 \u00d7 4");
    expect(explain(solution, "main.weighted_values[0][2][1][1]", "decimals").formula).toBe(
      "1.143 = 0.286 \u00d7 4",
    );
  });

  it("stays finite where an exponential leaves float64", () => {
    const sheet = must(editSheet(sheetNamed("two-routes"), "heads.0.W_Q[0][0]", "2000"));
    const solution = solve(sheet, "main");
    const total = explain(solution, "main.exp_sum[0][2]");
    expect(total.value.value).toBe(Number.POSITIVE_INFINITY);
    const weight = explain(solution, "main.attn_weights[0][2][2]");
    expect(weight.value.value).toBe(1);
    expectClose(evaluated(weight.python), 1, weight.python);
  });

  it("knows which names are numbers", () => {
    const solution = solve(sheetNamed("river-and-cheque"), "river");
    const good = [
      "river.output[9][0]",
      "output[9][0]",
      "scale",
      "heads[1].W_Q[3][1]",
      "token_embedding.the[3]",
    ];
    expect(good.filter((name) => !canExplain(solution, name))).toEqual([]);
    const bad = [
      ...[
        "",
        "river",
        "river.output",
        "river.output[9]",
        "river.output[10][0]",
        "cheque.output[9][0]",
      ],
      ...[
        "heads",
        "heads[2].W_Q[0][0]",
        "heads.0.label",
        "__proto__",
        "constructor[0]",
        "river.output[9][0][0]",
      ],
      ...[
        "river.x.y[0]",
        "W_O[0][4]",
        "b_O[0]",
        "token_embedding.nobody[0]",
        "sequences.river.X[0][0]",
      ],
    ];
    expect(bad.filter((name) => canExplain(solution, name))).toEqual([]);
    expect(() => explain(solution, "river.nothing[0]")).toThrow("no number river.nothing[0]");
  });
});
