"""The arithmetic of one number as a line of Python, as the page offers it for copying.

The page writes the same lines itself (`web/src/engine/pythonline.ts`); those here are run by the
tests, and the page's are compared with them.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from math import isfinite

from manyheads.worksheets.arithmetic import Number, float_of
from manyheads.worksheets.explain import Step
from manyheads.worksheets.numbers import exact_text

_LONGEST = 40
_LARGEST = 700
"""Powers beyond this leave float64."""


def python_line(step: Step, value_of: Callable[[str], Number], head_dim: int) -> str:
    """Write the line that sets `value`.

    Args:
        step: how the number is made.
        value_of: finds the numbers that are used, by name.
        head_dim: d, of which a scale that is not given is 1/sqrt(d).
    """
    text = _expression(step, value_of, head_dim)
    names = [name for name in ("exp", "log", "sqrt") if f"{name}(" in text]
    return f"from math import {', '.join(names)}; value = {text}" if names else f"value = {text}"


def _expression(step: Step, value_of: Callable[[str], Number], head_dim: int) -> str:
    used = [value_of(name) for name in step.uses]
    texts = [_text(number) for number in used]
    if step.kind == "sum":
        products = ("*".join(_text(value_of(name)) for name in term) for term in step.terms)
        return " + ".join(products)
    if step.kind == "softmax":
        return _softmax(used)
    if step.kind == "power":
        value = float_of(step.value)
        return f"exp({texts[0]})" if isfinite(value) else _float(value)
    plain: dict[str, Callable[[], str]] = {
        "given": lambda: _text(step.value),
        "root": lambda: f"1/sqrt({head_dim})",
        "blocked": lambda: 'float("-inf")',
        "ratio": lambda: f"{texts[0]}/{texts[1]}",
        "rectified": lambda: f"max(0, {texts[0]})",
    }
    return plain[step.kind]()


def _softmax(used: Sequence[Number]) -> str:
    values = [float_of(number) for number in used]
    most = _float(max(values))
    less = f" - {f'({most})' if most.startswith('-') else most}"
    shift = less if any(abs(value) > _LARGEST for value in values) else ""
    powers = [f"exp({_text(number)}{shift})" for number in used]
    return f"{powers[0]}/({' + '.join(powers)})"


def _float(value: float) -> str:
    return repr(value) if isfinite(value) else f'float("{value}")'


def _text(number: Number) -> str:
    text = "" if isinstance(number, Decimal) else exact_text(number)
    if not text or len(text) > _LONGEST:
        text = _float(float_of(number))
    text = text.replace("ln(", "log(")
    is_plain = text.startswith("float") or all(c in "0123456789." for c in text)
    return text if is_plain else f"({text})"
