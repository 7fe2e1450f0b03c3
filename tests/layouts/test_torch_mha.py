"""Whole modules to and from torch: numbers, gradients and settings stay, or it is refused."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from manyheads.attention.module import MultiHeadAttention
from manyheads.core.compare import check_close
from manyheads.core.config import FORMS, LinearBias, Rotary
from manyheads.core.errors import LayoutError
from manyheads.core.masks import blocked_from_allowed
from manyheads.layouts.torch_mha import from_torch, to_torch

MASKS = ("none", "boolean", "each", "additive", "padding")
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no-bias": {"bias": False},
    "own-key-width": {"kdim": 5},
    "own-widths": {"kdim": 5, "vdim": 7},
    "own-widths-no-bias": {"kdim": 5, "vdim": 7, "bias": False},
}


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def torch_module(**options: Any) -> nn.MultiheadAttention:
    """Three heads of width 4, with parameters that are all random, biases too."""
    module = nn.MultiheadAttention(
        12, 3, **{"batch_first": True, "dtype": torch.float64, **options}
    )
    with torch.no_grad():
        for index, parameter in enumerate(module.parameters()):
            parameter.copy_(draw(*parameter.shape, seed=index) / 3)
    return module


def inputs(module: nn.MultiheadAttention, is_self: bool) -> list[Tensor]:
    """Query, key and value that need gradients; one tensor in self-attention."""
    if is_self:
        return [draw(2, 7, 12, seed=10).requires_grad_()]
    shapes = ((7, 12), (11, module.kdim), (11, module.vdim))
    return [draw(2, *shape, seed=10 + i).requires_grad_() for i, shape in enumerate(shapes)]


def masks(num_keys: int, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same masks for torch and for us; every query keeps a key."""
    if kind == "none":
        return {}, {}
    if kind == "additive":
        bias = draw(7, num_keys, seed=20)
        return {"attn_mask": bias}, {"attn_mask": bias}
    if kind == "padding":
        padding = torch.arange(num_keys) >= torch.tensor([[num_keys], [num_keys - 3]])
        return {"key_padding_mask": padding}, {"key_padding_mask": padding}
    allowed = draw(7, num_keys, seed=21) > -0.5
    allowed[:, 0] = True
    if kind == "boolean":
        return {"attn_mask": blocked_from_allowed(allowed)}, {"attn_mask": allowed}
    each = draw(6, 7, num_keys, seed=22) > -0.5
    each[..., 1] = True
    return {"attn_mask": ~each}, {"attn_mask": each.view(2, 3, 7, num_keys)}


def gradients(results: tuple[Tensor, Tensor], leaves: list[Tensor]) -> tuple[Tensor, ...]:
    """Gradients of a sum in which every output and weight has a factor of its own."""
    total = sum((r * draw(*r.shape, seed=30)).sum() for r in results)
    return torch.autograd.grad(total, leaves)


CASES = [
    (form, options, is_self, kind)
    for form, options, is_self, kind in product(FORMS, OPTIONS, (True, False), MASKS)
    if not (is_self and "own" in options)
    and (form == "fused" or options in ("plain", "own-widths-no-bias"))
]


@pytest.mark.parametrize(("form", "options", "is_self", "kind"), CASES)
def test_against_torch_mha_in_outputs_weights_and_every_gradient(
    form: str, options: str, is_self: bool, kind: str
) -> None:
    module = torch_module(**OPTIONS[options])
    layer = from_torch(module)
    layer.form = form
    given = inputs(module, is_self)
    theirs_masks, ours_masks = masks(given[-1].shape[1], kind)
    full = given * 3 if is_self else given
    theirs = module(*full, average_attn_weights=False, **theirs_masks)
    ours = layer(*given, need_weights=True, **ours_masks)
    check_close("output", ours[0], theirs[0], allowed=1e-12)
    check_close("weights", ours[1], theirs[1], allowed=1e-12)
    names = [name for name, _ in module.named_parameters()]
    assert [name for name, _ in layer.named_parameters()] == names
    expected = gradients(theirs, [*given, *module.parameters()])
    actual = gradients(ours, [*given, *layer.parameters()])
    labels = [f"input {index}" for index in range(len(given))] + names
    for label, have, want in zip(labels, actual, expected, strict=True):
        check_close(f"gradient of {label}", have, want, allowed=1e-11)


