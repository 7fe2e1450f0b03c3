"""Right answers to exercises by other ways than the exercise's own: pipelines, real modules."""

from collections.abc import Callable
from typing import Any

from benchmarks.wrong_answers import PLAIN, Shown, _merged, _scores, _weights, _without_query
from benchmarks.wrong_counts import _reads, _row, _sizes, _taken
from benchmarks.wrong_places import _right
from manyheads.attention.module import MultiHeadAttention
from manyheads.attention.pipeline import Pipeline
from manyheads.learn.exercises import Exercise

Right = Callable[[Exercise], Any]


def _message(drawn: Exercise) -> Any:
    s = Shown(drawn)
    return s.attended(PLAIN, s.problem)[1][0, s.number("head"), s.receiver]


def _contribution(drawn: Exercise) -> Any:
    s = Shown(drawn)
    return s.output(PLAIN, s.only([s.number("head")], has_bias=False))


def _ablated(drawn: Exercise) -> Any:
    s = Shown(drawn)
    rest = [h for h in range(s.problem.num_heads) if h != s.number("head")]
    return s.output(PLAIN, s.only(rest, has_bias=True))


def _parameters(drawn: Exercise) -> list[int]:
    """Counts of a real layer."""
    dim, heads, groups, width = _sizes(drawn)
    layer = MultiHeadAttention(dim, heads, num_kv_heads=groups, head_dim=width)
    names = dict(layer.named_parameters())
    everything = sum(p.numel() for p in names.values())
    return [names["in_proj_weight"].numel(), everything]


def _shown(wrong: Callable[[Shown], Any]) -> Right:
    return lambda drawn: wrong(Shown(drawn))


RIGHT: dict[str, Right] = {
    "score": _shown(_scores(PLAIN)),
    "weight-row": _shown(_weights(PLAIN)),
    "message": _message,
    "concat": _shown(_merged(PLAIN)),
    "projected-output": _shown(lambda s: s.output(PLAIN)),
    "contribution": _contribution,
    "zero-query": _shown(_without_query(PLAIN)),
    "ablation": _ablated,
    "parameter-count": _parameters,
    "byte-count": _taken(),
    "mask-rows": _row(Pipeline()),
    "grouped-heads": _reads(None, 1),
    "layout-conversion": _right,
}
"""One way a kind."""
