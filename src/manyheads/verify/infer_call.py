"""What a subject does when it is called: who sees whom, what comes back, and what its flags do."""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from manyheads.attention.problem import Problem
from manyheads.verify.calling import Callee, Outcome
from manyheads.verify.infer_trial import Argument
from manyheads.verify.problems import ProblemMaker
from manyheads.verify.subject import CallSpec, Subject

_LENGTH = 9


def influence(callee: Callee, problem: Problem) -> Tensor | None:
    """(T, S): whether outputs of sample 0 move when a key changes; None where a call raises."""
    with torch.no_grad():
        base = callee.call(problem).output
        if base is None:
            return None
        size = float(base.abs().nan_to_num(nan=0.0).max()) or 1.0
        columns = []
        for s in range(problem.x_k.shape[-2]):
            after = callee.call(_moved(problem, s)).output
            if after is None or after.shape != base.shape:
                return None
            gap = (after - base)[0].abs()
            gap = torch.where(
                base[0].isnan() & after[0].isnan(), torch.zeros_like(gap), gap
            ).nan_to_num(nan=size)
            gap = gap.amax(dim=0) if gap.dim() == 3 else gap
            columns.append(gap.amax(dim=-1) > 1e-6 * size)
    return torch.stack(columns, dim=1)


def _moved(problem: Problem, s: int) -> Problem:
    x_k = problem.x_k.clone()
    x_k[0, ..., s, :] += 2.0 * torch.randn(
        x_k.shape[-1], generator=torch.Generator().manual_seed(s), dtype=x_k.dtype
    )
    x_q = x_k if problem.x_q is problem.x_k else problem.x_q
    x_v = x_k if problem.x_v is problem.x_k else problem.x_v.clone()
    if x_v is not x_k:
        x_v[0, ..., s, :] += 2.0
    return replace(problem, x_q=x_q, x_k=x_k, x_v=x_v)


@dataclass(frozen=True, kw_only=True)
class Order:
    """Causality and window, by behaviour."""

    causal: str | None = None
    """"always" where later keys have no influence."""
    window: int | None = None
    """Keys a query sees, where earlier ones have no influence either."""


def find_order(callee: Callee, subject: Subject) -> Order:
    """Whether a subject is causal or windowed without being asked."""
    queries = _LENGTH
    problem = ProblemMaker(subject, None).plain(2, queries, queries, seed=230)
    reached = influence(callee, problem)
    if reached is None or reached.shape != (queries, queries):
        return Order()
    later = torch.ones(queries, queries, dtype=torch.bool).triu(2)
    later[0] = False  # where a token does not see itself, the first has no key left and may see all
    earlier = torch.ones(queries, queries, dtype=torch.bool).tril(-1)
    if bool(reached[later].any()) or not bool(reached[earlier].any()):
        return Order()
    band = int((reached & (earlier | torch.eye(queries, dtype=torch.bool))).sum(dim=1).max())
    distance = torch.arange(queries)[:, None] - torch.arange(queries)[None, :]
    expected = (distance >= 0) & (distance < band)
    is_window = band < queries and bool((reached == expected).all())
    return Order(causal="always", window=band if is_window and band > 1 else None)


def find_causal_argument(callee: Callee, subject: Subject, arguments: list[Argument]) -> str | None:
    """The flag that asks for causality, if the call takes one."""
    problem = ProblemMaker(subject, None).plain(2, 5, 5, seed=231)
    for argument in arguments:
        if argument.role == "causal":
            with torch.no_grad():
                outcomes = [
                    callee.call(problem, **{argument.name: value}) for value in (False, True)
                ]
            if all(outcome.output is not None for outcome in outcomes):
                return argument.name
    return None


@dataclass(frozen=True, kw_only=True)
class Returned:
    """What comes back."""

    returns: str
    """As in a declaration."""
    weights_axes: str = "BHTS"
    """As in a declaration."""
    flags: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """Flags that may take either value."""


def find_returned(callee: Callee, subject: Subject, arguments: list[Argument]) -> Returned:
    """Whether attention weights come back, with which axes, and which flags the call has."""
    maker = ProblemMaker(subject, None)
    heads = subject.spec.heads
    queries = next(n for n in (5, 7, 9) if n != heads)
    problem = maker.plain(next(n for n in (2, 3) if n != heads), queries, queries + 1, seed=232)
    flags: dict[str, tuple[Any, ...]] = {}
    outcomes: list[Outcome] = []
    with torch.no_grad():
        outcomes.append(callee.call(problem))
        for argument in arguments:
            if argument.role == "flag":
                both = [callee.call(problem, **{argument.name: value}) for value in (False, True)]
                if all(outcome.output is not None for outcome in both):
                    flags[argument.name] = (False, True)
                    outcomes += both
    if subject.call.form == "cache":
        return Returned(returns="out,cache", flags=flags)
    axes = next(
        (a for outcome in outcomes if (a := _weights_axes(outcome, problem, heads)) is not None),
        None,
    )
    if axes is None:
        return Returned(returns="out", flags=flags)
    return Returned(returns="out,weights", weights_axes=axes, flags=flags)


def _weights_axes(outcome: Outcome, problem: Problem, heads: int) -> str | None:
    """Axes of a second tensor that holds probabilities of the right shape, else None."""
    weights = outcome.attn_weights
    if weights is None or not weights.is_floating_point():
        return None
    batch, queries, keys = problem.batch, problem.x_q.shape[-2], problem.x_k.shape[-2]
    axes = {(batch, heads, queries, keys): "BHTS", (batch, queries, keys): "BTS"}.get(
        tuple(weights.shape)
    )
    is_positive = bool((weights >= -1e-9).all())
    sums_to_one = bool(((weights.double().sum(-1) - 1.0).abs() < 1e-3).all())
    return axes if is_positive and sums_to_one else None


def call_words(call: CallSpec) -> dict[str, Any]:
    """What was filled in beyond form and order of axes, in words that JSON can hold."""
    found: dict[str, Any] = {"returns": call.returns}
    if call.causal_arg is not None:
        found["causal_arg"] = call.causal_arg
    if call.masks:
        found["masks"] = [
            {"arg": m.arg, "axes": m.axes, "convention": m.convention} for m in call.masks
        ]
    if call.flags:
        found["flags"] = {name: list(values) for name, values in call.flags.items()}
    if call.returns == "out,weights":
        found["weights_axes"] = call.weights_axes
    return found
