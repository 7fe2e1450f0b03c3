"""What a learner types, read: fractions, decimals, percentages, roots, logarithms, several at once.

A decimal number means any number that rounds to it; everything else is exact. A number with
twelve digits or more was computed by a machine and may be off by its rounding.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from manyheads.core.errors import LearnError, WorksheetError
from manyheads.core.text import quoted
from manyheads.worksheets.arithmetic import Number, decimal_of, multiply
from manyheads.worksheets.numbers import NUMBER_FORM, Literal, parse_number

LEAST_DIGITS = 3
"""A rounded decimal needs so many significant digits, or so many decimals: 3.71, 0.008."""
MAX_TEXT, MAX_NUMBERS = 600, 24
"""Limits on one answer: characters and numbers."""
_LEAST_HALF = Fraction(1, 2 * 10**LEAST_DIGITS)
_DECIMAL = re.compile(
    r"[+-]?\s*(?:(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,3}))?|[0-9]+[eE]([+-]?[0-9]{1,3}))"
)
_WHOLE = re.compile(r"[+-]?\s*[0-9]+")
_SIGNS = str.maketrans(
    {
        "\N{MINUS SIGN}": "-",
        "\N{EN DASH}": "-",
        "\N{MULTIPLICATION SIGN}": "*",
        "\N{DOT OPERATOR}": "*",
        "\N{MIDDLE DOT}": "*",
        "\N{DIVISION SIGN}": "/",
        "\N{FRACTION SLASH}": "/",
    }
)
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_FORM = "type fractions or decimals with a point, such as 1/3, 0.333, 33.3%, ln 2, 3*sqrt(2)"


@dataclass(frozen=True, kw_only=True)
class Typed:
    """One number as it was typed."""

    text: str
    """The text."""
    value: Number
    """Its value."""
    half_unit: Fraction | None
    """The largest distance of a number that rounds to it; None if it is exact."""
    digits: int
    """Significant digits of a decimal number."""


def typed_numbers(text: str) -> tuple[Typed, ...]:
    """Read an answer: numbers between commas, semicolons or spaces, brackets around them or not.

    Raises:
        LearnError: the text is empty, too long, or not a number.
    """
    parts = _cut(text)
    if len(parts) > MAX_NUMBERS:
        raise LearnError(f"answer ({len(parts)} numbers) has more than {MAX_NUMBERS}: use fewer")
    return tuple(_typed(part, f"number {i + 1}") for i, part in enumerate(parts))


def typed_number(text: str) -> Typed:
    """Read an answer of one number.

    Raises:
        LearnError: the text is empty, too long, or not a number.
    """
    parts = _cut(text)
    if len(parts) > 1:
        raise LearnError(f"answer ({len(parts)} numbers) must be one number: {_FORM}")
    return _typed(parts[0], "answer")


def _cut(text: str) -> list[str]:
    if len(text) > MAX_TEXT:
        raise LearnError(
            f"answer ({len(text)} characters) is longer than {MAX_TEXT}: use short fractions, or "
            f"decimals with {LEAST_DIGITS} digits"
        )
    parts = _parts(_unwrapped(_plain(text)))
    if not parts:
        raise LearnError(f"answer () is empty: {_FORM}")
    return parts


def _plain(text: str) -> str:
    """Write signs as a keyboard has them; 3√2 and 2ln2 become products."""
    text = text.translate(_SIGNS).replace("\N{SQUARE ROOT}", "sqrt ").lower().strip()
    return re.sub(r"(?<=[0-9)])(?=ln|sqrt)", "*", text)


def _unwrapped(text: str) -> str:
    """Take brackets away that enclose the whole answer."""
    while text and text[0] in _PAIRS and _closing(text) == len(text) - 1:
        text = text[1:-1].strip()
    return text


def _closing(text: str) -> int:
    """Where the first bracket is closed, or -1."""
    opened: list[str] = []
    for place, sign in enumerate(text):
        if sign in _PAIRS:
            opened.append(_PAIRS[sign])
        elif opened and sign == opened[-1]:
            opened.pop()
            if not opened:
                return place
    return -1


def _parts(text: str) -> list[str]:
    if re.search(r"[,;]", text):
        parts = [part.strip() for part in re.split(r"[,;]", text)]
        return parts[:-1] if parts[-1] == "" else parts
    return _spaced(text)


def _spaced(text: str) -> list[str]:
    """Cut at spaces, but not around an operator, after a function, or inside brackets."""
    parts: list[str] = []
    is_open = False
    for word in text.split():
        begins = not parts or not (is_open or _continues(parts[-1], word))
        if begins:
            parts.append(word)
        else:
            parts[-1] += f" {word}"
        is_open = parts[-1].count("(") > parts[-1].count(")")
    return parts


def _continues(before: str, word: str) -> bool:
    """Whether a word belongs to the number before it."""
    is_sign = word in ("+", "-") or word[0] in "*/)%"
    after_sign = before.endswith(("*", "/", "(", " +", " -")) or before in ("+", "-")
    return is_sign or after_sign or re.search(r"(?:ln|sqrt|log)$", before) is not None


def _typed(part: str, place: str) -> Typed:
    is_percent = part.endswith("%")
    body = part.removesuffix("%").strip()
    if not body:
        raise LearnError(f"{place} ({quoted(Literal(part))}) is missing: {_FORM}")
    try:
        value = parse_number(body, place)
    except WorksheetError as error:
        raise LearnError(str(error).replace(NUMBER_FORM, _FORM)) from error
    half, digits = _precision(body, is_percent)
    if is_percent:
        value = multiply(value, Fraction(1, 100))
    return Typed(text=part, value=value, half_unit=half, digits=digits)


def _precision(body: str, is_percent: bool) -> tuple[Fraction | None, int]:
    found = _DECIMAL.fullmatch(body)
    if found is None and not (is_percent and _WHOLE.fullmatch(body)):
        return None, 0
    mantissa = re.split("[eE]", body)[0].lstrip("+- ")
    places = len(mantissa.partition(".")[2]) + (2 if is_percent else 0)
    power = int(found[1] or found[2] or 0) if found is not None else 0
    digits = len(mantissa.replace(".", "").lstrip("0"))
    return Fraction(10) ** (power - places) / 2, digits


def how_close(typed: Typed, value: Number) -> str:
    """Compare a typed number with a value: `same`, `rounded`, `coarse` or `other`.

    `coarse` rounds the value to fewer significant digits, and fewer decimals, than are wanted.
    """
    if is_same(typed.value, value):
        return "same"
    distance = _distance(typed.value, value)
    if typed.half_unit is None or distance > _reach(typed, value):
        return "other"
    is_fine = typed.digits >= LEAST_DIGITS or (typed.digits > 0 and typed.half_unit <= _LEAST_HALF)
    return "rounded" if is_fine else "coarse"


def is_right(text: str, value: Number) -> bool:
    """Whether an answer of one number is the value, or the value rounded.

    Raises:
        LearnError: it is no number, or has too few digits to tell.
    """
    close = how_close(typed_number(text), value)
    if close == "coarse":
        raise LearnError(
            f"answer ({text.strip()}) has too few digits: give {LEAST_DIGITS} decimals, or "
            "a fraction"
        )
    return close != "other"


def _reach(typed: Typed, value: Number) -> Decimal:
    """The largest distance of a decimal number from a value that it may mean."""
    half = decimal_of(typed.half_unit) + _SAME
    if typed.digits < MACHINE_DIGITS:
        return half
    return max(half, _MACHINE * max(Decimal(1), abs(decimal_of(value))))


MACHINE_DIGITS = 12
"""Significant digits from which a number is taken for a machine's."""
_MACHINE = decimal_of(Fraction(1, 10**12))


def is_same(left: Number, right: Number) -> bool:
    """Whether two numbers are equal, as far as 50 digits can tell."""
    return _distance(left, right) < _SAME


def _distance(left: Number, right: Number) -> Decimal:
    return abs(decimal_of(left) - decimal_of(right))


_SAME = decimal_of(Fraction(1, 10**35))
"""Numbers that are closer than this are equal; arithmetic keeps 50 digits."""
