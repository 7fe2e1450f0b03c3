"""The text form of worksheet numbers: read and write them exactly.

A number is a JSON number read as written (0.1 is one tenth) or a text made of numerals, `+`, `-`,
`*`, `/`, brackets, `ln` and `sqrt` of a fraction. `exact_text` writes what `parse_number` reads.
"""

import re
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import prod

from manyheads.core.errors import WorksheetError
from manyheads.core.text import quoted
from manyheads.worksheets.arithmetic import (
    ZERO,
    Number,
    Term,
    add,
    decimal_of,
    logarithm,
    multiply,
    negative,
    reciprocal,
    square_root,
    terms_of,
)

MAX_LENGTH, MAX_DIGITS, MAX_EXPONENT, MAX_DEPTH = 100, 30, 30, 20
"""Limits on one number: characters, digits of a numeral, power of ten, brackets within brackets."""
_MAX_SIZE = 10**MAX_EXPONENT
_MAX_PART = 10**60
_TOKEN = re.compile(
    r"\s*(?:((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)|([A-Za-z]+)|([-+*/()]))"
)
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
NUMBER_FORM = 'use a number such as 0.25, "1/7", "-sqrt(2)" or "ln(2)"'
"""How numbers are written in a worksheet file, for the end of an error."""


class Literal(str):
    """A JSON number, kept as it was written."""

    __slots__ = ()

    def __repr__(self) -> str:
        """The number as it was written, without quotes, in messages."""
        return str(self)


class NumberError(ValueError):
    """Why a value is not a number; `parse_number` adds the place."""


def is_json_number(text: str) -> bool:
    """Whether a text is a number as JSON writes it."""
    return _JSON_NUMBER.fullmatch(text) is not None


def shown(value: object) -> str:
    """Name a JSON value in an error message."""
    if isinstance(value, bool):
        return str(value).lower()
    return {dict: "an object", list: "a list", type(None): "null"}.get(type(value)) or quoted(value)


def parse_number(value: object, place: str = "number") -> Number:
    """Read one number exactly.

    Args:
        value: a text in the form above, an int, a Fraction, or a float (read as Python prints it).
        place: where the number was given, for the error.

    Raises:
        WorksheetError: not a number, not finite, not real, or beyond the limits of this module.
    """
    try:
        return number_from(value)
    except NumberError as error:
        raise WorksheetError(f"{place} ({shown(value)}) {error}") from error


