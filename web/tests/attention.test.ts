import { describe, expect, it } from "vitest";
import { editSheet, type Num, type Sheet, type Solution, solve } from "../src/engine/attention";
import { fieldsOf } from "../src/engine/fields";
import {
  cut,
  type EditCase,
  expectClose,
  fixture,
  flat,
  floatOf,
  must,
  type Numbers,
  sheetNamed,
} from "./fixture";

/** The edits are checked in so many tests. */
const PARTS = 10;

const CRC_BYTES = Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  return crc;
});

/** CRC-32 of a text of plain letters, as Python's zlib has it. */
function crc32(text: string): number {
  let crc = ~0;
  for (let i = 0; i < text.length; i += 1) {
    crc = (crc >>> 8) ^ (CRC_BYTES[(crc ^ text.charCodeAt(i)) & 255] ?? 0);
  }
  return ~crc >>> 0;
}

function mark(solution: Solution, field: string): number {
  return crc32(
    flat(solution.table(field))
      .map(({ exact }) => exact?.text() ?? "~")
      .join("|"),
  );
}

function checkSum(solution: Solution, field: string, wanted: number, name: string): void {
  let [sum, size] = [0, 0];
  flat(solution.table(field)).forEach(({ value }, i) => {
    if (!Number.isFinite(value)) return;
    const part = ((((i * 37) % 101) + 1) / 101) * value;
    sum += part;
    size += Math.abs(part);
  });
  expectClose(sum, wanted, `the sum of ${name}`, size);
}

function edited(sheet: Sheet, edits: Record<string, string>): Sheet {
  return Object.entries(edits).reduce<Sheet>(
    (changed, [place, text]) => must(editSheet(changed, place, text)),
    sheet,
  );
}

function kept(solution: Solution, field: string, receiver: number) {
  const axes = fieldsOf(solution.sheet).find(({ name }) => name === field)?.axes ?? "";
  const shape = solution.shape(field);
  const at = axes.indexOf("T");
  const inner = shape.slice(at + 1).reduce((size, length) => size * length, 1);
  return flat(solution.table(field)).filter(
    (_, i) => at < 0 || Math.floor(i / inner) % (shape[at] ?? 1) === receiver,
  );
}

function checkRow(row: Num[], { values, exact }: Numbers, name: string): void {
  expect(row.length).toBe(values.length);
  row.forEach((number, i) => {
    expectClose(number.value, floatOf(values[i] ?? 0), `${name} ${i}`);
    const text = cut(number.exact?.text() ?? null);
    if (text !== exact[i]) throw new Error(`${name} ${i} is ${text}, Python says ${exact[i]}`);
  });
}

function checkEdit(given: EditCase): void {
  const sheet = edited(sheetNamed(given.worksheet), given.edits);
  const solution = solve(sheet, given.sequence, given.options);
  const told = `${JSON.stringify(given.edits)} ${JSON.stringify(given.options)}`;
  expect(solution.fields.map(({ name }) => name).sort()).toEqual(Object.keys(given.row).sort());
  for (const [field, numbers] of Object.entries(given.row)) {
    const name = `${told} ${field}`;
    checkRow(kept(solution, field, given.receiver), numbers, name);
    checkSum(solution, field, given.sums[field] ?? 0, name);
    if (mark(solution, field) !== given.marks[field]) {
      throw new Error(`an exact text of ${name} is not Python's`);
    }
  }
}

describe("against Python", () => {
  for (const { name, sequences } of fixture.worksheets) {
    for (const { name: sequence, fields } of sequences) {
      it(`every quantity of ${name}, ${sequence}`, () => {
        const solution = solve(sheetNamed(name), sequence);
        expect(solution.fields.map((field) => field.name).sort()).toEqual(
          Object.keys(fields).sort(),
        );
        for (const [field, { shape, values, exact }] of Object.entries(fields)) {
          const numbers = flat(solution.table(field));
          expect(solution.shape(field)).toEqual(shape);
          expect(numbers.map((number) => cut(number.exact?.text() ?? null))).toEqual(exact);
          numbers.forEach(({ value }, i) => {
            expectClose(value, floatOf(values[i] ?? 0), `${name} ${field} ${i}`);
          });
        }
      });
    }
  }

  const parts = Array.from({ length: PARTS }, (_, part) => part);
  it.each(parts)("random edits, part %i", { timeout: 120_000 }, (part) => {
    const cases = fixture.edits.filter((_, i) => i % PARTS === part);
    expect(cases.length).toBeGreaterThan(0);
    for (const given of cases) checkEdit(given);
  });

  it("a thousand edits, of every worksheet and with every option", () => {
    const used = fixture.edits.flatMap(({ options }) => Object.keys(options));
    expect(new Set(used)).toEqual(new Set(["causal", "headsOff", "wide", "zeroQuery"]));
    const worksheets = new Set(fixture.edits.map(({ worksheet }) => worksheet));
    expect([...worksheets].sort()).toEqual(fixture.worksheets.map(({ name }) => name));
    expect(fixture.edits.length).toBeGreaterThanOrEqual(300);
  });

  it("gives the same float64, not only a close one", () => {
    let [same, all] = [0, 0];
    for (const { name, sequences } of fixture.worksheets) {
      for (const { name: sequence, fields } of sequences) {
        const solution = solve(sheetNamed(name), sequence);
        for (const [field, { values }] of Object.entries(fields)) {
          flat(solution.table(field)).forEach(({ value }, i) => {
            all += 1;
            if (Object.is(value, floatOf(values[i] ?? 0))) same += 1;
          });
        }
      }
    }
    expect(same).toBe(all);
  });
});
