"""The drop-in module equals the `nn.MultiheadAttention` that it replaces, alone and in layers."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import manyheads as mh
from manyheads.core.errors import ConfigError, LayoutError, ShapeError
from tests.factories import annotations_unchecked, random_like

B, T, S, D, H = 3, 5, 7, 12, 4
DOUBLE: dict[str, Any] = {"dtype": torch.float64}
LAYER: dict[str, Any] = {"d_model": D, "nhead": H, "dim_feedforward": 16, "dropout": 0.0} | DOUBLE
PADDING = torch.arange(S).expand(B, S) >= torch.tensor([[7], [4], [6]])
CAUSAL = nn.Transformer.generate_square_subsequent_mask(S, dtype=torch.float64)
ATTENTIONS = ("self_attn", "multihead_attn")

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*nested tensor.*:UserWarning", "ignore:.*mismatched.*mask.*:UserWarning"
)


def drawn(model: nn.Module) -> nn.Module:
    """The model with all parameters drawn, so that no bias is zero."""
    with torch.no_grad():
        for index, parameter in enumerate(model.parameters()):
            parameter.copy_(0.3 * random_like(index, *parameter.shape))
    return model


def replaced(model: nn.Module) -> nn.Module:
    """A copy of the model whose attention modules are drop-in modules."""
    twin = copy.deepcopy(model)
    for part in list(twin.modules()):
        for name in ATTENTIONS:
            if isinstance(attention := getattr(part, name, None), nn.MultiheadAttention):
                setattr(part, name, mh.from_torch(attention, drop_in=True))
    assert not any(isinstance(part, nn.MultiheadAttention) for part in twin.modules())
    return twin


def assert_equal_runs(model: nn.Module, inputs: tuple[Tensor, ...], **call: Any) -> None:
    """Both give the same values in training and evaluation, and the same gradients."""
    twin = replaced(drawn(model))
    for is_training in (True, False):
        gradients = []
        for run in (model.train(is_training), twin.train(is_training)):
            leaves = [x.clone().requires_grad_() for x in inputs]
            output = run(*leaves, **call)
            run.zero_grad()
            (output * random_like(9, *output.shape)).sum().backward()
            found = {n: p.grad for n, p in run.named_parameters()}
            gradients.append([output, *(x.grad for x in leaves), *found.values()])
        for theirs, ours in zip(*gradients, strict=True):
            assert (theirs - ours).abs().max() < 1e-12
        with torch.no_grad():  # in evaluation torch takes its fast paths
            assert (model(*inputs, **call) - twin(*inputs, **call)).abs().max() < 1e-12


ENCODER_MASKS: dict[str, dict[str, Any]] = {
    "none": {},
    "causal": {"mask": CAUSAL},
    "causal, hinted": {"mask": CAUSAL, "is_causal": True},
    "padding": {"src_key_padding_mask": PADDING},
    "both": {"mask": CAUSAL, "src_key_padding_mask": PADDING},
    "both, Boolean": {"mask": CAUSAL.isinf(), "src_key_padding_mask": PADDING},
}


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("masks", ENCODER_MASKS)
def test_in_an_encoder_it_equals_torch(masks: str, norm_first: bool) -> None:
    layer = nn.TransformerEncoderLayer(**LAYER, batch_first=True, norm_first=norm_first)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first)
    assert_equal_runs(encoder, (random_like(1, B, S, D),), **ENCODER_MASKS[masks])


@pytest.mark.parametrize("batch_first", [False, True])
def test_in_a_decoder_it_equals_torch(batch_first: bool) -> None:
    layer = nn.TransformerDecoderLayer(**LAYER, batch_first=batch_first, norm_first=batch_first)
    target, memory = random_like(1, B, T, D), random_like(2, B, S, D)
    if not batch_first:
        target, memory = target.transpose(0, 1), memory.transpose(0, 1)
    masks = {"tgt_mask": CAUSAL[:T, :T], "memory_key_padding_mask": PADDING}
    assert_equal_runs(nn.TransformerDecoder(layer, 2), (target, memory), **masks)


def test_in_a_transformer_it_equals_torch() -> None:
    model = nn.Transformer(
        D, H, 1, 1, dim_feedforward=16, dropout=0.0, batch_first=True, dtype=torch.float64
    )
    masks = {"src_key_padding_mask": PADDING, "tgt_mask": CAUSAL[:T, :T], "tgt_is_causal": True}
    assert_equal_runs(model, (random_like(1, B, S, D), random_like(2, B, T, D)), **masks)


MASKS: dict[str, dict[str, Tensor]] = {
    "none": {},
    "Boolean": {"attn_mask": random_like(3, T, S) > 0.8},
    "by head": {"attn_mask": random_like(4, B * H, T, S) > 0.8},
    "added": {"attn_mask": random_like(5, T, S)},
    "padding": {"key_padding_mask": PADDING},
    "padding added": {"key_padding_mask": random_like(6, B, S), "attn_mask": random_like(7, T, S)},
}


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("masks", MASKS)
def test_alone_it_returns_what_torch_returns(masks: str, batch_first: bool) -> None:
    module = drawn(nn.MultiheadAttention(D, H, kdim=6, vdim=9, batch_first=batch_first, **DOUBLE))
    ours = mh.from_torch(module, drop_in=True)
    inputs = [random_like(1, B, T, D), random_like(2, B, S, 6), random_like(3, B, S, 9)]
    if not batch_first:
        inputs = [x.transpose(0, 1) for x in inputs]
    for options in ({}, {"average_attn_weights": False}, {"need_weights": False}):
        theirs, weights = module(*inputs, **MASKS[masks], **options)
        output, own_weights = ours(*inputs, **MASKS[masks], **options)
        assert (output - theirs).abs().max() < 1e-12
        assert (weights is None) == (own_weights is None)
        assert weights is None or (own_weights - weights).abs().max() < 1e-12


@pytest.mark.parametrize("need_weights", [False, True])
def test_without_a_batch_and_with_dropout_it_draws_what_torch_draws(need_weights: bool) -> None:
    module = drawn(nn.MultiheadAttention(D, H, dropout=0.4, **DOUBLE))
    ours = mh.from_torch(module, drop_in=True)
    x, mask = random_like(1, S, D), random_like(2, H, S, S) > 1.0
    padding = torch.arange(S) > 4
    found = []
    for run in (module, ours):
        torch.manual_seed(5)
        output, weights = run(
            x, x, x, padding, attn_mask=mask, need_weights=need_weights, average_attn_weights=False
        )
        assert output.shape == (S, D)
        found.append([output] if weights is None else [output, weights])
    assert all((a - b).abs().max() < 1e-12 for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("batch_first", [False, True])
def test_with_dropout_a_layer_draws_what_it_drew_with_torch(batch_first: bool) -> None:
    options = LAYER | {"dropout": 0.3, "batch_first": batch_first}
    layer = drawn(nn.TransformerEncoderLayer(**options))
    found = []
    for run in (layer, replaced(layer)):
        torch.manual_seed(5)
        found.append(run(random_like(1, B, S, D)))
    assert (found[0] - found[1]).abs().max() < 1e-12


def test_it_has_the_attributes_and_the_state_of_the_original() -> None:
    module = drawn(nn.MultiheadAttention(D, H, dropout=0.25, batch_first=True, bias=False))
    ours = mh.from_torch(module, drop_in=True)
    names = (
        "embed_dim num_heads head_dim kdim vdim dropout batch_first bias_k bias_v add_zero_attn "
        "_qkv_same_embed_dim in_proj_bias training q_proj_weight"
    )
    for name in names.split():
        assert getattr(ours, name) == getattr(module, name), name
    assert torch.equal(ours.in_proj_weight, module.in_proj_weight)
    other = nn.MultiheadAttention(D, H, batch_first=True, bias=False)
    other.load_state_dict(ours.state_dict())
    back = mh.to_torch(ours)
    for name, tensor in module.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor)
        assert torch.equal(back.state_dict()[name], tensor)
    assert (
        mh.to_torch(mh.from_torch(nn.MultiheadAttention(D, H), drop_in=True)).batch_first is False
    )


def test_hooks_fire_in_evaluation_where_torch_would_take_its_fast_path() -> None:
    layer = nn.TransformerEncoderLayer(**LAYER, batch_first=True)
    layer.self_attn = mh.from_torch(layer.self_attn, drop_in=True)
    x, seen = random_like(1, B, S, D), []
    layer.eval()
    with torch.no_grad():
        expected = layer(x)
        layer.self_attn.heads[1].hook_weights.register_forward_hook(
            lambda module, args, output: seen.append(output)
        )
        assert (layer(x) - expected).abs().max() < 1e-12
    assert seen[0].shape == (B, S, S)


def test_our_own_layer_is_refused_where_torch_would_drop_the_batch_axis() -> None:
    layer = nn.TransformerDecoderLayer(**LAYER)
    for name in ATTENTIONS:
        own = mh.from_torch(getattr(layer, name))
        with pytest.raises(ConfigError, match=rf"{name} \(MultiHeadAttention\).*drop_in=True"):
            setattr(layer, name, own)

    class Own(nn.TransformerEncoderLayer):
        def _sa_block(self, x: Tensor, *_: object, **__: object) -> Tensor:
            return self.self_attn(x)

    allowed = Own(**LAYER)
    allowed.self_attn = mh.from_torch(allowed.self_attn)  # called by conventions of its own
    allowed.other = mh.from_torch(layer.self_attn)


def test_what_it_cannot_compute_is_refused() -> None:
    ours = mh.from_torch(nn.MultiheadAttention(D, H, **DOUBLE), drop_in=True)
    x = random_like(1, T, B, D)
    with pytest.raises(ConfigError, match=r"is_causal \(True\) is a hint .* pass the causal"):
        ours(x, x, x, is_causal=True)
    nested = torch.nested.nested_tensor([random_like(1, 2, D), random_like(2, 3, D)])
    with (
        annotations_unchecked(),
        pytest.raises(ShapeError, match="nested tensor: use torch.nested"),
    ):
        ours(nested, nested, nested)
    with pytest.raises(LayoutError, match="add_zero_attn"):
        mh.from_torch(nn.MultiheadAttention(D, H, add_zero_attn=True), drop_in=True)


@pytest.mark.parametrize(
    ("name", "mask", "message"),
    [
        (
            "key_padding_mask",
            PADDING.T.contiguous(),
            r"shape \(7, 3\), expected \(B, S\) = \(3, 7\)",
        ),
        ("key_padding_mask", PADDING[:1], r"shape \(1, 7\), expected \(B, S\) = \(3, 7\)"),
        ("key_padding_mask", PADDING.long(), r"int64, expected torch.bool \(True = padding\)"),
        ("attn_mask", torch.zeros(H, T, S), r"\(4, 5, 7\), .* \(B \* H, T, S\) = \(12, 5, 7\)"),
        ("attn_mask", torch.zeros(7, T, S), r"shape \(7, 5, 7\), expected \(T, S\) = \(5, 7\)"),
        ("attn_mask", torch.zeros(B, H, T, S), r"shape \(3, 4, 5, 7\), expected \(T, S\)"),
        ("attn_mask", torch.zeros(1, S), r"shape \(1, 7\), expected \(T, S\) = \(5, 7\)"),
        ("attn_mask", torch.zeros(T, S).byte(), r"uint8, expected torch.bool \(True = blocked\)"),
    ],
)
def test_masks_that_torch_refuses_are_refused_in_its_conventions(
    name: str, mask: Tensor, message: str
) -> None:
    original = nn.MultiheadAttention(D, H, batch_first=True, **DOUBLE)
    module = mh.from_torch(original, drop_in=True)
    query, key = random_like(0, B, T, D), random_like(1, B, S, D)
    with pytest.raises((RuntimeError, AssertionError)):
        original(query, key, key, **{name: mask})
    with pytest.raises(ShapeError, match=rf"{name} has .*{message}"):
        module(query, key, key, **{name: mask})


def test_what_cannot_be_converted_names_what_can() -> None:
    module = nn.MultiheadAttention(D, H)
    with pytest.raises(LayoutError, match=r"a manyheads layer already; use to_torch"):
        mh.from_torch(mh.from_torch(module, drop_in=True))
    with pytest.raises(LayoutError, match=r"such as module\.self_attn"):
        mh.from_torch(nn.TransformerEncoderLayer(D, H))
    with annotations_unchecked(), pytest.raises(ConfigError, match=r"drop_in \('yes'\)"):
        mh.from_torch(module, drop_in="yes")  # type: ignore[call-overload]


def test_weights_asked_for_under_vmap_equal_those_of_torch() -> None:
    original = nn.MultiheadAttention(
        D, H, batch_first=True, **DOUBLE
    )  # torch's fast path has no rule
    module = mh.from_torch(original, drop_in=True)
    x = random_like(0, B, T, D)
    stacked = {name: torch.stack([p, 0.5 * p]) for name, p in original.state_dict().items()}

    def run(model: nn.Module) -> Any:
        call = torch.func.functional_call
        return torch.vmap(lambda state: call(model, state, (x, x, x)))(stacked)

    with torch.no_grad():
        for ours, theirs in zip(run(module), run(original), strict=True):
            assert (ours - theirs).abs().max() < 1e-12
