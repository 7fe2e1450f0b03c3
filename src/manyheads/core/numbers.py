"""Checks of single numbers among arguments; the messages name the argument and its value."""

import math
from numbers import Integral, Real

from manyheads.core.errors import ConfigError


def divisors(number: int) -> str:
    """The divisors of a number as text, the middle ones left out where there are many."""
    low = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    found = [str(n) for n in sorted({*low, *(number // n for n in low)})]
    shown = found if len(found) <= 6 else [*found[:5], "...", found[-1]]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"


def whole_number(name: str, value: object) -> int:
    """Check that an argument is an integer, also one of NumPy, and return it as an `int`.

    Raises:
        ConfigError: it is of another type.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ConfigError(f"{name} ({value!r}) must be a whole number: use an int such as 8")
    return int(value)


def check_count(name: str, value: object, least: int = 1) -> int:
    """Check that an argument is an integer of at least `least`.

    Raises:
        ConfigError: it is of another type, or smaller.
    """
    number = whole_number(name, value)
    if number < least:
        raise ConfigError(f"{name} ({number}) must be at least {least}: use {least} or more")
    return number


def _is_finite(value: Real) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number or fraction beyond the largest float
        return False


def _shown(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 1024:
        return f"an int of {value.bit_length()} bits"
    return repr(value)


def check_number(name: str, value: object, remedy: str) -> float:
    """Check that an argument is a finite number, and return it as a `float`.

    Raises:
        ConfigError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not _is_finite(value):
        raise ConfigError(f"{name} ({_shown(value)}) must be a finite number: {remedy}")
    return float(value)
