"""Layers, inputs, masks and calls for tests; axes that are free have sizes of their own."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from jaxtyping import config as jaxtyping_config
from torch import Tensor

import manyheads as mh
from manyheads.core.config import FORMS as FORMS

D, B, G, d, H, T, S = 13, 2, 3, 5, 6, 3, 4

LAYERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "grouped heads": {"num_kv_heads": G},
    "one key head": {"num_kv_heads": 1},
    "narrow values": {"v_head_dim": 2},
    "wide values": {"v_head_dim": 8},
    "wide values, no bias": {"v_head_dim": 7, "bias": False, "num_kv_heads": 2},
    "own kdim and vdim": {"kdim": 9, "vdim": 4, "num_kv_heads": G, "out_bias": False},
    "only the output has a bias": {"bias": False, "out_bias": True},
    "scale": {"scale": 0.3},
    "window": {"window": 2},
    "rotary half": {"positions": mh.Rotary(), "head_dim": 6},
    "rotary interleaved": {"positions": mh.Rotary(style="interleaved", base=50.0, dim=4)},
    "rotary half, part": {"positions": mh.Rotary(dim=2), "num_kv_heads": 2},
    "linear bias": {"positions": mh.LinearBias()},
    "q/k norm": {"qk_norm": mh.QKNorm(), "num_kv_heads": G},
    "layer norm over all heads, cap": {
        "qk_norm": mh.QKNorm(type="layer", over="all", eps=1e-3),
        "num_kv_heads": 2,
        "softcap": 2.0,
        "v_head_dim": 7,
    },
    "sinks": {"sinks": True, "num_kv_heads": 2},
    "sinks, cap, window, gate": {"sinks": True, "softcap": 1.5, "window": 2, "gate": "sigmoid"},
    "scaled rotary, sinks, gate": {
        "positions": mh.Rotary(
            dim=4, scaling=mh.RotaryScaling(type="yarn", factor=4.0, original_length=8)
        ),
        "sinks": True,
        "gate": "sigmoid",
        "v_head_dim": 7,
        "num_kv_heads": G,
    },
    "own slopes and window": {
        "positions": mh.LinearBias(slopes=(1.0, 2.0, 0.0, -1.0, 0.5, 3.0)),
        "window": 3,
    },
}


def random_like(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Normal numbers that depend on the seed and the shape only."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def layer_of(seed: int = 0, dtype: torch.dtype = torch.float64, **options: Any) -> Any:
    """A layer whose weights and biases are all drawn, so that none is zero."""
    sizes = {"embed_dim": D, "num_heads": H, "head_dim": d} | options
    layer = mh.MultiHeadAttention(**sizes, dtype=dtype)
    with torch.no_grad():
        for index, parameter in enumerate(layer.parameters()):
            parameter.copy_(0.5 * random_like(seed + index, *parameter.shape))
    return layer


def inputs_of(
    layer: Any, queries: int, keys: int, *, batch: int = B, seed: int = 50
) -> list[Tensor]:
    """Query, key and value inputs of the widths and dtype that the layer takes."""
    dtype, config = layer.out_proj.weight.dtype, layer.config
    shapes = ((queries, config.embed_dim), (keys, config.kdim), (keys, config.vdim))
    return [random_like(seed + i, batch, *shape, dtype=dtype) for i, shape in enumerate(shapes)]


def _bits(*shape: int, seed: int = 90) -> Tensor:
    return random_like(seed, *shape) > -0.3


def _with_minus_infinity(*shape: int) -> Tensor:
    return random_like(91, *shape).masked_fill(~_bits(*shape), -torch.inf)


def _rows_blocked(mask: Tensor) -> Tensor:
    rows = torch.arange(mask.shape[-2])[:, None] % 2 == 0
    return mask.masked_fill(rows, False if mask.dtype == torch.bool else -torch.inf)


def _padding(batch: int, keys: int) -> Tensor:
    return (
        torch.arange(keys).expand(batch, -1) >= torch.tensor([[keys], [max(1, keys // 2)]])[:batch]
    )


MASKS: dict[str, Callable[[int, int], dict[str, Any]]] = {
    "none": lambda t, s: {},
    "causal": lambda t, s: {"is_causal": True},
    "bool": lambda t, s: {"attn_mask": _bits(t, s)},
    "bool by sample": lambda t, s: {"attn_mask": _bits(B, 1, t, s)},
    "bool by head, all queries alike": lambda t, s: {"attn_mask": _bits(1, H, 1, s)},
    "bool by query, all keys alike": lambda t, s: {"attn_mask": _bits(t, 1)},
    "one bool for all": lambda t, s: {"attn_mask": torch.ones(1, 1, dtype=torch.bool)},
    "bool with empty rows": lambda t, s: {"attn_mask": _rows_blocked(_bits(t, s))},
    "nothing allowed": lambda t, s: {"attn_mask": torch.zeros(t, s, dtype=torch.bool)},
    "additive": lambda t, s: {"attn_mask": random_like(92, t, s)},
    "additive by head": lambda t, s: {"attn_mask": random_like(93, B, H, t, s)},
    "additive, partly -inf": lambda t, s: {"attn_mask": _with_minus_infinity(t, s)},
    "additive, rows of -inf": lambda t, s: {"attn_mask": _rows_blocked(random_like(94, t, s))},
    "padding": lambda t, s: {"key_padding_mask": _padding(B, s)},
    "all is padding": lambda t, s: {"key_padding_mask": torch.ones(B, s, dtype=torch.bool)},
    "padding, causal": lambda t, s: {"key_padding_mask": _padding(B, s), "is_causal": True},
    "padding, causal, bool": lambda t, s: {
        "key_padding_mask": _padding(B, s),
        "is_causal": True,
        "attn_mask": _bits(B, 1, t, s),
    },
    "padding, causal, additive": lambda t, s: {
        "key_padding_mask": _padding(B, s),
        "is_causal": True,
        "attn_mask": _with_minus_infinity(t, s),
    },
}


def answers(layer: Any, form: str, inputs: list[Tensor], call: dict[str, Any]) -> dict[str, Tensor]:
    """Output, weights, and the gradients of all inputs, of a float mask and of all parameters."""
    layer.form = form
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    mask = call.get("attn_mask")
    if mask is not None and mask.is_floating_point():
        leaves.append(mask.detach().clone().requires_grad_())
        call = call | {"attn_mask": leaves[-1]}
    beside, weights = layer(*leaves[: len(inputs)], need_weights=True, **call)
    # the fused form takes another way where weights are asked for; the others do not
    output = layer(*leaves[: len(inputs)], **call) if form == "fused" else beside
    layer.zero_grad()
    mixed = 2.0 * output - beside  # both matter to the gradient
    loss = (mixed * random_like(70, *output.shape).to(output.dtype)).sum()
    (loss + (weights * random_like(71, *weights.shape).to(weights.dtype)).sum()).backward()
    found = {"output": output.detach(), "weights": weights.detach()}
    found["output beside weights"] = beside.detach()
    names = ("query", "key", "value", "attn_mask")[: len(inputs)] + ("attn_mask",)
    found |= {
        f"gradient of {n}": x.grad
        for n, x in zip(names, leaves, strict=False)
        if x.grad is not None
    }
    return found | {f"gradient of {n}": p.grad.clone() for n, p in layer.named_parameters()}


def assert_same(found: dict[str, Tensor], judge: dict[str, Tensor], allowed: float = 1e-11) -> None:
    """Raise unless all are finite and within `allowed` of the judge."""
    from manyheads.core.compare import check_close

    assert found.keys() == judge.keys()
    for name, tensor in found.items():
        assert torch.isfinite(tensor).all(), name
        check_close(name, tensor, judge[name], allowed=allowed)


def mostly_slow(cases: Iterable[Any], *quick: Any) -> list[Any]:
    """Cases of a test: those named `quick` run by default, and the others are marked slow."""
    listed = list(cases)
    assert [case for case in quick if case not in listed] == []
    return [
        case if case in quick else pytest.param(case, marks=pytest.mark.slow) for case in listed
    ]


@contextmanager
def annotations_unchecked() -> Iterator[None]:
    """Let a wrong argument reach the package's own checks, as it does outside of tests."""
    jaxtyping_config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping_config.update("jaxtyping_disable", False)
