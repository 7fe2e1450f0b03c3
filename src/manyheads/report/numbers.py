"""Numbers as reports write them; what is not known is a dash."""

from collections.abc import Sequence

Number = int | float
ABSENT = "-"


def fixed(value: Number | None, digits: int = 4) -> str:
    """A number with so many digits behind the point."""
    return ABSENT if value is None else f"{value:.{digits}f}"


def signed(value: Number | None, digits: int = 4) -> str:
    """A difference, with its sign."""
    return ABSENT if value is None else f"{value:+.{digits}f}"


def whole(value: Number | None) -> str:
    """A count with separators."""
    return ABSENT if value is None else f"{value:,.0f}"


def interval(ends: Sequence[Number] | None, digits: int = 4) -> str:
    """Both ends of an interval of differences."""
    return ABSENT if ends is None else f"{signed(ends[0], digits)} to {signed(ends[1], digits)}"


def mean_sd(mean: Number | None, sd: Number | None, digits: int = 4) -> str:
    """Mean and standard deviation in one cell."""
    if mean is None or sd is None:
        return fixed(mean, digits)
    return f"{mean:.{digits}f} ± {sd:.{digits}f}"


def listed(items: Sequence[object]) -> str:
    """`a`, `a and b`, or `a, b and c`."""
    words = [str(item) for item in items]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def counted(number: int, noun: str) -> str:
    """`1 seed`, `2 seeds`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
