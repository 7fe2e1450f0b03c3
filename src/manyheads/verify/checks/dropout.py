"""Dropout in training, read off draw by draw: the weight that each key really got is solved for."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from manyheads.attention.problem import Problem
from manyheads.verify.checks.values import check_training_weights
from manyheads.verify.context import RIGHT, Context
from manyheads.verify.findings import READING, Where, found
from manyheads.verify.locating import is_random, locate_operation
from manyheads.verify.watch import watch

_DRAWS = 48
_ZERO = 1e-6
"""Weights that differ by less are equal: what solving for them may leave."""


@dataclass(frozen=True, kw_only=True)
class Draws:
    """What training mode did to the weights."""

    used: Tensor
    """(draws, B, H, T, S): the weight that each key really got."""
    plain: Tensor
    """(B, H, T, S): the weights before dropout."""
    misfit: float
    """What no weights can explain of the outputs, relative to the largest."""
    outputs: Tensor
    """(draws, B, T, D)."""
    expected: Tensor
    """(B, T, D): the output without dropout."""


def check_dropout(ctx: Context) -> None:
    """Kept weights are divided by 1 - p, dropped ones are zero, and nothing else is touched."""
    reason = _why_no_dropout(ctx)
    if reason:
        ctx.skipped("dropout", reason)
        return
    length = _solvable_length(ctx)
    problem = ctx.maker.plain(3, length, length, seed=95)
    rate = ctx.subject.spec.dropout or _seen_rate(ctx, problem)
    if rate is None:
        ctx.skipped("dropout", "nothing is drawn at random in training")
        return
    if check_training_weights(ctx, ctx.maker.plain(2, 7, seed=96)):
        return
    draws = _draw(ctx, problem)
    if draws is None:
        ctx.skipped("dropout", "the call raises in training mode")
        return
    if _drops_output(draws, rate):
        ctx.limits.append("In training the output is dropped too, after the output projection.")
        without = _without_output_dropout(ctx, problem)
        if without is not None and _is_same(without) and not ctx.strict:
            ctx.skipped("dropout", "only the output is dropped in training, not the weights")
            return
        draws = draws if without is None or without.misfit > _ZERO else without
    _judge(ctx, draws, rate)


def _why_no_dropout(ctx: Context) -> str:
    """Why dropout cannot be checked; empty where it can."""
    if ctx.values_are_wrong:
        return "the values differ already"
    is_known = ctx.located is not None and ctx.located.heads is not None
    if ctx.callee.module is None or not is_known:
        return "it is no module, or the weights are not known"
    if ctx.subject.call.form in ("cache", "static_cache"):
        return "cached calls are for inference, without dropout"
    if _solvable_length(ctx) < 2:
        return "the output has too few channels to solve for the weights"
    return ""


_UNKNOWN_RATE = 0.1
"""Taken until weights are solved for, where numbers are not drawn by `F.dropout`."""


def _seen_rate(ctx: Context, problem: Problem) -> float | None:
    """The rate of the first dropout in training; None where nothing is drawn at random."""
    assert ctx.callee.module is not None
    ctx.callee.module.train()
    try:
        seen = watch(lambda: ctx.put(problem))
    finally:
        ctx.callee.module.eval()
    drawn = [event for event in seen.events if is_random(seen.events, event)]
    if not drawn:
        return None
    kept = drawn[0].args[1] if drawn[0].op == "bernoulli_" and len(drawn[0].args) > 1 else None
    return 1.0 - kept if isinstance(kept, float) and 0.0 < kept < 1.0 else _UNKNOWN_RATE


def _without_output_dropout(ctx: Context, problem: Problem) -> Draws | None:
    """The draws if the last dropout on rows of positions is left out."""
    assert ctx.callee.module is not None
    ctx.callee.module.train()
    try:
        with DropoutCalls() as calls:
            ctx.put(problem)
    finally:
        ctx.callee.module.eval()
    last = calls.last_of_shape(problem.x_q.shape[:2])
    return None if last is None else _draw(ctx, problem, skipped=frozenset({last}))


class DropoutCalls(TorchFunctionMode):
    """Counts calls of `F.dropout` in training, and leaves out some of them.

    Args:
        skipped: numbers of the calls that return their input.
    """

    def __init__(self, skipped: frozenset[int] = frozenset()) -> None:
        super().__init__()
        self.skipped = skipped
        self.shapes: list[torch.Size] = []

    def __torch_function__(
        self,
        func: Any,  # noqa: ANN401 - torch's own
        types: Any,  # noqa: ANN401 - torch's own
        args: Any = (),  # noqa: ANN401 - torch's own
        kwargs: Any = None,  # noqa: ANN401 - torch's own
    ) -> Any:  # noqa: ANN401 - torch's own
        """Do the call, or return its input."""
        if func is F.dropout:
            self.shapes.append(args[0].shape)
            if len(self.shapes) - 1 in self.skipped:
                return args[0]
        return func(*args, **(kwargs or {}))

    def last_of_shape(self, shape: torch.Size) -> int | None:
        """The last call on rows of as many samples and positions."""
        numbers = [i for i, s in enumerate(self.shapes) if s[:2] == shape or s[:2] == shape[::-1]]
        return numbers[-1] if numbers else None


def _is_same(draws: Draws) -> bool:
    """Whether nothing is dropped."""
    gap = (draws.outputs - draws.expected).abs().max()
    return float(gap) <= _ZERO * float(draws.expected.abs().max())


def _drops_output(draws: Draws, rate: float) -> bool:
    """Whether about as many numbers of the output are zero as are to be dropped."""
    zeros = float((draws.outputs == 0).double().mean() - (draws.expected == 0).double().mean())
    return zeros > 0.5 * rate


def _solvable_length(ctx: Context) -> int:
    """How many keys there may be so that the output determines every weight."""
    spec = ctx.subject.spec
    width = spec.width if ctx.located is not None and ctx.located.has_out else spec.heads * spec.dv
    shared = spec.heads // spec.kv_heads if not (ctx.located and ctx.located.has_out) else 1
    return min(spec.dv, width // spec.heads, 6) if shared else 0


def _draw(ctx: Context, problem: Problem, skipped: frozenset[int] = frozenset()) -> Draws | None:
    outputs = _training_outputs(ctx, problem, skipped)
    if outputs is None:
        return None
    assert ctx.located is not None and ctx.located.heads is not None
    bias, answer = ctx.located.heads.b_o, ctx.answer(problem)
    basis = _key_rows(ctx, problem).flatten(1, 2)  # (B, H*S, D)
    is_lost = ~torch.isfinite(outputs)  # rows whose keys are all dropped may be NaN
    target = outputs if bias is None else outputs - bias.detach()
    target = target.masked_fill(is_lost, 0.0)
    every = basis.mT[None].expand(len(outputs), -1, -1, -1)
    solved = torch.linalg.lstsq(every, target.mT).solution  # (draws, B, H*S, T)
    explained = (basis.mT[None] @ solved).mT
    misfit = float((explained - target).abs().max() / target.abs().max())
    used = solved.mT.unflatten(-1, (ctx.subject.spec.heads, -1))  # (draws, B, T, H, S)
    return Draws(
        used=used.transpose(2, 3),
        plain=answer.attn_weights,
        misfit=misfit,
        outputs=outputs.masked_fill(is_lost, 0.0),
        expected=answer.output,
    )


def _training_outputs(ctx: Context, problem: Problem, skipped: frozenset[int]) -> Tensor | None:
    """(draws, B, T, D): outputs in training mode; None where a call raises."""
    module, outputs = ctx.callee.module, []
    assert module is not None
    module.train()
    torch.manual_seed(97)
    try:
        for _ in range(_DRAWS):
            with DropoutCalls(skipped):
                outcome = ctx.put(problem)
            if outcome.output is None:
                return None
            outputs.append(outcome.output)
    finally:
        module.eval()
    return torch.stack(outputs)


def _key_rows(ctx: Context, problem: Problem) -> Tensor:
    """(B, H, S, D): what each key adds to the output where its weight is one."""
    assert ctx.located is not None and ctx.located.heads is not None
    w = ctx.located.heads
    with torch.no_grad():
        values = RIGHT.group(problem, RIGHT.heads(problem)[2])  # (B, H, S, v)
    if ctx.located.has_out:
        return torch.einsum("bhsv,hvd->bhsd", values, w.w_o.detach())
    heads, width = values.shape[1], values.shape[3]
    rows = torch.zeros(*values.shape[:3], heads * width, dtype=torch.float64)
    for h in range(heads):
        rows[:, h, :, h * width : (h + 1) * width] = values[:, h]
    return rows


def _judge(ctx: Context, draws: Draws, rate: float) -> None:
    used, plain = draws.used, draws.plain[None]
    zero = used.abs() < _ZERO
    visible = (plain > 1e-9).expand_as(used)
    if not ctx.subject.spec.dropout:
        rate = _fitted_rate(draws, zero, visible, rate)
    share = float(zero[visible].double().mean())
    kept = (used - plain / (1.0 - rate)).abs() < _ZERO
    untouched = bool(((used - plain).abs() < _ZERO)[visible].all())
    figures = {"declared": rate, "share_of_zero_weights": round(share, 4)}
    name = "dropout"
    if (untouched or bool((kept | zero)[visible].all())) and draws.misfit < _ZERO:
        says, fix = _against_rate(share, rate, int(visible.sum()))
        if says:
            severity = ctx.against_declared
            ctx.failed(name, found(None, name, says, severity=severity, fix=fix, evidence=figures))
        else:
            ctx.passed(name, f"{share:.1%} of weights dropped, the others divided by 1 - p", share)
        return
    fault, says = _named(draws, rate, zero, visible)
    # where the rate is not declared, dropping some other tensor is another reading
    is_open = fault == "dropout-wrong-tensor" and not ctx.strict
    finding = found(
        fault,
        READING if is_open else name,
        says,
        severity="warning" if is_open else "error",
        where=_place(ctx),
        evidence=figures,
    )
    ctx.failed(name, finding)


def _place(ctx: Context) -> Where | None:
    """The line at which something is drawn at random in training."""
    assert ctx.callee.module is not None
    ctx.callee.module.train()
    try:
        return locate_operation(ctx, ctx.maker.plain(2, 6, seed=95), "attn_weights", is_random)
    finally:
        ctx.callee.module.eval()


def _fitted_rate(draws: Draws, zero: Tensor, visible: Tensor, seen: float) -> float:
    """The rate with which kept weights are divided by 1 - p; that of the zeros if by none."""
    kept = visible & ~zero
    ratio = (draws.used / draws.plain[None].clamp_min(1e-9))[kept]
    if not ratio.numel():
        return seen
    factor = float(ratio.median())
    if factor > 1.0 + 1e-6 and float((ratio - factor).abs().max()) < 1e-5 * factor:
        return 1.0 - 1.0 / factor
    return float(zero[visible].double().mean()) or seen


def _against_rate(share: float, rate: float, count: int) -> tuple[str, str]:
    """What the share of dropped weights says against the declared rate, and the remedy."""
    limit = 6.0 * (rate * (1 - rate) / max(count / 8, 1)) ** 0.5 + 1e-3
    if share == 0.0:
        says = f"dropout of {rate:g} is set, but in training nothing is dropped in {_DRAWS} calls"
        return says, "apply F.dropout(weights, p, self.training)"
    if abs(share - rate) > max(limit, 0.08):
        says = f"in training {share:.1%} of the weights are dropped; {rate:.0%} is set"
        return says, "use the declared rate"
    return "", ""


def _named(draws: Draws, rate: float, zero: Tensor, visible: Tensor) -> tuple[str, str]:
    """The fault that explains the weights, and what it did."""
    used, plain = draws.used, draws.plain[None].expand_as(draws.used)
    same = (used - plain).abs() < _ZERO
    live = ~(zero | ~visible).all(dim=-1)
    sums_to_one = bool(((used.sum(dim=-1) - 1.0).abs() < _ZERO)[live].all())
    among = visible & live[..., None]
    share = float(zero[among].double().mean()) if bool(among.any()) else 0.0
    if draws.misfit > _ZERO:
        return "dropout-wrong-tensor", (
            f"in training no attention weights explain the outputs ({draws.misfit:.3g} of the "
            "largest is left over): dropout acts on another tensor than the weights"
        )
    if sums_to_one and share > 0.2 * rate:
        return "dropout-renormalised", (
            f"in training {round(share, 4):.0%} of the weights are zero and yet all rows sum to "
            "one: the weights are renormalised after dropout"
        )
    if sums_to_one:
        return "dropout-before-softmax", (
            "in training the weights change, none is zero and all rows sum to one: scores are "
            "dropped before the softmax"
        )
    if bool((same | zero)[visible].all()):
        mean = float(draws.outputs.mean(0).sub(draws.expected).abs().max())
        return "dropout-not-rescaled", (
            f"in training {round(share, 4):.0%} of the weights are zero and the others are "
            f"unchanged instead of divided by 1 - p = {1 - rate:g}; the mean over {_DRAWS} calls "
            f"is off by up to {mean:.3g}"
        )
    return _by_ratio(used, plain, zero, visible, rate)


def _by_ratio(
    used: Tensor, plain: Tensor, zero: Tensor, visible: Tensor, rate: float
) -> tuple[str, str]:
    ratio = (used / plain)[visible & ~zero]
    spread = float(ratio.std() / ratio.mean().abs()) if ratio.numel() > 1 else 0.0
    if spread < 1e-5:
        return "dropout-not-rescaled", (
            f"in training kept weights are multiplied by {float(ratio.mean()):.5g} instead of 1 / "
            f"(1 - p) = {1 / (1 - rate):.5g}"
        )
    return "dropout-wrong-tensor", (
        "in training the weights that explain the outputs are neither zero nor divided by 1 - p: "
        "dropout acts on another tensor than the weights"
    )
