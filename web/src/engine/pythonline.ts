/** A number's arithmetic as one line of Python that sets `value` from the numbers shown. */

import type { Num } from "../numbers/exact";
import { pythonFloat, pythonNumber } from "../numbers/show";
import type { Kind, Part } from "./rules";

/** Powers beyond this leave float64. */
const LARGEST = 700;

function softmaxText(terms: readonly Part[]): string {
  const most = terms.reduce((m, { value }) => Math.max(m, value.value), Number.NEGATIVE_INFINITY);
  const isLarge = terms.some(({ value }) => Math.abs(value.value) > LARGEST);
  const less = isLarge ? ` - ${most < 0 ? `(${pythonFloat(most)})` : pythonFloat(most)}` : "";
  const powers = terms.map(({ value }) => `exp(${pythonNumber(value)}${less})`);
  return `${powers[0]}/(${powers.join(" + ")})`;
}

function expression(
  value: Num,
  kind: Kind,
  products: readonly (readonly Part[])[],
  terms: readonly Part[],
  width: number,
): string {
  const [first = "", second = ""] = terms.map((part) => pythonNumber(part.value));
  const sums = products.map((parts) => parts.map((part) => pythonNumber(part.value)).join("*"));
  const texts: Record<Kind, () => string> = {
    given: () => pythonNumber(value),
    sum: () => sums.join(" + "),
    root: () => `1/sqrt(${width})`,
    blocked: () => 'float("-inf")',
    power: () => (Number.isFinite(value.value) ? `exp(${first})` : pythonFloat(value.value)),
    ratio: () => `${first}/${second}`,
    rectified: () => `max(0, ${first})`,
    softmax: () => softmaxText(terms),
  };
  return texts[kind]();
}

export function pythonLine(
  value: Num,
  kind: Kind,
  products: readonly (readonly Part[])[],
  terms: readonly Part[],
  width: number,
): string {
  const text = expression(value, kind, products, terms, width);
  const names = ["exp", "log", "sqrt"].filter((name) => text.includes(`${name}(`));
  const imports = names.length > 0 ? `from math import ${names.join(", ")}; ` : "";
  return `${imports}value = ${text}`;
}
