/** Sums of products, added up in float64. Each function takes one kind of array only: the browser
 * makes fast code for that, and code five times slower where kinds are mixed. */

/** The product of a vector with as many numbers of `matrix`, from `offset` on. */
function dot(matrix: Float32Array, offset: number, vector: Float64Array): number {
  const { length } = vector;
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  let i = 0;
  for (; i + 3 < length; i += 4) {
    const m = offset + i;
    a += (matrix[m] as number) * (vector[i] as number);
    b += (matrix[m + 1] as number) * (vector[i + 1] as number);
    c += (matrix[m + 2] as number) * (vector[i + 2] as number);
    d += (matrix[m + 3] as number) * (vector[i + 3] as number);
  }
  for (; i < length; i++) a += (matrix[offset + i] as number) * (vector[i] as number);
  return a + b + (c + d);
}

/** matrix (rows, length) times a vector (length), into (rows). */
export function multiply(matrix: Float32Array, vector: Float64Array, into: Float64Array): void {
  const { length } = vector;
  for (let row = 0; row < into.length; row++) into[row] = dot(matrix, row * length, vector);
}

/** Add numbers (length) to those of `into`. */
export function add(numbers: Float32Array, into: Float64Array): void {
  for (let i = 0; i < into.length; i++) into[i] = (into[i] as number) + (numbers[i] as number);
}

/** Replace scores at `begin` to `end` by their softmax. */
export function softmax(scores: Float64Array, begin: number, end: number): void {
  let most = -Infinity;
  for (let i = begin; i < end; i++) most = Math.max(most, scores[i] as number);
  let sum = 0;
  for (let i = begin; i < end; i++) sum += scores[i] = Math.exp((scores[i] as number) - most);
  for (let i = begin; i < end; i++) scores[i] = (scores[i] as number) / sum;
}
