"""Trial calls in each form, and which axis of the input counts positions."""

import inspect
import re
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.verify.calling import Callee
from manyheads.verify.infer_adapt import Adapter
from manyheads.verify.infer_names import Stranger
from manyheads.verify.infer_trial import Reply, Trials
from manyheads.verify.subject import Subject

INPUTS = {"self": 1, "cross": 2, "qkv": 3, "heads": 3, "cache": 1, "static_cache": 1}
"""How many tensors each form takes."""


def ask(
    trials: Trials,
    subject: Subject,
    form: str,
    layout: str,
    shapes: list[tuple[int, ...]],
    extra: dict[str, Any],
) -> Reply:
    """Call with random inputs of the given shapes.

    Args:
        trials: what is called.
        subject: with width and heads.
        form: as in a declaration.
        layout: as in a declaration.
        shapes: of the inputs.
        extra: keywords of every call.
    """
    inputs: list[Any] = [trials.draw(*shape, seed=i) for i, shape in enumerate(shapes)]
    return _answer(trials, subject, form, layout, inputs, extra)


def _answer(
    trials: Trials,
    subject: Subject,
    form: str,
    layout: str,
    inputs: list[Any],
    extra: dict[str, Any],
) -> Reply:
    keywords = {**extra, **_drawn(trials, subject)}
    if form == "cache":
        return _cached(trials, layout, inputs[0], keywords)
    if form == "static_cache":
        return _static(trials, layout, inputs[0], keywords)
    return trials.call(*inputs, **keywords)


def _drawn(trials: Trials, subject: Subject) -> dict[str, Tensor]:
    """Weights for a function that takes them as arguments."""
    if subject.params is None or subject.params.layout != "args":
        return {}
    return Callee(trials.made, subject, trials.dtype).arguments


def _cached(trials: Trials, layout: str, x: Tensor, keywords: dict[str, Any]) -> Reply:
    """Two pieces through a cache, which must make a difference."""
    axis = 2 if layout == "BET" else 1
    for along in (axis, 0) if layout == "BTE" else (axis,):
        cut = x.shape[along] // 2
        if cut == 0:
            continue
        first, second = (
            x.narrow(along, 0, cut).clone(),
            x.narrow(along, cut, x.shape[along] - cut).clone(),
        )
        begun = trials.call(first, None, **keywords)
        if (
            begun.output is None
            or not isinstance(begun.raw, tuple | list)
            or len(begun.raw) < 2
            or begun.raw[1] is None
        ):
            return Reply(raised=begun.raised or "no cache is handed back")
        going, alone = (
            trials.call(second, begun.raw[1], **keywords),
            trials.call(second, None, **keywords),
        )
        if going.output is None or alone.output is None or going.output.shape != alone.output.shape:
            continue
        if not torch.allclose(going.output, alone.output):
            return trials.call(x, None, **keywords)
    return Reply(raised="the cache makes no difference")


def _static(trials: Trials, layout: str, x: Tensor, keywords: dict[str, Any]) -> Reply:
    """Two pieces through the subject's own cache, the second of which must see the first."""
    axis = 2 if layout == "BET" else 1
    cut = x.shape[axis] // 2
    second = x.narrow(axis, cut, x.shape[axis] - cut).clone()
    begun = trials.call(x.narrow(axis, 0, cut).clone(), 0, **keywords)
    going = trials.call(second, cut, **keywords)
    if begun.output is None or going.output is None:
        return Reply(raised=begun.raised or going.raised)
    alone = trials.call(second, 0, **keywords)
    if (
        alone.output is not None
        and alone.output.shape == going.output.shape
        and torch.allclose(going.output, alone.output)
    ):
        return Reply(raised="the cache makes no difference")
    return trials.call(x, 0, **keywords)


def order_of_axes(
    trials: Trials,
    subject: Subject,
    form: str,
    layout: str,
    extra: dict[str, Any],
    reply: Reply,
    made: Stranger,
) -> str:
    """Which of the first two axes counts positions: the one along which a change spreads."""
    if layout == "BET" or form == "heads":
        return layout
    shape = tuple(reply.output.shape[:2]) if reply.output is not None else (2, 5)
    rows, columns = shape
    width = subject.spec.width
    inputs = [trials.draw(rows, columns, width, seed=9)]
    if form in ("cross", "qkv"):
        kdim, vdim = subject.spec.kdim or width, subject.spec.vdim or subject.spec.kdim or width
        inputs += [
            trials.draw(rows, columns, w, seed=10 + i)
            for i, w in enumerate((kdim, vdim)[: INPUTS[form] - 1])
        ]
    spread = _spread(trials, subject, form, extra, inputs)
    said = _said_order(made)
    if spread == (False, True, False):  # along the first axis only
        return said or "TBE"
    if spread == (True, False, False):
        return "BTE"
    return said or "BTE"


def _spread(
    trials: Trials, subject: Subject, form: str, extra: dict[str, Any], inputs: list[Tensor]
) -> tuple[bool, bool, bool]:
    """Whether a change of one place reaches others along the second axis, the first, elsewhere."""
    base = _answer(trials, subject, form, "BTE", list(inputs), extra).output
    moved = [x.clone() for x in inputs]
    for x in moved[1:] or moved:
        x[0, 0] += 3.0
    other = _answer(trials, subject, form, "BTE", list(moved), extra).output
    if base is None or other is None or base.shape != other.shape:
        return False, False, False
    reached = (other - base).abs().nan_to_num(nan=1.0).amax(dim=-1) > 1e-6 * float(
        base.abs().max().nan_to_num() + 1e-30
    )
    return bool(reached[0, 1:].any()), bool(reached[1:, 0].any()), bool(reached[1:, 1:].any())


_UNPACKED = re.compile(r"(\w+)\s*,\s*(\w+)\s*,\s*\w+\s*=\s*\w+\.(?:shape|size\(\))")


_BATCH = {"b", "bs", "bsz", "batch", "batch_size", "bz", "n_batch", "num_batches", "batchsize"}


_LENGTH = {
    "t",
    "l",
    "s",
    "seq",
    "seq_len",
    "length",
    "tgt_len",
    "seqlen",
    "time",
    "len",
    "num_tokens",
}


def _said_order(made: Stranger) -> str | None:
    """The order that the author's own words for the axes say, such as B, T, C = x.shape."""
    inner = made.inner if isinstance(made, Adapter) else made
    try:
        source = inspect.getsource(type(inner).forward if isinstance(inner, nn.Module) else inner)
    except (OSError, TypeError):
        return None
    for match in _UNPACKED.finditer(source):
        first, second = match.group(1).lower(), match.group(2).lower()
        if first in _BATCH and second not in _BATCH:
            return "BTE"
        if first in _LENGTH and second in _BATCH:
            return "TBE"
    return None
