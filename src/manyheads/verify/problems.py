"""Problems for a subject: zero-mean inputs, differing sizes, masks that leave every query a key."""

from dataclasses import replace

import torch
from torch import Tensor

from manyheads.attention.positions import published_slopes
from manyheads.attention.problem import GivenMask, Problem, allowed_by_order
from manyheads.core.config import Rotary
from manyheads.core.weights import HeadWeights
from manyheads.verify.parameters import Located
from manyheads.verify.subject import MaskSpec, Subject


class ProblemMaker:
    """Makes problems for one subject.

    Args:
        subject: fully declared or inferred.
        located: its weights, None where unknown.
    """

    def __init__(self, subject: Subject, located: Located | None) -> None:
        self.subject, self.located = subject, located

    @property
    def weights(self) -> HeadWeights | None:
        """The located weights without their gradient history."""
        if self.located is None or self.located.heads is None:
            return None
        return HeadWeights(**{n: t.detach() for n, t in self.located.heads.tensors().items()})

    def plain(
        self,
        batch: int = 2,
        queries: int = 7,
        keys: int | None = None,
        *,
        seed: int = 0,
        causal: bool | None = None,
        chunks: tuple[int, ...] = (),
    ) -> Problem:
        """A problem without masks.

        Args:
            batch: B.
            queries: T.
            keys: S where the form allows another length; a little longer than T unless given.
            seed: of the inputs.
            causal: whether causality is asked for; as declared unless given.
            chunks: lengths of pieces for the cached forms; one piece unless given.
        """
        subject, spec, form = self.subject, self.subject.spec, self.subject.call.form
        generator = torch.Generator().manual_seed(1000 + seed)
        x_q, x_k, x_v = self._inputs(batch, queries, keys, generator)
        always = spec.causal == "always"
        params = subject.params
        is_cached = form in ("cache", "static_cache")
        return Problem(
            x_q=x_q,
            x_k=x_k,
            x_v=x_v,
            weights=self.weights,
            num_heads=spec.heads,
            num_kv_heads=spec.kv_heads,
            scale=spec.factor,
            has_out=self.located is None or self.located.has_out,
            rotary=spec.position if isinstance(spec.position, Rotary) else None,
            turns_from_first=subject.extras.turns_from_first,
            slopes=published_slopes(spec.heads) if spec.position == "alibi" else None,
            is_causal=always or bool(causal),
            is_top_left=spec.causal_corner == "top_left",
            window=spec.window,
            ahead=subject.extras.ahead,
            softcap=subject.extras.softcap if spec.softcap is None else spec.softcap,
            norms=subject.extras.norms,
            bias=subject.extras.bias,
            sinks=subject.extras.sinks,
            chunks=(chunks or (queries,)) if is_cached else (),
            layout=subject.call.layout or "BTE",
            arrangement="separate" if params is None else params.layout,
        )

    def _inputs(
        self, batch: int, queries: int, keys: int | None, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        spec, form = self.subject.spec, self.subject.call.form

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        if form in ("self", "cache", "static_cache"):
            x = draw(batch, queries, spec.width)
            return x, x, x
        keys = queries if keys is None or self.subject.extras.is_square else keys
        if form == "heads":
            return (
                draw(batch, spec.heads, queries, spec.d),
                draw(batch, spec.kv_heads, keys, spec.d),
                draw(batch, spec.kv_heads, keys, spec.dv),
            )
        x_q = draw(batch, queries, spec.width)
        x_k = draw(batch, keys, spec.kdim or spec.width)
        if form == "cross":
            return x_q, x_k, x_k
        return x_q, x_k, draw(batch, keys, spec.vdim or spec.width)

    def mask(self, spec: MaskSpec, problem: Problem, seed: int, *, share: float = 0.6) -> GivenMask:
        """A random mask for one argument that leaves every query a key.

        Args:
            spec: the argument.
            problem: the problem it is for.
            seed: of the mask.
            share: of keys that stay visible.
        """
        generator = torch.Generator().manual_seed(2000 + seed)
        batch, queries, keys = problem.batch, problem.x_q.shape[-2], problem.x_k.shape[-2]
        by_key = spec.axes in ("BS", "B")
        rows = 1 if by_key else queries
        samples = 1 if spec.axes == "TS" else batch
        if spec.convention == "lengths" or spec.axes == "B":
            lengths = torch.arange(batch) % max(keys - 1, 1) + 1
            lengths = keys - (lengths - 1) if keys > 1 else lengths
            allowed = torch.arange(keys)[None, None, :] < lengths.clamp(1, keys)[:, None, None]
            return GivenMask(allowed=allowed, axes=spec.axes, convention=spec.convention)
        if spec.convention == "documents":
            starts = torch.rand(batch, keys, generator=generator) < 0.4
            ids = starts.cumsum(1)
            return GivenMask(
                allowed=ids[:, :, None] == ids[:, None], axes="BTS", convention="documents"
            )
        allowed = torch.rand(samples, rows, keys, generator=generator) < share
        if samples > 1 and bool((allowed == allowed[:1]).all()):
            allowed[0, :, -1] = ~allowed[0, :, -1]
        return GivenMask(
            allowed=self._with_a_key(allowed, problem), axes=spec.axes, convention=spec.convention
        )

    def _with_a_key(self, allowed: Tensor, problem: Problem) -> Tensor:
        """Allow some key where a query would have none, and hide some where none would be."""
        queries, keys = problem.x_q.shape[-2], problem.x_k.shape[-2]
        order = allowed_by_order(problem, queries, keys)
        if allowed.shape[1] == 1:
            if keys > 1:
                hidden = torch.arange(allowed.shape[0]) % (keys - 1) + 1
                allowed[torch.arange(allowed.shape[0]), 0, hidden] = False
            first = order.to(torch.int64).argmax(dim=-1)  # the oldest key that each query sees
            for s in sorted(set(first.tolist())):
                if not (allowed[:, 0] & order[first == s][0]).any(dim=-1).all():
                    allowed[:, 0, s] = True
            for row in order:
                if row.any() and not (allowed[:, 0] & row).any(dim=-1).all():
                    allowed[:, 0, int(row.nonzero()[-1])] = True
            return allowed
        own = (torch.arange(queries) + keys - queries).clamp(0, keys - 1)
        empty = ~(allowed & order).any(dim=-1)  # (samples, T)
        for sample, row in empty.nonzero().tolist():
            allowed[sample, row, own[row]] = True
        return allowed

    def masked(self, problem: Problem, specs: tuple[MaskSpec, ...], seed: int = 0) -> Problem:
        """The problem with a random mask for each of the given arguments."""
        if self.subject.spec.mask_replaces_causal and specs:
            problem = replace(problem, is_causal=False, window=None)
        masks = tuple(self.mask(spec, problem, seed + i) for i, spec in enumerate(specs))
        if len(masks) > 1:
            masks = self._compatible(problem, masks)
        return replace(problem, masks=masks)

    def with_masks(self, problem: Problem, masks: tuple[GivenMask, ...]) -> Problem:
        """The problem with given masks, which may take the place of causality."""
        if self.subject.spec.mask_replaces_causal and masks:
            return replace(problem, masks=masks, is_causal=False, window=None)
        return replace(problem, masks=masks)

    def _compatible(self, problem: Problem, masks: tuple[GivenMask, ...]) -> tuple[GivenMask, ...]:
        """Several masks, loosened so that each query keeps its own or first key in all of them."""
        queries, keys = problem.x_q.shape[-2], problem.x_k.shape[-2]
        own = (torch.arange(queries) + keys - queries).clamp(0, keys - 1)
        loosened = []
        for mask in masks:
            allowed = mask.allowed.clone()
            if allowed.shape[1] > 1:
                allowed[:, torch.arange(queries), own] = True
                allowed[:, :, 0] = True
            else:
                allowed[:, :, 0] = True
            loosened.append(replace(mask, allowed=allowed))
        return tuple(loosened)
