"""Problems that two implementations can both be given, each in its own manner of calling."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from manyheads.attention.problem import GivenMask, Problem, allowed_by_order
from manyheads.core.errors import SubjectError
from manyheads.verify.context import changed_inputs
from manyheads.verify.problems import ProblemMaker
from manyheads.verify.subject import MaskSpec

_CACHED = ("cache", "static_cache")
_INPUTS = {"self": 1, "cache": 1, "static_cache": 1, "cross": 2, "qkv": 3, "heads": 0}
_BY_KEY, _BY_PAIR = ("BS", "B"), ("BTS", "B1TS", "(BH)TS")
_CARRIERS = {
    "padding": (*_BY_KEY, *_BY_PAIR),
    "a mask of positions": ("TS", *_BY_PAIR),
    "a mask of positions per sample": _BY_PAIR,
}
"""Axes of the arguments that can carry each kind of mask; the first that fits is used."""
_SIZES = ((3, 7, 9), (5, 5, 6), (1, 12, 10), (2, 1, 1))
"""Samples, queries and keys of the plain problems."""
_LARGE = 30.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Shared:
    """One problem for both."""

    name: str
    """What is special about it."""
    a: Problem
    """As the first is given it."""
    b: Problem
    """As the second is given it."""
    is_large: bool = False
    """Whether the inputs are so large that most rows of weights have one entry."""


class SharedProblems:
    """Makes problems for two implementations.

    Args:
        a: makes problems for the first.
        b: makes problems for the second.

    Raises:
        SubjectError: no input fits both.
    """

    def __init__(self, a: ProblemMaker, b: ProblemMaker) -> None:
        self.makers = (a, b)
        forms = [m.subject.call.form or "self" for m in self.makers]
        if ("heads" in forms) != (forms[0] == forms[1] == "heads"):
            raise SubjectError(
                f"one is called as {forms[0]} and the other as {forms[1]}: both must take queries, "
                "keys and values of heads, or both the rows they are made of"
            )
        self.base = min(self.makers, key=lambda m: _INPUTS[m.subject.call.form or "self"])
        self.left_out: list[str] = []

    def all(self) -> Iterator[Shared]:
        """Every problem that both can be given; `left_out` says afterwards what one cannot."""
        for is_causal in self._orders():
            for number, sizes in enumerate(_SIZES):
                yield self._plain(sizes, number, is_causal)
            yield from self._masked(is_causal)
            plain = self._plain(_SIZES[0], 0, is_causal)
            yield Shared(
                name=f"{_LARGE:g} times larger inputs{_asked(is_causal)}",
                a=changed_inputs(plain.a, _grown),
                b=changed_inputs(plain.b, _grown),
                is_large=True,
            )
        if any(m.subject.call.form in _CACHED for m in self.makers):
            yield self._plain((2, 7, 7), 7, True, chunks=(4, 1, 2))

    def _orders(self) -> list[bool | None]:
        """Calls that do and do not ask for causality; None where neither is possible in both."""
        can_stop = all(m.subject.spec.causal is None for m in self.makers)
        can_start = all(self._how_causal(m) is not None for m in self.makers)
        found: list[bool | None] = [*[False] * can_stop, *[True] * can_start]
        if not can_start and any(self._how_causal(m) for m in self.makers):
            self.left_out.append("causality, which only one of them can be asked for")
        return found or [None]

    def _how_causal(self, maker: ProblemMaker) -> str | None:
        """How causality is asked for: "always", "argument" or "mask"; None where it cannot be."""
        subject = maker.subject
        if subject.spec.causal == "always" or subject.call.form in _CACHED:
            return "always"
        if subject.call.causal_arg is not None:
            return "argument"
        return None if _carrier(maker, "a mask of positions") is None else "mask"

    def _plain(
        self,
        sizes: tuple[int, int, int],
        seed: int,
        is_causal: bool | None,
        chunks: tuple[int, ...] = (),
    ) -> Shared:
        batch, queries, keys = sizes
        if any(m.subject.extras.is_square for m in self.makers):
            keys = queries
        base = self.base.plain(batch, queries, keys, seed=400 + seed)
        made = [self._for(m, base, is_causal, chunks, seed) for m in self.makers]
        many = f"{batch} x {queries} positions"
        keyed = f", {base.x_k.shape[-2]} keys" if base.x_k is not base.x_q else ""
        cut = f" in pieces of {', '.join(map(str, chunks))}" if chunks else ""
        return Shared(name=f"{many}{keyed}{cut}{_asked(is_causal)}", a=made[0], b=made[1])

    def _for(
        self,
        maker: ProblemMaker,
        base: Problem,
        is_causal: bool | None,
        chunks: tuple[int, ...],
        seed: int,
    ) -> Problem:
        """The inputs of a problem, with the settings of one implementation."""
        queries, keys = base.x_q.shape[-2], base.x_k.shape[-2]
        made = maker.plain(
            base.batch, queries, keys, seed=400 + seed, causal=bool(is_causal), chunks=chunks
        )
        made = replace(made, x_q=base.x_q, x_k=base.x_k, x_v=base.x_v)
        if not is_causal or self._how_causal(maker) != "mask":
            return made
        allowed = allowed_by_order(made, queries, keys)[None]
        return maker.with_masks(made, (_given(maker, "a mask of positions", allowed),))

    def _masked(self, is_causal: bool | None) -> Iterator[Shared]:
        """One problem for each kind of mask that both can take."""
        kinds = list(_CARRIERS)
        can = [{kind for kind in kinds if _carrier(m, kind) is not None} for m in self.makers]
        for number, kind in enumerate(kinds):
            if kind in can[0] and kind in can[1]:
                yield from self._with_mask(kind, number, is_causal)
            elif kind in can[0] | can[1] and not (can[0] & can[1]):
                self.left_out.append(f"{kind}, for which only one of them has an argument")

    def _with_mask(self, kind: str, number: int, is_causal: bool | None) -> Iterator[Shared]:
        plain = self._plain(_SIZES[0], 10 + number, is_causal)
        replaces = any(m.subject.spec.mask_replaces_causal for m in self.makers)
        needs_one = any(p.masks for p in (plain.a, plain.b)) or (replaces and bool(is_causal))
        if needs_one and kind == "padding":
            return
        allowed = self._allowed(kind, plain, number)
        if needs_one or is_causal:
            queries, keys = plain.a.x_q.shape[-2], plain.a.x_k.shape[-2]
            ordered = replace(plain.a, is_causal=True)
            allowed = allowed & allowed_by_order(ordered, queries, keys) if needs_one else allowed
        made = [
            maker.with_masks(problem, (_given(maker, kind, allowed),))
            for maker, problem in zip(self.makers, (plain.a, plain.b), strict=True)
        ]
        yield Shared(name=f"{kind}{_asked(is_causal)}", a=made[0], b=made[1])

    def _allowed(self, kind: str, plain: Shared, seed: int) -> Tensor:
        """A mask that leaves every query a key: (B or 1, T or 1, S), True = may attend."""
        order = max((plain.a, plain.b), key=lambda p: p.is_causal)
        order = replace(order, is_causal=order.is_causal or bool(order.masks))
        specs = [_carrier(m, kind) for m in self.makers]
        by_length = any(s is not None and _is_length(s) for s in specs)
        axes = {"padding": "BS", "a mask of positions": "TS"}.get(kind, "BTS")
        convention = "lengths" if by_length else "allowed"
        spec = MaskSpec(arg="mask", axes=axes, convention=convention)
        return self.base.mask(spec, order, seed).allowed


def _is_length(spec: MaskSpec) -> bool:
    return spec.convention == "lengths" or spec.axes == "B"


def _carrier(maker: ProblemMaker, kind: str) -> MaskSpec | None:
    """The argument that can carry a kind of mask."""
    specs = [s for s in maker.subject.call.masks or () if s.convention != "documents"]
    by_axes: dict[str, MaskSpec] = {s.axes: s for s in reversed(specs)}
    return next((by_axes[axes] for axes in _CARRIERS[kind] if axes in by_axes), None)


def _given(maker: ProblemMaker, kind: str, allowed: Tensor) -> GivenMask:
    spec = _carrier(maker, kind)
    assert spec is not None
    return GivenMask(allowed=allowed, axes=spec.axes, convention=spec.convention)


def _asked(is_causal: bool | None) -> str:
    return ", causal" if is_causal else ""


def _grown(x: Tensor) -> Tensor:
    return x * _LARGE


def plainest(problems: Sequence[Shared]) -> Shared:
    """The first with the fewest masks and pieces, but more than one position."""
    return min(
        problems,
        key=lambda p: (p.a.x_q.shape[-2] < 2, len(p.a.masks), len(p.a.chunks), p.is_large),
    )
