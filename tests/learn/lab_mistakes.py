"""Known mistakes, each made in one place of the attention code, for the lab to find."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from manyheads.attention import fused, module, packed, steps
from manyheads.core.masks import Visibility
from manyheads.core.weights import HeadWeights
from manyheads.learn.lab import part_forms, two_routes
from manyheads.worksheets.library import Worksheet

Patch = pytest.MonkeyPatch


def merge_as_a_view(patch: Patch) -> None:
    """Join heads without moving positions first."""
    for place in (steps, module):
        patch.setattr(place, "merge_heads", lambda x: x.reshape(x.shape[0], x.shape[2], -1))


def split_as_a_view(patch: Patch) -> None:
    """Cut into heads without moving positions."""
    patch.setattr(
        module, "split_heads", lambda x, n: x.reshape(x.shape[0], n, x.shape[1], x.shape[2] // n)
    )


def softmax_over_queries(patch: Patch) -> None:
    """Normalise the wrong axis."""
    patch.setattr(
        packed, "weights_and_sinks", lambda masked, *_: (masked.softmax(-2).nan_to_num(), None)
    )


def mask_turned_round(patch: Patch) -> None:
    """Show what should be hidden, and hide what should be shown."""
    patch.setattr(Visibility, "_ordered", lambda self, position, source: [source >= position])


def fused_without_mask(patch: Patch) -> None:
    """Forget the mask in one form only."""
    patch.setattr(Visibility, "is_square_causal", property(lambda self: False))
    patch.setattr(Visibility, "hides_nothing", property(lambda self: True))


def no_scale(patch: Patch) -> None:
    """Forget to divide by the root of the head width."""
    true_steps = module.packed_steps

    def unscaled(*args: Any, scale: float, **kwargs: Any) -> Any:
        return true_steps(*args, scale=1.0, **kwargs)

    patch.setattr(module, "packed_steps", unscaled)


def weights_leak(patch: Patch) -> None:
    """Give later keys a weight that no rounding to three decimals would show."""
    true_softmax = packed.weights_and_sinks
    patch.setattr(
        packed, "weights_and_sinks", lambda *given: (true_softmax(*given)[0] + 1e-9, None)
    )


def heads_swapped_in_w_o(patch: Patch) -> None:
    """Give each head the rows of the other."""
    true_weights = two_routes.weights_from_sheet

    def swapped(*args: Any) -> HeadWeights:
        weights = true_weights(*args)
        return replace(weights, w_o=weights.w_o.flip(0))

    patch.setattr(two_routes, "weights_from_sheet", swapped)


def contribution_of_abs(patch: Patch) -> None:
    """Lose the sign of a contribution, and the identity with it."""
    true_einsum = torch.einsum
    patch.setattr(steps.torch, "einsum", lambda rule, *xs: true_einsum(rule, *xs).abs())


def gradient_stops(name: str) -> Callable[[Patch], None]:
    """Cut the gradient of q, k or v in the fused form; the numbers stay right."""

    def patched(patch: Patch) -> None:
        true_fused = module.fused_head_outputs

        def cut(q: Tensor, k: Tensor, v: Tensor, **kwargs: Any) -> Tensor:
            heads = {"q": q, "k": k, "v": v}
            heads[name] = heads[name].detach()
            return true_fused(heads["q"], heads["k"], heads["v"], **kwargs)

        patch.setattr(module, "fused_head_outputs", cut)

    return patched


def input_gradient_doubles(patch: Patch) -> None:
    """Let a wrong gradient reach the input from the loop form; the numbers stay right."""
    true_projection = module.project_head_by_head

    def doubled(inputs: Any, *parameters: Any) -> Any:
        query, *others = inputs
        return true_projection((2 * query - query.detach(), *others), *parameters)

    patch.setattr(module, "project_head_by_head", doubled)


def key_bias_leaks(patch: Patch) -> None:
    """Let the bias of the keys reach the output by another way."""
    true_run = part_forms._results

    def leaked(output: Tensor, weights: Tensor, x: Tensor, layer: nn.Module) -> Any:
        found = true_run(output, weights, x, layer)
        return found | {"gradient of b_K": found["gradient of b_K"] + 1e-6}

    patch.setattr(part_forms, "_results", leaked)


def one_parameter_more(patch: Patch) -> None:
    """Store a number that is no weight."""
    true_init = module.MultiHeadAttention.__init__

    def init(self: nn.Module, *args: Any, **kwargs: Any) -> None:
        true_init(self, *args, **kwargs)
        self.extra = nn.Parameter(torch.zeros(1))

    patch.setattr(module.MultiHeadAttention, "__init__", init)


def scores_in_double(patch: Patch) -> None:
    """Keep scores in a type twice as wide."""
    true_trace = module.trace_from_steps
    patch.setattr(
        module,
        "trace_from_steps",
        lambda form, x, heads, found, *rest: true_trace(
            form, x, heads, replace(found, scores=found.scores.double()), *rest
        ),
    )


def scores_averaged(patch: Patch) -> None:
    """Keep one score matrix for all heads."""
    true_trace = module.trace_from_steps

    def averaged(*given: Any) -> Any:
        trace = true_trace(*given)
        object.__setattr__(trace, "scores", trace.scores.mean(1, keepdim=True))
        return trace

    patch.setattr(module, "trace_from_steps", averaged)


def oracle_errs(patch: Patch) -> None:
    """Let the fractions be wrong instead: the lab must not believe either side alone."""
    true_solve = two_routes.solve_exact

    def wrong(*args: Any) -> Any:
        exact = dict(true_solve(*args))
        exact["output"] = (*exact["output"][:2], (Fraction(40, 7),) * 4)
        return exact

    patch.setattr(two_routes, "solve_exact", wrong)


def published_answers_err(patch: Patch) -> None:
    """Let a published answer be wrong."""
    true_read = Worksheet.from_document

    def wrong(document: dict[str, Any]) -> Worksheet:
        document["expected"]["main"]["zero_query"]["output"][1] = "1"
        return true_read(document)

    patch.setattr(Worksheet, "from_document", wrong)


def kernel_breaks(patch: Patch) -> None:
    """Let one form raise: its rows fail, all others are still asked."""

    def broken(*args: Any, **kwargs: Any) -> Tensor:
        raise RuntimeError("no kernel")

    patch.setattr(fused.F, "scaled_dot_product_attention", broken)
