import { describe, expect, it } from "vitest";
import { parseNumber } from "../src/numbers/parse";
import {
  decimalStyle,
  decimalText,
  exactText,
  fieldDecimals,
  fractionStyle,
  neededDecimals,
  pythonFloat,
  quantityText,
  valueText,
} from "../src/numbers/show";
import { fixture, must } from "./fixture";

describe("decimals", () => {
  it("writes no more decimals than a number needs, and three at most", () => {
    expect([0, 2, 0.5, 0.25, 0.125, 1 / 7].map(neededDecimals)).toEqual([0, 0, 1, 2, 3, 3]);
    expect(neededDecimals(0.1 + 0.2)).toBe(1);
  });

  it("takes a number for rounded as soon as it differs by a billionth", () => {
    expect([0.5 + 0.9e-9, 0.5 + 1.1e-9].map(neededDecimals)).toEqual([1, 3]);
  });

  it("gives a field the decimals of its column, and more where its own number needs them", () => {
    expect(fieldDecimals(2, 2)).toBe(2);
    expect(fieldDecimals(0.125, 2)).toBe(3);
    expect(fieldDecimals(0.5)).toBe(1);
    expect(fieldDecimals(null)).toBe(0);
  });

  it("rounds for display only and writes a true minus sign", () => {
    expect(decimalText(-2 / 7, 3)).toBe("\u22120.286");
    expect(valueText(-2 / 7)).toBe("-0.2857142857142857");
  });

  it("never writes minus nought", () => {
    expect(decimalText(-0.0001, 3)).toBe("0.000");
  });

  it("rounds a very large number too, and writes what no double holds as infinity", () => {
    expect(decimalText(1.0715086071862673e301, 3)).toBe("1.072e+301");
    expect(decimalText(-2e30, 0)).toBe("\u22122e+30");
    expect(decimalText(1e21, 0)).toBe("1e+21");
    expect(decimalText(1.23456e21, 0)).toBe("1.235e+21");
    expect(decimalText(2 ** 69, 0)).toBe("590295810358705651712");
    expect(decimalText(Number.POSITIVE_INFINITY, 3)).toBe("\u221e");
  });

  it("writes a blocked key as minus infinity", () => {
    expect(decimalText(null, 3)).toBe("\u2212\u221e");
    expect(Number(valueText(null))).toBe(Number.NEGATIVE_INFINITY);
  });
});

describe("exact text", () => {
  it("is set as a person writes it", () => {
    expect(exactText("-2*sqrt(2)*ln(3)/5")).toBe("\u22122\u00b7\u221a2\u00b7ln(3)/5");
  });

  it("is shown in fractions only, and only where it is known", () => {
    const seventh = { name: "w:s.x[0][0]", value: 1 / 7, exact: "1/7" };
    expect(quantityText(seventh, "fractions", 3)).toBe("1/7");
    expect(quantityText(seventh, "decimals", 2)).toBe("0.14");
    expect(quantityText({ ...seventh, exact: null }, "fractions", 1)).toBe("0.143");
  });

  it("is shown up to 24 characters; a longer one becomes decimals", () => {
    const of = (exact: string) =>
      quantityText({ name: "w:s.x[0][0]", value: 1 / 7, exact }, "fractions", 3);
    expect(of(`${"1".repeat(22)}/7`)).toBe(`${"1".repeat(22)}/7`);
    expect(of(`${"1".repeat(23)}/7`)).toBe("0.143");
  });

  it("is shown in a sentence or a formula as Python shows it", () => {
    const shown = fixture.shown.map(({ text }) => {
      const number = must(parseNumber(text));
      return { text, fraction: fractionStyle(number), decimal: decimalStyle(number) };
    });
    expect(shown).toEqual(fixture.shown);
  });

  it("is written for Python with a power of ten from 1e16 on and below 0.0001", () => {
    expect([1e16, 9999999999999998].map(pythonFloat)).toEqual(["1e+16", "9999999999999998.0"]);
    expect([0.0001, 0.000099].map(pythonFloat)).toEqual(["0.0001", "9.9e-05"]);
    expect([0, -2, 0.5].map(pythonFloat)).toEqual(["0.0", "-2.0", "0.5"]);
  });
});