@pytest.mark.parametrize("options", OPTIONS)
def test_there_and_back_is_bit_for_bit_and_keeps_the_settings(options: str) -> None:
    module = torch_module(dropout=0.25, dtype=torch.bfloat16, **OPTIONS[options]).eval()
    module.out_proj.weight.requires_grad_(False)
    back = to_torch(from_torch(module))
    assert back.state_dict().keys() == module.state_dict().keys()
    for name, parameter in module.named_parameters():
        copy = back.get_parameter(name)
        assert copy.dtype == torch.bfloat16
        assert torch.equal(copy, parameter)
        assert copy.data_ptr() != parameter.data_ptr()
        assert copy.requires_grad == (name != "out_proj.weight")
    assert (back.embed_dim, back.num_heads, back.kdim, back.vdim) == (
        (module.embed_dim, module.num_heads, module.kdim, module.vdim)
    )
    assert back.dropout == 0.25
    assert back.batch_first
    assert not back.training


def test_training_mode_and_dropout_arrive_in_our_layer() -> None:
    module = torch_module(dropout=0.25)
    layer = from_torch(module)
    assert layer.training
    assert layer.config.dropout == 0.25
    assert not from_torch(module.eval()).training


def test_a_module_that_is_not_batch_first_has_the_same_weights() -> None:
    module = torch_module(batch_first=False)
    x = draw(2, 7, 12)
    expected = module(*[x.transpose(0, 1)] * 3)[0].transpose(0, 1)
    check_close("output", from_torch(module)(x), expected, allowed=1e-12)


def test_converting_draws_no_random_numbers() -> None:
    module = torch_module()
    before = torch.get_rng_state()
    to_torch(from_torch(module))
    assert torch.equal(torch.get_rng_state(), before)


def test_changing_the_copy_leaves_the_original() -> None:
    module = torch_module()
    before = module.in_proj_weight.detach().clone()
    with torch.no_grad():
        from_torch(module).in_proj_weight.zero_()
    assert torch.equal(module.in_proj_weight, before)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"add_bias_kv": True}, r"^bias_k \(shape \(1, 1, 12\)\) adds a key .*: convert"),
        ({"add_zero_attn": True}, r"^add_zero_attn \(True\) adds a zero key .*: convert"),
    ],
)
def test_keys_that_a_torch_module_adds_are_refused(options: dict[str, bool], says: str) -> None:
    with pytest.raises(LayoutError, match=says):
        from_torch(torch_module(**options))


class Scaled(nn.MultiheadAttention):
    """A subclass that computes something else."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        output, weights = super().forward(*args, **kwargs)
        return 2 * output, weights


class OwnLayer(MultiHeadAttention):
    """A subclass of ours that computes something else."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return super().forward(*args, **kwargs) * 2


def test_what_would_be_lost_is_refused() -> None:
    with pytest.raises(LayoutError, match=r"module \(Scaled\) has a forward of its own"):
        from_torch(Scaled(12, 3))
    with pytest.raises(LayoutError, match=r"module \(OwnLayer\) has a forward of its own"):
        to_torch(OwnLayer(12, 3))
    pruned = torch_module()
    prune.random_unstructured(pruned, "in_proj_weight", amount=0.5)
    with pytest.raises(LayoutError, match=r"other parameters .*in_proj_weight_mask"):
        from_torch(pruned)