def number_from(value: object) -> Number:
    """Read one number exactly, as `parse_number` does.

    Raises:
        NumberError: as for `parse_number`, without the place.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float, Fraction)):
        raise NumberError(f"must be a number: {NUMBER_FORM}")
    return _number_from_text(value if isinstance(value, str) else _text_of(value))


@lru_cache(maxsize=1000)  # a worksheet repeats few numbers, most of them 0 and 1
def _number_from_text(text: str) -> Number:
    number = _Parser(text).number()
    _check_size(number)
    return number


def _text_of(value: int | float | Fraction) -> str:
    try:
        return str(value)
    except ValueError as error:
        raise NumberError(f"has more than {MAX_DIGITS} digits: use a shorter number") from error


def _check_size(number: Number) -> None:
    if isinstance(number, Decimal):
        raise NumberError("has too many terms: use a shorter sum")
    parts = [term.coefficient for term in terms_of(number)]
    if any(max(abs(c.numerator), c.denominator) > _MAX_PART for c in parts):
        raise NumberError("is too long a fraction: use fewer digits")
    if decimal_of(number).copy_abs() > _MAX_SIZE:  # abs() would round to 28 digits
        raise NumberError(f"is beyond 1e{MAX_EXPONENT}: use a smaller number")


class _Parser:
    """Recursive descent over one text: sum, product, sign, atom."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise NumberError(f"is longer than {MAX_LENGTH} characters: use a shorter number")
        self.tokens, end = [], 0
        text = text.replace("\N{MINUS SIGN}", "-").rstrip()
        while end < len(text):
            found = _TOKEN.match(text, end)
            if found is None:
                raise NumberError(f"cannot be read at character {end + 1}: {NUMBER_FORM}")
            self.tokens.append(found.group().strip())
            end = found.end()
        self.next, self.depth = 0, 0

    def number(self) -> Number:
        value = self._sum()
        if self._peek():
            raise NumberError(
                f"has {quoted(self._peek())} where the number should end: {NUMBER_FORM}"
            )
        return value

    def _peek(self) -> str:
        return self.tokens[self.next] if self.next < len(self.tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self.next += 1
        return token

    def _sum(self) -> Number:
        value = self._product()
        while self._peek() in ("+", "-"):
            sign = self._take()
            right = self._product()
            value = _exact(add(value, right if sign == "+" else negative(right)))
        return value

    def _product(self) -> Number:
        value, before = self._signed(), ""
        while self._peek() in ("*", "/"):
            sign = self._take()
            if sign == before == "/":
                raise NumberError("divides twice in a row: use brackets, as in (1/3)/4")
            before = sign
            right = self._signed()
            value = _exact(multiply(value, right if sign == "*" else _inverse(right)))
        return value

    def _signed(self) -> Number:
        if self.depth > MAX_DEPTH:
            raise NumberError(f"has more than {MAX_DEPTH} nested brackets: use fewer")
        self.depth += 1
        if self._peek() in ("+", "-"):
            sign = self._take()
            if self._peek() in ("+", "-"):
                raise NumberError("has two signs in a row: use one")
            value = self._signed()
            value = negative(value) if sign == "-" else value
        else:
            value = self._atom()
        self.depth -= 1
        return value

    def _atom(self) -> Number:
        token = self._take()
        if token == "(":
            return self._closed()
        if token in ("ln", "sqrt"):
            bracket = self._peek() == "("
            self.next += bracket
            return _function(token, self._closed() if bracket else _numeral(self._take()))
        return _numeral(token)

    def _closed(self) -> Number:
        value = self._sum()
        if self._take() != ")":
            raise NumberError(f"has an open bracket: {NUMBER_FORM}")
        return value


def _exact(number: Number) -> Number:
    if isinstance(number, Decimal):
        raise NumberError("has too many terms: use a shorter sum")
    return number


def _inverse(number: Number) -> Number:
    if number == ZERO:
        raise NumberError("divides by zero: use another divisor")
    inverse = reciprocal(number)
    if isinstance(inverse, Decimal):
        raise NumberError(
            "divides by a sum or logarithm that has no short inverse: use a simpler divisor"
        )
    return inverse


def _function(name: str, argument: Number) -> Number:
    if not isinstance(argument, Fraction):
        raise NumberError(f"takes {name} of a root or logarithm: use {name} of a fraction")
    if name == "sqrt" and argument < 0:
        raise NumberError("takes the square root of a negative number: use sqrt of 0 or more")
    if name == "ln" and argument <= 0:
        raise NumberError(
            "takes the logarithm of a number that is not positive: use ln of more than 0"
        )
    return square_root(argument) if name == "sqrt" else logarithm(argument)


def _numeral(token: str) -> Fraction:
    if not token or not (token[0].isdigit() or token[0] == "."):
        if token == "log":
            raise NumberError(
                "uses log, which may mean two things: use ln for the natural logarithm"
            )
        what = f"has {quoted(token)} instead of a number" if token else "ends too early"
        raise NumberError(f"{what}: {NUMBER_FORM}")
    mantissa, _, exponent = token.lower().partition("e")
    if len(mantissa.replace(".", "")) > MAX_DIGITS:
        raise NumberError(f"has more than {MAX_DIGITS} digits: use a shorter number")
    if (
        len(exponent.lstrip("+-0")) > len(str(MAX_EXPONENT))
        or abs(int(exponent or 0)) > MAX_EXPONENT
    ):
        raise NumberError(f"has a power of ten beyond {MAX_EXPONENT}: use a smaller one")
    return Fraction(mantissa) * Fraction(10) ** int(exponent or 0)


def exact_text(number: Number) -> str:
    """Write an exact number so that `parse_number` reads the same one: 40/7, ln(2), 3*sqrt(2)/5."""
    if isinstance(number, Decimal):
        raise TypeError(f"{number} is not exact and has no exact text")
    terms = _with_joined_logs(terms_of(number))
    texts = [_term_text(*term) for term in terms] or ["0"]
    return texts[0] + "".join(f" - {t[1:]}" if t[0] == "-" else f" + {t}" for t in texts[1:])


def _with_joined_logs(terms: list[Term]) -> list[tuple[Fraction, list[str]]]:
    """Order the terms; write whole multiples of logarithms as one: 2 ln 2 - ln 3 is ln(4/3)."""
    plain = [t for t in terms if t.root == 1 and [power for _, power in t.logs] == [1]]
    small = all(t.coefficient.denominator == 1 and abs(t.coefficient) <= 20 for t in plain)
    joined = (
        prod((Fraction(t.logs[0][0]) ** int(t.coefficient) for t in plain), start=Fraction(1))
        if small
        else 0
    )
    if not plain or not small or max(joined.numerator, joined.denominator) > 10**6:
        return [(t.coefficient, _factors(t)) for t in sorted(terms, key=_order)]
    others = [(t.coefficient, _factors(t)) for t in sorted(terms, key=_order) if t not in plain]
    sign = Fraction(-1 if joined < 1 else 1)
    return [*others, (sign, [f"ln({joined if sign > 0 else 1 / joined})"])]


def _order(term: Term) -> tuple[int, tuple[tuple[int, int], ...], int]:
    return len(term.logs), term.logs, term.root


def _factors(term: Term) -> list[str]:
    root = [f"sqrt({term.root})"] if term.root != 1 else []
    return root + [f"ln({base})" for base, power in term.logs for _ in range(power)]


def _term_text(coefficient: Fraction, factors: Iterable[str]) -> str:
    sign, size = "-" if coefficient < 0 else "", abs(coefficient)
    leading = [] if size.numerator == 1 and factors else [str(size.numerator)]
    ending = f"/{size.denominator}" if size.denominator != 1 else ""
    return sign + "*".join([*leading, *factors]) + ending
