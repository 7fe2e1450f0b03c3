"""The module that examples are made of, and the ways in which they are declared."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import Answer, GivenMask, Problem
from manyheads.verify.parameters import locate
from manyheads.verify.problems import ProblemMaker
from manyheads.verify.subject import Subject
from manyheads.verify.subject_files import subject_from_dict

_SEPARATE = {"layout": "separate", "q": "q", "k": "k", "v": "v", "o": "o"}
_SPEC = {"embed_dim": 12, "num_heads": 3, "head_dim": 4}
_SIX = {"num_heads": 6, "head_dim": 2}
_PADDING = [{"arg": "padding", "axes": "BS", "convention": "blocked"}]
_BLOCKED = [{"arg": "blocked", "axes": "TS", "convention": "blocked"}]
_ROPE = {"type": "rope", "style": "half", "base": 100.0}

Maker = Callable[[Subject], nn.Module]
"""Builds a module for a declaration."""
SUBJECTS: dict[str, dict[str, Any]] = {
    "self": {},
    "causal": {"spec": {"causal": "always"}},
    "asked": {"call": {"causal_arg": "is_causal"}},
    "asked, context": {"call": {"causal_arg": "is_causal", "form": "cross"}},
    "cross": {"call": {"form": "cross"}},
    "qkv": {"call": {"form": "qkv"}},
    "padding": {"call": {"masks": _PADDING}},
    "padding, zero": {"call": {"masks": _PADDING}, "spec": {"fully_masked": "zero"}},
    "blocked, asked": {"call": {"masks": _BLOCKED, "causal_arg": "is_causal"}},
    "packed": {"params": {"layout": "packed", "qkv": "qkv", "o": "o"}},
    "grouped": {"spec": {**_SIX, "num_kv_heads": 2}},
    "bias": {"spec": {**_SIX, "position": {"type": "alibi"}}},
    "rotary": {"spec": {"position": _ROPE}},
    "cache": {"call": {"form": "cache", "returns": "out,cache"}, "spec": {"causal": "always"}},
    "rotary cache": {
        "call": {"form": "cache", "returns": "out,cache"},
        "spec": {"causal": "always", "position": _ROPE},
    },
    "dropout": {"spec": {"dropout": 0.3}},
    "dropout, weights": {"spec": {"dropout": 0.3}, "call": {"returns": "out,weights"}},
    "float32 inside": {"spec": {"compute_dtype": "float32"}},
    "scale": {"spec": {"scale": 0.3}, "call": {"flags": {"is_fused": [True, False]}}},
    "padding, paths": {"call": {"masks": _PADDING, "flags": {"is_fused": [True, False]}}},
    "one layer a head": {
        "params": {
            "layout": "per_head_modules",
            "o": "o",
            **{n: "heads.{h}." + n for n in "qkv"},
        }
    },
}
"""How examples are declared, by a short name: what differs from self-attention of width 12."""


def subject_named(name: str) -> Subject:
    """The declaration of that name."""
    given = SUBJECTS[name]
    return subject_from_dict(
        {
            "target": "example:FaultExample",
            "build": {"kwargs": {}},
            "spec": {**_SPEC, **given.get("spec", {})},
            "call": {"form": "self", "layout": "BTE", "returns": "out", **given.get("call", {})},
            "params": given.get("params", _SEPARATE),
        }
    )


class FaultyAttention(nn.Module):
    """Attention as a subject declares it, computed by a pipeline of which one step may be wrong.

    Args:
        subject: what is declared.
        pipeline: the steps.
    """

    def __init__(self, subject: Subject, pipeline: Pipeline) -> None:
        super().__init__()
        self.subject, self.pipeline = subject, pipeline
        spec, width = subject.spec, subject.spec.width
        keys, values = spec.kv_heads * spec.d, spec.kv_heads * spec.dv
        self._add_projections({"q": spec.heads * spec.d, "k": keys, "v": values}, width)
        self.o = nn.Linear(spec.heads * spec.dv, width)
        self.template = ProblemMaker(subject, None).plain(1, 1)
        self.last_weights: Tensor | None = None

    def _add_projections(self, sizes: dict[str, int], width: int) -> None:
        if self.subject.params is not None and self.subject.params.layout == "packed":
            self.qkv = nn.Linear(width, sum(sizes.values()))
            return
        for name, size in sizes.items():
            setattr(self, name, nn.Linear(width, size))

    def forward(
        self,
        query: Tensor,
        key: Any = None,  # noqa: ANN401 - the context, or the cache of a cached call
        value: Tensor | None = None,
        *,
        padding: Tensor | None = None,
        blocked: Tensor | None = None,
        is_causal: bool = False,
        is_fused: bool = True,
    ) -> Any:  # noqa: ANN401 - as declared: output, (output, weights) or (output, cache)
        """Answer in the declared form."""
        if self.subject.call.form == "cache":
            return self._cached(query, key)
        problem = self.problem(query, key, value, is_causal, is_fused)
        problem = replace(problem, masks=self._masks(padding, blocked, is_fused))
        answer = self.answer(problem)
        if self.subject.call.returns == "out,weights":
            return answer.output, answer.attn_weights
        return answer.output

    def problem(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        is_causal: bool,
        is_fused: bool,
    ) -> Problem:
        """The call as a problem without masks."""
        assert self.subject.params is not None
        key = query if key is None else key
        value = key if value is None else value
        heads = locate(self, self.subject.params, self.subject.spec).heads
        causal = self.template.is_causal or is_causal
        return replace(
            self.template, x_q=query, x_k=key, x_v=value, weights=heads, is_causal=causal
        )

    def answer(self, problem: Problem) -> Answer:
        """Run the steps."""
        answer = self.pipeline.run(problem)
        self.last_weights = answer.attn_weights.detach()
        return answer

    def _masks(
        self, padding: Tensor | None, blocked: Tensor | None, is_fused: bool
    ) -> tuple[GivenMask, ...]:
        given = []
        if padding is not None:
            given.append(GivenMask(allowed=~padding[:, None], axes="BS", convention="blocked"))
        if blocked is not None:
            given.append(GivenMask(allowed=~blocked[None], axes="TS", convention="blocked"))
        return tuple(given)

    def _cached(
        self, x: Tensor, cache: tuple[Tensor, tuple[int, ...]] | None
    ) -> tuple[Tensor, tuple[Tensor, tuple[int, ...]]]:
        length = x.shape[1]
        before, chunks = (x[:, :0], ()) if cache is None else cache
        joined, chunks = torch.cat((before, x), dim=1), (*chunks, length)
        problem = replace(self.problem(joined, None, None, False, True), chunks=chunks)
        return self.answer(problem).output[:, -length:], (joined, chunks)