def test_other_modules_are_refused() -> None:
    with pytest.raises(LayoutError, match=r"module \(Linear\) must be an nn\.MultiheadAttention"):
        from_torch(nn.Linear(2, 2))
    convert = getattr(to_torch, "__wrapped__", to_torch)
    with pytest.raises(LayoutError, match=r"layer \(Linear\) must be a manyheads\.MultiHead"):
        convert(nn.Linear(2, 2))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"num_kv_heads": 1}, r"num_kv_heads \(1\) must equal num_heads \(3\).*repeat_kv_heads"),
        ({"head_dim": 6}, r"head_dim \(6\) times num_heads \(3\) must be embed_dim \(12\)"),
        ({"v_head_dim": 5}, r"v_head_dim \(5\) must equal head_dim \(4\)"),
        ({"scale": 0.25}, r"scale \(0\.25\) must be 1/sqrt\(head_dim\) = 0\.5"),
        ({"window": 3}, r"window \(3\) is unknown to nn\.MultiheadAttention"),
        ({"positions": Rotary()}, r"positions \(Rotary\(.*\)\) are unknown"),
        ({"positions": LinearBias()}, r"positions \(LinearBias\(.*\)\) are unknown"),
        ({"out_bias": False}, r"out_bias \(False\) must equal bias \(True\).*fill_biases"),
    ],
)
def test_what_torch_cannot_hold_is_refused_with_a_remedy(
    options: dict[str, Any], says: str
) -> None:
    with pytest.raises(LayoutError, match=f"^{says}"):
        to_torch(MultiHeadAttention(12, 3, **options))


def test_a_scale_that_is_the_usual_one_is_no_own_scale() -> None:
    assert to_torch(MultiHeadAttention(12, 3, scale=0.5)).head_dim == 4


def with_hook(module: Any) -> None:
    module.register_forward_hook(lambda *_: None)


def with_pre_hook(module: Any) -> None:
    module.register_forward_pre_hook(lambda *_: None)


def with_hook_inside(module: Any) -> None:
    module.out_proj.register_forward_hook(lambda *_: None)


def with_instance_forward(module: Any) -> None:
    module.forward = lambda *_: None


def with_other_out_proj(module: Any) -> None:
    module.out_proj = nn.Bilinear(2, 2, 2)


def with_narrow_out_proj(module: Any) -> None:
    module.out_proj = nn.Linear(8, 12, dtype=torch.float64)


def with_short_in_proj(module: Any) -> None:
    module.in_proj_weight = nn.Parameter(torch.zeros(24, 12, dtype=torch.float64))


def with_mixed_dtypes(module: Any) -> None:
    module.out_proj.float()


def with_mixed_devices(module: Any) -> None:
    module.out_proj.to("meta")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (with_hook, r"module \(MultiheadAttention\) has forward hooks, .*: remove"),
        (with_pre_hook, r"module \(MultiheadAttention\) has forward hooks, .*: remove"),
        (with_hook_inside, r"module\.out_proj \(NonDynamically\w+\) has forward hooks"),
        (with_instance_forward, r"module \(MultiheadAttention\) has a forward of its own"),
        (with_other_out_proj, r"out_proj \(Bilinear\) must be an nn\.Linear"),
        (with_narrow_out_proj, r"out_proj\.weight has shape \(12, 8\), expected \(12, 12\)"),
        (with_short_in_proj, r"in_proj_weight has shape \(24, 12\), expected \(36, 12\)"),
        (
            with_mixed_dtypes,
            r"out_proj\.weight is torch\.float32 on cpu, but in_proj_weight is torch\.float64 on "
            r"cpu: use module\.to\('cpu', torch\.float64\)",
        ),
        (with_mixed_devices, r"out_proj\.weight is torch\.float64 on meta, but in_proj_weight is"),
    ],
)
def test_a_module_that_was_tampered_with_is_refused(
    change: Callable[[nn.MultiheadAttention], None], says: str
) -> None:
    module = torch_module()
    change(module)
    with pytest.raises(LayoutError, match=f"^{says}"):
        from_torch(module)
