"""Numbers for a reader: rounded, or as short exact text. Only the display is rounded."""

from decimal import Decimal
from fractions import Fraction

from manyheads.worksheets.arithmetic import Number, float_of, is_exact
from manyheads.worksheets.numbers import exact_text

LONGEST = 16


def rounded(value: float) -> str:
    """Write a float with 3 decimals, or with a power of ten if it is small or large."""
    if value != value or value in (float("inf"), float("-inf")):
        return {float("inf"): "inf", float("-inf"): "-inf"}.get(value, "nan")
    if value == 0:
        return "0"
    if 0.0005 <= abs(value) < 1e6:
        text = f"{value:.3f}"
        return text[:-4] if text.endswith(".000") and value == round(value) else text
    return f"{value:.2e}"


def fraction_text(number: Number, longest: int = LONGEST) -> str:
    """Write a number as exact text if that is known and short enough, else rounded."""
    if not isinstance(number, (float, Decimal)):
        text = exact_text(number)
        if len(text) <= longest:
            return text
    return rounded(float_of(number) if not isinstance(number, float) else number)


def given_text(number: Number) -> str:
    """Write a given number: 0.25 if four decimals are exact, else as `fraction_text`."""
    if isinstance(number, Fraction) and 10000 % number.denominator == 0:
        return f"{float(number):.10g}" if abs(number) < 10**9 else rounded(float_of(number))
    return fraction_text(number)


def decimal_text(number: Number) -> str:
    """Write a number for a formula in decimals: 0.25, 3.005, 0.00642."""
    if isinstance(number, Fraction) and 10000 % number.denominator == 0:
        return given_text(number)
    value = float_of(number)
    return f"{value:.3g}" if 1e-4 <= abs(value) < 0.0995 else rounded(value)


def full_text(number: Number) -> str:
    """Write a number in full: exact text and decimals, or all decimals of a float64."""
    value = float_of(number)
    if not is_exact(number):
        return repr(value)
    if isinstance(number, Decimal):
        return "-inf"
    text = exact_text(number)
    if isinstance(number, Fraction) and number.denominator == 1:
        return text
    return f"{text} = {value!r}" if len(text) <= 60 else repr(value)
