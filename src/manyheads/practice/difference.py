"""Compares what a learner's answer returns with what the solution returns, in one sentence."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyheads.practice.case import Case
from manyheads.practice.running import Ran


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How an answer differs from the solution in one call."""

    kind: str
    """raises, changed, returns, shape, dtype, numbers or gradient."""
    says: str
    """One sentence."""
    case: Case
    """The call."""
    file: str | None = None
    """The file of the line that raises."""
    line: int | None = None
    """The line that raises."""
    evidence: dict[str, Any] = field(default_factory=dict)
    """The measured numbers."""


def difference(want: Ran, have: Ran, case: Case) -> Difference | None:
    """How a call differs from that of the solution; None where it does not."""
    if have.raised is not None:
        raised = have.raised
        return Difference(
            kind="raises", says=raised.says, case=case, file=raised.file, line=raised.line
        )
    if len(want.values) != len(have.values):
        says = f"it returns {len(have.values)} values, expected {len(want.values)}"
        return Difference(kind="returns", says=says, case=case)
    for number, (a, b) in enumerate(zip(want.values, have.values, strict=True), start=1):
        name = "the output" if len(want.values) == 1 else f"result {number}"
        found = _value(name, a, b, case)
        if found is not None:
            return found
    if have.changed:
        says = f"it changes its argument {have.changed[0]} in place"
        return Difference(kind="changed", says=says, case=case)
    return _gradient(want, have, case)


def _value(name: str, want: object, have: object, case: Case) -> Difference | None:
    if not isinstance(want, Tensor):
        if isinstance(have, Tensor) and have.numel() == 1:
            have = have.item()
        if type(want) is type(have) and want == have:
            return None
        says = f"{name} is {_described(have)}, expected {_described(want)}"
        return Difference(kind="returns", says=says, case=case)
    if not isinstance(have, Tensor):
        hint = ": a return is missing" if have is None else ""
        says = f"{name} is {_described(have)}, expected a tensor of shape {tuple(want.shape)}{hint}"
        return Difference(kind="returns", says=says, case=case)
    if want.shape != have.shape:
        says = f"{name} has shape {tuple(have.shape)}, expected {tuple(want.shape)}"
        return Difference(kind="shape", says=says, case=case)
    if want.dtype != have.dtype:
        says = f"{name} has dtype {have.dtype}, expected {want.dtype}"
        return Difference(kind="dtype", says=says, case=case)
    if is_close(want, have, case.tolerance):
        return None
    says, evidence = _numbers(name, want.detach(), have.detach(), case)
    return Difference(kind="numbers", says=says, case=case, evidence=evidence)


def _described(value: object) -> str:
    return "None" if value is None else f"{type(value).__name__} {str(value)[:30]}"


def is_close(want: Tensor, have: Tensor, tolerance: float, least: float = 1e-3) -> bool:
    """Whether two tensors hold the same numbers within a fraction of the largest one.

    Args:
        want: the right numbers.
        have: the others.
        tolerance: the fraction.
        least: the largest number is taken to be at least this.
    """
    if want.shape != have.shape:
        return False
    if not want.is_floating_point():
        return torch.equal(want, have)
    a, b = want.detach().double(), have.detach().double()
    finite = torch.isfinite(a)
    if not torch.equal(finite, torch.isfinite(b)):
        return False
    if not torch.equal(a[~finite].nan_to_num(0.5), b[~finite].nan_to_num(0.5)):
        return False
    if not bool(finite.any()):
        return True
    size = max(float(a[finite].abs().max()), least)
    return float((a[finite] - b[finite]).abs().max()) <= tolerance * size


def _numbers(name: str, want: Tensor, have: Tensor, case: Case) -> tuple[str, dict[str, Any]]:
    """What the numbers say."""
    if not want.is_floating_point():
        wrong = want != have
    else:
        wrong = ~torch.isclose(have, want, rtol=1e-4, atol=1e-6, equal_nan=True)
        wrong = wrong if bool(wrong.any()) else want != have
    place = tuple(int(i) for i in wrong.nonzero()[0].tolist())
    evidence: dict[str, Any] = {
        "entry": list(place),
        "expected": _plain(want[place]),
        "found": _plain(have[place]),
        "wrong": int(wrong.sum()),
        "numbers": want.numel(),
    }
    first = f"{name}{list(place) if place else ''} is {evidence['found']}"
    first += f", expected {evidence['expected']}"
    counted = f"{evidence['wrong']} of {want.numel()} numbers differ"
    factor = factor_of(want, have) if want.is_floating_point() else None
    if factor is not None:
        evidence["factor"] = factor
    how = _how(want, have)
    return f"{first}; {how or counted}", evidence


def _plain(x: Tensor) -> bool | int | float | str:
    value = x.item()
    if isinstance(value, float):
        return round(value, 5) if math.isfinite(value) else str(value)
    assert isinstance(value, int)
    return value


def _how(want: Tensor, have: Tensor) -> str:
    """One relation of all numbers, if there is one."""
    if not want.is_floating_point():
        return "True and False are exchanged" if torch.equal(want, ~have) else ""
    factor = factor_of(want, have)
    if factor is not None:
        return f"all numbers are {factor:.4g} times what they should be"
    if bool(have.isnan().any()) and not bool(want.isnan().any()):
        return f"{int(have.isnan().sum())} of {have.numel()} numbers are NaN"
    if _ordered_alike(want, have):
        return "the numbers are right, but their order is not"
    if bool((have == 0).all()):
        return "all numbers are zero"
    return ""


def _ordered_alike(want: Tensor, have: Tensor) -> bool:
    return is_close(want.flatten().sort().values, have.flatten().sort().values, 1e-7)


def factor_of(want: Tensor, have: Tensor) -> float | None:
    """The one number, other than 1, that takes what is wanted to what is there."""
    a, b = want.detach().double().flatten(), have.detach().double().flatten()
    keep = torch.isfinite(a) & (a.abs() > 1e-6)
    if a.shape != b.shape or int(keep.sum()) < 4 or not bool(torch.isfinite(b[keep]).all()):
        return None
    ratio = b[keep] / a[keep]
    mean = float(ratio.mean())
    if float((ratio - mean).abs().max()) > 1e-4 * abs(mean) or abs(mean - 1) < 1e-3:
        return None
    return mean


def _gradient(want: Ran, have: Ran, case: Case) -> Difference | None:
    """The first input or parameter whose gradient is another."""
    largest = max(
        (float(x.abs().max()) for x in want.gradients.values() if x is not None), default=0
    )
    for name, a in want.gradients.items():
        b = have.gradients.get(name)
        if a is None and b is None:
            continue
        zero = a if a is not None else b
        assert zero is not None
        mine = torch.zeros_like(zero) if b is None else b
        ours = torch.zeros_like(zero) if a is None else a
        if is_close(ours, mine, 10 * case.tolerance, max(1e-3, 0.01 * largest)):
            continue
        says = f"the output is right, but the gradient of {name} is not"
        if b is None or bool((mine == 0).all()):
            says += ": no gradient arrives (detach, .data, no_grad or a copy cuts it)"
        elif bool(mine.isnan().any()):
            says += ": it has NaN"
        gap = float(np.nan_to_num(float((ours - mine).abs().max()), nan=0.0))
        return Difference(kind="gradient", says=says, case=case, evidence={"gap": gap})
    return None
