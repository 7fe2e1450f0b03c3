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

/** A matrix (rows, columns) on its side: (columns, rows). */
export function turned(matrix: Float32Array, rows: number): Float32Array {
  const columns = matrix.length / rows;
  const into = new Float32Array(matrix.length);
  for (let first = 0; first < rows; first += 16)
    for (let column = 0; column < columns; column++)
      for (let row = first; row < Math.min(rows, first + 16); row++)
        into[column * rows + row] = matrix[row * columns + column] as number;
  return into;
}

/**
 * Add a vector times a matrix (inputs, outputs) to `into` (outputs), eight inputs at a time.
 *
 * Inputs of zero cost nothing: after a ReLU, most are.
 *
 * @param begin the first input that counts.
 */
export function addProduct(
  vector: Float64Array,
  matrix: Float32Array,
  into: Float64Array,
  begin = 0,
): void {
  const active: number[] = [];
  for (let i = begin; i < vector.length; i++) if (vector[i] !== 0) active.push(i);
  while (active.length % 8 !== 0) active.push(-1);
  for (let at = 0; at < active.length; at += 8) addEight(vector, matrix, into, active, at);
}

/** Add the products of eight inputs; an input of -1 is none. */
function addEight(
  vector: Float64Array,
  matrix: Float32Array,
  into: Float64Array,
  active: readonly number[],
  at: number,
): void {
  const { length } = into;
  const input = (n: number) => Math.max(0, active[at + n] as number);
  const factor = (n: number) => ((active[at + n] as number) < 0 ? 0 : (vector[input(n)] as number));
  const [a, b, c, d] = [input(0) * length, input(1) * length, input(2) * length, input(3) * length];
  const [e, f, g, h] = [input(4) * length, input(5) * length, input(6) * length, input(7) * length];
  const [p, q, r, s] = [factor(0), factor(1), factor(2), factor(3)];
  const [t, u, v, w] = [factor(4), factor(5), factor(6), factor(7)];
  for (let j = 0; j < length; j++)
    into[j] =
      (into[j] as number) +
      (p * (matrix[a + j] as number) + q * (matrix[b + j] as number)) +
      (r * (matrix[c + j] as number) + s * (matrix[d + j] as number)) +
      (t * (matrix[e + j] as number) + u * (matrix[f + j] as number)) +
      (v * (matrix[g + j] as number) + w * (matrix[h + j] as number));
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
