/** Numbers of 16 bits as float32, which holds each of them exactly. */

/** Read IEEE half precision: 1 sign, 5 exponent and 10 fraction bits. */
export function fromFloat16(halves: Uint16Array, into: Float32Array): void {
  const bits = new Uint32Array(into.buffer, into.byteOffset, into.length);
  for (let i = 0; i < halves.length; i++) {
    const half = halves[i] as number;
    const exponent = half & 0x7c00;
    const sign = (half & 0x8000) << 16;
    if (exponent === 0) {
      // Zero, or a subnormal: the fraction counts in units of 2**-24.
      into[i] = (sign ? -1 : 1) * (half & 0x3ff) * 2 ** -24;
    } else {
      const magnitude = exponent === 0x7c00 ? 0x7f800000 : (exponent << 13) + (112 << 23);
      bits[i] = sign | magnitude | ((half & 0x3ff) << 13);
    }
  }
}

/** Read bfloat16, the upper half of a float32. */
export function fromBfloat16(halves: Uint16Array, into: Float32Array): void {
  const bits = new Uint32Array(into.buffer, into.byteOffset, into.length);
  for (let i = 0; i < halves.length; i++) bits[i] = (halves[i] as number) << 16;
}
