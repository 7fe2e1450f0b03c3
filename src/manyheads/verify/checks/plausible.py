"""Where no reading of inferred weights fits: does it at least behave as attention must?"""

from dataclasses import replace

import torch

from manyheads.attention.problem import Problem
from manyheads.verify.context import Context, relative_gap

_FACTOR = -2.0


def implausible(ctx: Context) -> str | None:
    """What any attention does and this subject does not; None where nothing was found.

    Weights that sum to one make equal rows of input give the same output however many there are,
    and the output projection makes the output proportional to its weights.
    """
    return _equal_rows(ctx) or _output_projection(ctx)


def _equal_rows(ctx: Context) -> str | None:
    if ctx.subject.call.form != "self":
        return None
    firsts = []
    for length in (3, 7):
        problem = ctx.maker.plain(2, length, seed=130)
        outcome = ctx.put(_with_rows(problem, ctx.maker.plain(2, 1, seed=131)))
        if outcome.output is None or outcome.output.dim() != 3:
            return None
        firsts.append(outcome.output[:, 0])
    gap = relative_gap(firsts[1], firsts[0])
    if gap <= max(ctx.tolerance * 100, 1e-6):
        return None
    return (
        f"equal rows of input give an output that changes with their number (by {gap:.3g} of the "
        "largest from 3 to 7): the weights of a query do not sum to one"
    )


def _with_rows(problem: Problem, single: Problem) -> Problem:
    """The problem with every position holding the one row of another."""
    x = single.x_q.expand_as(problem.x_q).contiguous()
    return replace(problem, x_q=x, x_k=x, x_v=x)


def _output_projection(ctx: Context) -> str | None:
    params = ctx.subject.params
    name = None if params is None else params.names.get("o", params.names.get("module"))
    if name is None or "{h}" in name:
        return None
    problem, callee = ctx.maker.plain(2, 5, seed=132), ctx.callee.fresh()
    located = callee.located()
    is_out = f"{name}." if params and "o" in params.names else "out_proj."
    found = {} if located is None else located.tensors
    tensors = [t for path, t in found.items() if path == name or path.startswith(is_out)]
    with torch.no_grad():
        before = callee.call(problem).output
        for tensor in tensors:
            tensor.mul_(_FACTOR)
        after = callee.call(problem).output
    if not tensors or before is None or after is None:
        return None
    gap = relative_gap(after, before * _FACTOR)
    if gap <= max(ctx.tolerance * 100, 1e-6):
        return None
    return (
        f"the output is not proportional to the output projection that was found ({name}): times "
        f"{_FACTOR:g} it differs by {gap:.3g} of the largest"
    )
