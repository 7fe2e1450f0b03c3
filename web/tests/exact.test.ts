import { describe, expect, it } from "vitest";
import {
  add,
  dot,
  exponential,
  logarithm,
  multiply,
  reciprocal,
  softmax,
  squareRoot,
  total,
} from "../src/numbers/arithmetic";
import {
  doubleExponential,
  doubleOf,
  doubleProduct,
  doubleQuotient,
  doubleSum,
} from "../src/numbers/double";
import { integer, isExact, type Num, ratio } from "../src/numbers/exact";
import {
  fraction,
  fractionDouble,
  fractionText,
  plus,
  power,
  times,
} from "../src/numbers/fraction";
import { parseNumber } from "../src/numbers/parse";
import { must } from "./fixture";

const number = (text: string): Num => must(parseNumber(text));
const textOf = (found: Num): string | undefined => found.exact?.text();

describe("fractions", () => {
  it("stay exact past the whole numbers of a float64", () => {
    const large = power(fraction(3, 7), 40);
    expect(fractionText(large)).toBe(`${3n ** 40n}/${7n ** 40n}`);
    expect(fractionText(times(large, power(fraction(3, 7), -40)))).toBe("1");
    expect(fractionText(plus(large, times(large, fraction(-1))))).toBe("0");
  });

  it("have one form for each value", () => {
    expect(fraction(-6, -4)).toEqual({ num: 3, den: 2 });
    expect(fraction(0, -5)).toEqual({ num: 0, den: 1 });
    expect(times(fraction(0), fraction(-1))).toEqual({ num: 0, den: 1 });
    expect(plus(fraction(2 ** 53 - 1), fraction(1)).num).toBe(2n ** 53n);
    expect(plus(plus(fraction(2 ** 53 - 1), fraction(1)), fraction(-1)).num).toBe(2 ** 53 - 1);
  });

  it("round once to the nearest float64", () => {
    expect(fractionDouble(fraction(1, 3)).value).toBe(1 / 3);
    expect(fractionDouble(fraction(2n ** 53n + 1n)).value).toBe(2 ** 53);
    expect(fractionDouble(fraction(2n ** 54n + 6n)).value).toBe(2 ** 54 + 8);
    expect(fractionDouble(power(fraction(2), 1100)).value).toBe(Number.POSITIVE_INFINITY);
    expect(fractionDouble(power(fraction(2), -1100)).value).toBe(0);
    expect(fractionDouble(power(fraction(2), -1074)).value).toBe(5e-324);
    expect(fractionDouble(power(fraction(-10), 301)).value).toBe(-1e301);
  });
});

describe("numbers of two parts", () => {
  it("keep what a float64 drops", () => {
    const third = doubleQuotient(doubleOf(1), doubleOf(3));
    const one = doubleProduct(third, doubleOf(3));
    expect(Math.abs(one.value - 1 + one.low)).toBeLessThan(1e-31);
    const back = doubleSum(doubleSum(doubleOf(1), doubleOf(1e-25)), doubleOf(-1));
    expect(back.value).toBe(1e-25);
  });

  it("take exponentials to 30 digits", () => {
    const e = doubleExponential(doubleOf(1));
    expect(e.value).toBe(Math.E);
    expect(Math.abs(e.low - 1.4456468917292502e-16)).toBeLessThan(1e-31);
    for (const x of [3.25, 0.001, 17.5, 300]) {
      const [up, down] = [doubleExponential(doubleOf(x)), doubleExponential(doubleOf(-x))];
      const one = doubleProduct(up, down);
      expect(Math.abs(one.value - 1 + one.low)).toBeLessThan(1e-28);
    }
    const largest = doubleExponential(doubleOf(709));
    expect(doubleQuotient(largest, largest)).toEqual(doubleOf(1));
    expect(doubleExponential(doubleOf(-1e300)).value).toBe(0);
    expect(doubleExponential(doubleOf(1e300)).value).toBe(Number.POSITIVE_INFINITY);
  });
});

describe("symbols", () => {
  it("come in their shortest form", () => {
    expect(textOf(squareRoot(fraction(8, 3)))).toBe("2*sqrt(6)/3");
    expect(textOf(logarithm(fraction(12, 5)))).toBe("ln(12/5)");
    expect(textOf(logarithm(fraction(1)))).toBe("0");
    expect(textOf(multiply(number("sqrt(6)"), number("sqrt(10)")))).toBe("2*sqrt(15)");
    expect(textOf(add(number("sqrt(2)"), number("-sqrt(2)")))).toBe("0");
    expect(textOf(reciprocal(number("1 + sqrt(2)")))).toBe("-1 + sqrt(2)");
    expect(textOf(multiply(number("ln(2) + sqrt(3)"), number("ln(2)")))).toBe(
      "sqrt(3)*ln(2) + ln(2)*ln(2)",
    );
  });

  it("have the value of their text, also where terms nearly cancel", () => {
    const close = number("sqrt(2) - 1.41421356237309504880168872420");
    expect(close.value).toBeCloseTo(9.69807856967e-30, 40);
    expect(number("2*ln(3)*sqrt(5)").value).toBe(4.913143516757031);
  });

  it("make fractions of a softmax of logarithms", () => {
    const weights = softmax([number("0"), number("ln(2)"), number("ln(4)")]);
    expect(weights.map(textOf)).toEqual(["1/7", "2/7", "4/7"]);
    expect(textOf(exponential(number("ln(2)/2")))).toBe("sqrt(2)");
    expect(textOf(exponential(number("-3*ln(2)/2")))).toBe("sqrt(2)/4");
  });

  it("end where no short exact form is left, and say so", () => {
    const power = exponential(number("1/2"));
    expect([power.value, power.exact, isExact(power)]).toEqual([1.6487212707001282, null, false]);
    expect(add(power, integer(1)).exact).toBeNull();
    expect(textOf(multiply(power, integer(0)))).toBe("0");
    expect(reciprocal(number("ln(2)")).exact).toBeNull();
    expect(exponential(number("ln(3)/3")).exact).toBeNull();
    expect(exponential(number("800*ln(7)")).exact).toBeNull();
  });

  it("become decimal just where the Python engine lets them", () => {
    const primes = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71];
    const roots = [...primes, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127, 131, 137].map((n) =>
      squareRoot(fraction(n)),
    );
    expect(roots.length).toBe(33);
    expect(total(roots.slice(1)).exact?.terms.length).toBe(32);
    expect(total(roots).exact).toBeNull();
    const values = roots.reduce((sum, { value }) => sum + value, 0);
    expect(total(roots).value).toBeCloseTo(values, 11);

    const sum = (from: number, to: number) => total(roots.slice(from, to));
    expect(multiply(sum(0, 4), sum(10, 18)).exact?.terms.length).toBe(32);
    expect(multiply(sum(0, 3), sum(10, 21)).exact).toBeNull();

    const ones = (count: number) => Array<Num>(count).fill(integer(1));
    expect(dot(roots.slice(0, 16), ones(16)).exact).not.toBeNull();
    expect(dot(roots.slice(0, 17), ones(17)).exact).toBeNull();

    const large = (bits: number) => ratio(power(fraction(2), bits));
    expect(multiply(large(1047), large(1000)).exact).not.toBeNull();
    expect(multiply(large(1048), large(1000)).exact).toBeNull();
    expect(multiply(large(-1048), large(-1000)).exact).toBeNull();
  });
});
