/** Products with a matrix on its side, against the plain double loop. */
import { describe, expect, it } from "vitest";
import { addProduct, multiply, turned } from "../../src/models/engine/matrix";
import { PCG32 } from "../../src/models/engine/sampling";

const draws = new PCG32(5);
const numbers = (length: number) => Float32Array.from({ length }, () => draws.uniform() - 0.5);

describe("a product", () => {
  it.each([
    [1, 1],
    [3, 7],
    [8, 5],
    [17, 16],
    [33, 40],
  ])("of %i outputs and %i inputs is the same on its side", (outputs, inputs) => {
    const matrix = numbers(outputs * inputs);
    const vector = new Float64Array(numbers(inputs));
    vector[inputs >> 1] = 0;
    const wanted = new Float64Array(outputs);
    multiply(matrix, vector, wanted);
    const found = new Float64Array(outputs).fill(2);
    addProduct(vector, turned(matrix, outputs), found);
    for (const [at, sum] of found.entries()) expect(sum - 2).toBeCloseTo(wanted[at] ?? 0, 13);
  });

  it("counts inputs from the first that it is told", () => {
    const matrix = Float32Array.from([1, 10, 100, 2, 20, 200]);
    const found = new Float64Array(2);
    addProduct(new Float64Array([5, 6, 7]), turned(matrix, 2), found, 1);
    expect([...found]).toEqual([760, 1520]);
  });

  it("keeps an input that is no number", () => {
    const found = new Float64Array(1);
    addProduct(new Float64Array([Number.NaN]), Float32Array.of(0), found);
    expect(found[0]).toBeNaN();
  });
});
