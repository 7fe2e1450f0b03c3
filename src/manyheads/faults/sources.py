"""Faults of where queries, keys and values come from, and of axes exchanged in the inputs."""

from collections.abc import Callable
from itertools import permutations

from torch import Tensor

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import Answer, Problem
from manyheads.faults.catalogue import Variant


class FromOtherInput(Pipeline):
    """Makes queries, keys and values from other inputs; `source` names each one's, as in "qkv"."""

    def __init__(self, source: str) -> None:
        self.source = source

    def inputs(self, p: Problem) -> tuple[Tensor, Tensor, Tensor]:
        """The inputs in another order."""
        given = {"q": p.x_q, "k": p.x_k, "v": p.x_v}
        first, second, third = (given[name] for name in self.source)
        return first, second, third


class Misviewed(Pipeline):
    """Views the input (B, T, E) in another order of axes, and the output back in another."""

    def __init__(self, enter: tuple[str, str] | None, leave: tuple[str, str] | None) -> None:
        self.enter, self.leave = enter, leave

    def inputs(self, p: Problem) -> tuple[Tensor, Tensor, Tensor]:
        """Misread the one input."""
        x = p.x_q if self.enter is None else _misread(p.x_q, *self.enter)
        return x, x, x

    def finish(self, p: Problem, q: Tensor, k: Tensor, v: Tensor, start: int) -> Answer:
        """Misread the output."""
        answer = super().finish(p, q, k, v, start)
        if self.leave is None:
            return answer
        return Answer(output=_misread(answer.output, *self.leave), attn_weights=answer.attn_weights)


def _misread(x: Tensor, memory: str, read: str) -> Tensor:
    sizes = dict(zip("BTE", x.shape, strict=True))
    flat = x.permute(["BTE".index(axis) for axis in memory]).reshape([sizes[axis] for axis in read])
    return flat.permute([read.index(axis) for axis in "BTE"])


class AttendsOverBatch(Pipeline):
    """Batch and positions change places: samples attend to each other."""

    def inputs(self, p: Problem) -> tuple[Tensor, Tensor, Tensor]:
        """Exchange the first two axes, as a module does that expects the other order."""
        x_q, x_k, x_v = (x.transpose(0, 1) for x in (p.x_q, p.x_k, p.x_v))
        return x_q, x_k, x_v

    def finish(self, p: Problem, q: Tensor, k: Tensor, v: Tensor, start: int) -> Answer:
        """Exchange them back."""
        answer = super().finish(p, q, k, v, start)
        return Answer(output=answer.output.transpose(0, 1), attn_weights=answer.attn_weights)


def _is_projected(p: Problem) -> bool:
    return p.weights is not None and not p.chunks


def _is_plain_self(p: Problem) -> bool:
    return p.weights is not None and p.is_self and not p.masks and not p.chunks


def _has_swappable_batch(p: Problem) -> bool:
    return _is_projected(p) and not p.masks and p.x_q.shape[1] == p.x_k.shape[1]


def _fits(source: str) -> Callable[[Problem], bool]:
    def applies(p: Problem) -> bool:
        widths = {"q": p.x_q.shape, "k": p.x_k.shape, "v": p.x_v.shape}
        if p.weights is None or p.chunks or p.is_self:
            return False
        used = [widths[name] for name in source]
        lengths_agree = used[1][1] == used[2][1] and used[0][1] == p.x_q.shape[1]
        wanted = (p.weights.w_q.shape[1], p.weights.w_k.shape[1], p.weights.w_v.shape[1])
        return lengths_agree and all(
            shape[2] == want for shape, want in zip(used, wanted, strict=True)
        )

    return applies


_SOURCES = {
    "qqq": (
        "cross-source",
        "keys and values are computed from the query input, so the context has no influence",
    ),
    "qqv": ("cross-source", "keys are computed from the query input"),
    "qkq": ("cross-source", "values are computed from the query input"),
    "kkv": ("cross-source", "queries are computed from the context"),
    "vkq": ("cross-source", "queries come from the value input and values from the query input"),
    "qvk": (
        "key-value-swapped",
        "keys are computed from the value input and values from the key input",
    ),
    "qkk": ("wrong-tensor", "values are computed from the key input"),
    "qvv": ("wrong-tensor", "keys are computed from the value input"),
}


def variants() -> list[Variant]:
    """All variants of this family."""
    found = [
        Variant(
            fault="batch-first-confusion",
            key="batch",
            says="the output equals that of attention over the batch axis instead of the positions",
            pipeline=AttendsOverBatch(),
            applies=_has_swappable_batch,
        )
    ]
    for source, (fault, text) in _SOURCES.items():
        found.append(
            Variant(
                fault=fault,
                key=f"inputs:{source}",
                says=f"the output equals the formula when {text}",
                pipeline=FromOtherInput(source),
                applies=_fits(source),
            )
        )
    return found + _misviews()


def _misviews() -> list[Variant]:
    orders = ["".join(order) for order in permutations("BTE")]
    found = []
    for memory in ("BTE", "TBE", "BET"):
        for read in orders:
            if read == memory:
                continue
            for enter, leave, text in (
                ((memory, read), (read, memory), "in and out"),
                ((memory, read), None, "in"),
                (None, (read, memory), "out"),
            ):
                says = (
                    f"the output equals that of viewing ({', '.join(memory)}) memory as "
                    f"({', '.join(read)}) on the way {text}: a transpose is missing"
                )
                pipeline = Misviewed(enter, leave)
                found.append(
                    Variant(
                        fault="view-used-as-transpose",
                        key=f"input:{memory}>{read}:{text}",
                        says=says,
                        pipeline=pipeline,
                        applies=_is_plain_self,
                    )
                )
    return found
