/**
 * The text form of numbers, read exactly: numerals, `+ - * /`, brackets, `ln` and `sqrt` of a fraction.
 * The rules, limits and reasons are those of the Python engine, so that a text means the same to both.
 */

import { add, isZero, logarithm, multiply, negative, reciprocal, squareRoot } from "./arithmetic";
import { type Num, ratio } from "./exact";
import { absolute, fraction, power, times, whole } from "./fraction";

export interface NumberError {
  readonly error: string;
}

export function isError(result: object): result is NumberError {
  return "error" in result;
}

const MAX_LENGTH = 100;
const MAX_DIGITS = 30;
const MAX_EXPONENT = 30;
const MAX_DEPTH = 20;
const MAX_PART = 10n ** 60n;
const TOKEN = /\s*(?:((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)|([A-Za-z]+)|([-+*/()]))/y;
/** How numbers are written in a worksheet file, said at the end of an error. */
export const NUMBER_FORM = 'use a number such as 0.25, "1/7", "-sqrt(2)" or "ln(2)"';

class Refusal extends Error {}

/** Show a text in an error message: one line, printable, shortened. */
export function quoted(text: string, limit = 40): string {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  const shown = [...text]
    .map((c) => (/[\p{C}\p{Z}]/u.test(c) && c !== " " ? coded(c) : c))
    .join("");
  const whole = `${mark}${shown}${mark}`;
  return whole.length <= limit ? whole : `${whole.slice(0, limit - 3)}...`;
}

function coded(character: string): string {
  return `\\x${(character.codePointAt(0) ?? 0).toString(16).padStart(2, "0")}`;
}

/** The signs that the page shows, as they are typed: √2·ln(3) becomes sqrt 2*ln(3). */
export function plainText(text: string): string {
  return text
    .replace(/\u221a/g, "sqrt ")
    .replace(/[\u00b7\u00d7]/g, "*")
    .replace(/\u2212/g, "-")
    .trim();
}

/** Read one number exactly, or say why the text is none. */
export function parseNumber(text: string, place = "number"): Num | NumberError {
  try {
    const number = new Parser(plainText(text)).number();
    checkSize(number);
    return number;
  } catch (reason) {
    if (!(reason instanceof Refusal)) throw reason;
    return { error: `${place} (${quoted(text)}) ${reason.message}` };
  }
}

function checkSize(number: Num): void {
  for (const { coefficient } of number.exact?.terms ?? []) {
    if (absolute(coefficient.num) > MAX_PART || coefficient.den > MAX_PART) {
      throw new Refusal("is too long a fraction: use fewer digits");
    }
  }
  if (Math.abs(number.value) > 1e30) {
    throw new Refusal("is beyond 1e30: use a smaller number");
  }
}

function exactly(number: Num): Num {
  if (number.exact === null) throw new Refusal("has too many terms: use a shorter sum");
  return number;
}

/** Recursive descent over one text: sum, product, sign, atom. */
class Parser {
  private readonly tokens: string[] = [];
  private next = 0;
  private depth = 0;

  constructor(text: string) {
    if (text.length > MAX_LENGTH) {
      throw new Refusal(`is longer than ${MAX_LENGTH} characters: use a shorter number`);
    }
    for (let end = 0; end < text.length; end = TOKEN.lastIndex) {
      TOKEN.lastIndex = end;
      const found = TOKEN.exec(text);
      if (!found) throw new Refusal(`cannot be read at character ${end + 1}: ${NUMBER_FORM}`);
      this.tokens.push(found[0].trim());
    }
  }

  number(): Num {
    const value = this.sum();
    const rest = this.peek();
    if (rest) throw new Refusal(`has ${quoted(rest)} where the number should end: ${NUMBER_FORM}`);
    return value;
  }

  private peek(): string {
    return this.tokens[this.next] ?? "";
  }

  private take(): string {
    const token = this.peek();
    this.next += 1;
    return token;
  }

  private sum(): Num {
    let value = this.product();
    while (this.peek() === "+" || this.peek() === "-") {
      const sign = this.take();
      const right = this.product();
      value = exactly(add(value, sign === "+" ? right : negative(right)));
    }
    return value;
  }

  private product(): Num {
    let value = this.signed();
    let before = "";
    while (this.peek() === "*" || this.peek() === "/") {
      const sign = this.take();
      if (sign === "/" && before === "/") {
        throw new Refusal("divides twice in a row: use brackets, as in (1/3)/4");
      }
      before = sign;
      const right = this.signed();
      value = exactly(multiply(value, sign === "*" ? right : inverted(right)));
    }
    return value;
  }

  private signed(): Num {
    if (this.depth > MAX_DEPTH) {
      throw new Refusal(`has more than ${MAX_DEPTH} nested brackets: use fewer`);
    }
    this.depth += 1;
    const sign = this.peek();
    let value: Num;
    if (sign === "+" || sign === "-") {
      this.take();
      if (this.peek() === "+" || this.peek() === "-") {
        throw new Refusal("has two signs in a row: use one");
      }
      value = sign === "-" ? negative(this.signed()) : this.signed();
    } else {
      value = this.atom();
    }
    this.depth -= 1;
    return value;
  }

  private atom(): Num {
    const token = this.take();
    if (token === "(") return this.closed();
    if (token !== "ln" && token !== "sqrt") return numeral(token);
    if (this.peek() !== "(") return applied(token, numeral(this.take()));
    this.take();
    return applied(token, this.closed());
  }

  private closed(): Num {
    const value = this.sum();
    if (this.take() !== ")") throw new Refusal(`has an open bracket: ${NUMBER_FORM}`);
    return value;
  }
}

function inverted(number: Num): Num {
  if (isZero(number)) throw new Refusal("divides by zero: use another divisor");
  const inverse = reciprocal(number);
  if (inverse.exact === null) {
    throw new Refusal(
      "divides by a sum or logarithm that has no short inverse: use a simpler divisor",
    );
  }
  return inverse;
}

function applied(name: "ln" | "sqrt", argument: Num): Num {
  const given = argument.exact?.ratio;
  if (!given) throw new Refusal(`takes ${name} of a root or logarithm: use ${name} of a fraction`);
  if (name === "sqrt" && given.num < 0) {
    throw new Refusal("takes the square root of a negative number: use sqrt of 0 or more");
  }
  if (name === "ln" && given.num <= 0) {
    throw new Refusal(
      "takes the logarithm of a number that is not positive: use ln of more than 0",
    );
  }
  return name === "sqrt" ? squareRoot(given) : logarithm(given);
}

function numeral(token: string): Num {
  if (!/^[0-9.]/.test(token)) {
    if (token === "log") {
      throw new Refusal("uses log, which may mean two things: use ln for the natural logarithm");
    }
    const what = token ? `has ${quoted(token)} instead of a number` : "ends too early";
    throw new Refusal(`${what}: ${NUMBER_FORM}`);
  }
  const [mantissa = "", exponent = "0"] = token.toLowerCase().split("e");
  const digits = mantissa.replace(".", "");
  if (digits.length > MAX_DIGITS) {
    throw new Refusal(`has more than ${MAX_DIGITS} digits: use a shorter number`);
  }
  if (Math.abs(Number(exponent)) > MAX_EXPONENT) {
    throw new Refusal(`has a power of ten beyond ${MAX_EXPONENT}: use a smaller one`);
  }
  const decimals = mantissa.includes(".") ? mantissa.length - mantissa.indexOf(".") - 1 : 0;
  const ten = power({ num: 10, den: 1 }, Number(exponent) - decimals);
  return ratio(times(fraction(whole(BigInt(digits))), ten));
}
