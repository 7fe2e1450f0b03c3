"""The parts of a logit: what each head, and everything else, adds to it directly.

The residual stream is found as it is computed: the tree of sums that ends in the last stream
tensor. Its leaves are the embedding, the outputs of attention layers and all else. The way from the
last sum to the logits (a norm with its scale frozen, then the unembedding) is linear. So every leaf
has a part, and all parts together must give the model's own logit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.core.errors import LookError
from manyheads.looking import operations as ops
from manyheads.looking.frozen import Jet, jet_after
from manyheads.looking.proof import refusal
from manyheads.looking.subject import Call, Subject, logits_of
from manyheads.looking.watching import Site

_ROUNDING, _MOST_ROUNDING = 2048, 0.1
"""Allowed error of the sum: units of rounding, and at most this fraction of all parts."""


@dataclass(frozen=True, kw_only=True)
class LogitParts:
    """A logit, or a difference of two, as a sum of parts."""

    value: float
    """What the model computed."""
    parts: Mapping[str, float]
    """The part of each head, as "layer.head", and of "embedding", "bias" and "rest of layer N"."""
    heads: Mapping[tuple[int, int], float]
    """The parts of the heads by layer and head."""
    error: float
    """Sum of all parts against `value`, absolute."""
    frozen: tuple[int, ...]
    """Layers whose output passes a norm before the stream, with its scale frozen."""


@dataclass(kw_only=True)
class _Stream:
    """Records sums of one shape during a run, and the way from the last one to the output."""

    sums: dict[int, tuple[Tensor, Tensor, int]] = field(default_factory=dict)
    aliases: dict[int, Tensor] = field(default_factory=dict)
    kept: list[Tensor] = field(default_factory=list)
    last: Tensor | None = None
    tail: dict[int, Jet] = field(default_factory=dict)
    num_sites: int = 0

    def on_site(self, site: Site) -> None:
        self.num_sites = site.index + 1

    def on_operation(
        self,
        func: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        result: Any,  # noqa: ANN401 - whatever the operation returned
    ) -> None:
        """Note a sum, another name of a stream tensor, or a step towards the output."""
        if not isinstance(result, Tensor) or not result.is_floating_point():
            return
        name = ops.name_of(func)
        if name in ops.ADDS and self._is_sum(args, kwargs, result):
            self._note_sum(args, result)
            return
        known = {
            id(t): self.tail[id(t)] for t in ops.tensors_in(args, kwargs) if id(t) in self.tail
        }
        if known:
            jet, _ = jet_after(func, args, kwargs, known)
            if jet is not None:
                self.tail[id(result)] = jet
                self.kept.append(result)
        first = args[0] if args else None
        if not isinstance(first, Tensor) or result is first or first.numel() != result.numel():
            return
        if name in ops.RESHAPES or (name in ops.KEEPS and result.shape == first.shape):
            self.aliases[id(result)] = first
            self.kept += [first, result]

    def _is_sum(self, args: Sequence[Any], kwargs: Mapping[str, Any], result: Tensor) -> bool:
        pair = args[:2]
        return (
            len(pair) == 2
            and not kwargs
            and result.ndim in (2, 3)
            and all(isinstance(one, Tensor) and one.shape == result.shape for one in pair)
            and not any(isinstance(one, nn.Parameter) for one in pair)
        )

    def _note_sum(self, args: Sequence[Any], result: Tensor) -> None:
        left, right = args[0], args[1]
        if result is left:  # in place: the old value is left only as the sum that it was
            left = (result - right) if id(result) not in self.sums else result.new_empty(0)
            if id(result) in self.sums:
                self.sums[id(left)] = self.sums[id(result)]
        self.sums[id(result)] = (left, right, self.num_sites)
        self.kept += [left, right, result]
        self.last, self.tail = result, {id(result): _identity}

    def leaves(self, stops: Mapping[int, int]) -> list[tuple[Tensor, int]]:
        """The leaves of the last sum, each with the number of attention calls before it."""
        found: list[tuple[Tensor, int]] = []
        todo = [(self.last, self.num_sites)] if self.last is not None else []
        while todo:
            tensor, when = todo.pop()
            if id(tensor) not in stops and id(tensor) in self.sums:
                left, right, at = self.sums[id(tensor)]
                todo += [(right, at), (left, at)]
            elif id(tensor) not in stops and id(tensor) in self.aliases:
                todo.append((self.aliases[id(tensor)], when))
            else:
                found.append((tensor, when))
        return found


def _identity(tensor: Tensor, is_whole: bool) -> Tensor:
    return tensor


def logit_parts(
    subject: Subject, call: Call, ids: Sequence[int], *, position: int = -1, sample: int = 0
) -> LogitParts:
    """Divide a logit, or the difference of two, into parts.

    Args:
        subject: the model.
        call: the arguments of its forward pass.
        ids: the token, or the token and the one whose logit is subtracted.
        position: position whose prediction is divided.
        sample: sample of the batch.

    Raises:
        LookError: the parts cannot be proven for this model.
    """
    stream = _Stream()
    output, watch = subject.watch(
        call, follow=True, on_site=stream.on_site, on_operation=stream.on_operation
    )
    logits = logits_of(output)
    _check_place(logits, ids, position, sample)
    for site in watch.sites:
        why = refusal(site)
        if why is not None:
            raise LookError(f"logits cannot be divided: layer {site.index}: {why}")
        if site.projection is None or site.projection.reach is None:
            raise LookError(
                f"logits cannot be divided: no sum of the output of layer {site.index} with a "
                "residual stream was seen"
            )
    divided = _Division(stream, watch.sites, logits, ids, position, sample)
    return divided.parts()


def _check_place(logits: Tensor, ids: Sequence[int], position: int, sample: int) -> None:
    B, T, V = logits.shape
    for token in ids:
        if not 0 <= token < V:
            raise LookError(f"token ({token}) must be from 0 to {V - 1}: use an id of the model")
    if not -T <= position < T or not 0 <= sample < B:
        raise LookError(
            f"position ({position}) or sample ({sample}) is outside ({B}, {T}): use one"
        )


@dataclass
class _Division:
    """Divides one number of the logits along the stream."""

    stream: _Stream
    sites: Sequence[Site]
    logits: Tensor
    ids: Sequence[int]
    position: int
    sample: int

    def parts(self) -> LogitParts:
        """All parts, and what they miss."""
        tail, last = self.stream.tail.get(id(self.logits)), self.stream.last
        if tail is None or last is None:
            raise LookError(
                "logits cannot be divided: a nonlinear operation, such as a soft-cap, or an "
                "unknown one stands between the residual stream and the logits"
            )
        slope, constant = self._slope(tail, last)
        joined = {id(s.projection.reach.joined): s.index for s in self.sites if _reach(s)}  # type: ignore[union-attr]  # _reach checks it
        leaves = self.stream.leaves(joined)
        met = [joined[id(leaf)] for leaf, _ in leaves if id(leaf) in joined]
        if sorted(met) != list(range(len(self.sites))):
            raise LookError(
                "logits cannot be divided: not every layer adds to the stream that the logits are "
                "read from: a norm stands on it, or the model has several streams"
            )
        parts: dict[str, float] = {}
        heads: dict[tuple[int, int], float] = {}
        for number, (leaf, when) in enumerate(leaves):
            part = _dot(leaf, slope)
            if id(leaf) in joined:
                site = self.sites[joined[id(leaf)]]
                mine = self._head_parts(site, slope)
                heads |= {(site.index, h): value for h, value in enumerate(mine)}
                part -= sum(mine)
            name = "embedding" if number == 0 else f"rest of layer {max(when - 1, 0)}"
            parts[name] = parts.get(name, 0.0) + part
        parts |= {f"{layer}.{head}": value for (layer, head), value in heads.items()}
        parts["bias"] = constant
        value = float(self._picked(self.logits.double()))
        error = abs(sum(parts.values()) - value)
        _check_error(error, parts, self.logits.dtype)
        return LogitParts(
            value=value,
            parts=parts,
            heads=heads,
            error=error,
            frozen=tuple(s.index for s in self.sites if _reach(s).normed),
        )

    def _picked(self, logits: Tensor) -> Tensor:
        row = logits[self.sample, self.position]
        return row[self.ids[0]] - row[self.ids[1]] if len(self.ids) > 1 else row[self.ids[0]]

    def _slope(self, tail: Jet, last: Tensor) -> tuple[Tensor, float]:
        """Gradient of the number along the frozen way, and its constant part."""
        with torch.enable_grad():
            start = torch.zeros_like(last, dtype=torch.float64, requires_grad=True)
            (slope,) = torch.autograd.grad(self._picked(tail(start, False)), start)
        with torch.no_grad():
            constant = float(self._picked(tail(torch.zeros_like(start), True)))
        return slope, constant

    def _head_parts(self, site: Site, slope: Tensor) -> list[float]:
        projection, reach = site.projection, _reach(site)
        assert projection is not None
        with torch.enable_grad():
            start = torch.zeros_like(projection.output, dtype=torch.float64, requires_grad=True)
            arrived = reach.jet(reach.arranged(start), False)
            (back,) = torch.autograd.grad(arrived, start, slope.reshape(arrived.shape))
        entries = projection.rows.double() * (back @ projection.weight.detach().double())
        sums = entries.flatten(0, 1).sum(0)  # (C,)
        parts = torch.zeros(site.num_heads, dtype=torch.float64, device=sums.device)
        return [float(x) for x in parts.index_add(0, projection.heads, sums)]


def _check_error(error: float, parts: Mapping[str, float], dtype: torch.dtype) -> None:
    """Refuse parts that miss the logit by more than rounding; norms round in float32 or worse."""
    unit = max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)
    allowed = min(_ROUNDING * unit, _MOST_ROUNDING) * sum(map(abs, parts.values()))
    if not error <= allowed:
        raise LookError(
            f"logits cannot be divided: the parts miss the logit by {error:.3g}, and rounding "
            f"allows {allowed:.3g}"
        )


def _reach(site: Site) -> Any:  # noqa: ANN401 - a Reach, which the caller has checked
    return site.projection.reach if site.projection else None


def _dot(leaf: Tensor, slope: Tensor) -> float:
    return float((leaf.double().reshape(slope.shape) * slope).sum())
