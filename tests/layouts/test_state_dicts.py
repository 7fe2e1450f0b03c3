"""State dicts of well-known modules: their own definition and our layer give the same numbers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from manyheads.attention.module import MultiHeadAttention
from manyheads.core.compare import check_close
from manyheads.core.config import LinearBias, Positions, Rotary
from manyheads.core.errors import LayoutError
from manyheads.core.weights import HeadWeights
from manyheads.layouts.state_dicts import (
    STATE_LAYOUTS,
    heads_from_state_dict,
    state_dict_from_heads,
)
from tests.factories import annotations_unchecked
from tests.layouts.published import (
    BloomAttention,
    FalconAttention,
    GPT2Attention,
    LlamaAttention,
    NanoGPTAttention,
    NeoXAttention,
    WhisperAttention,
)
from tests.layouts.random_heads import plain_heads, random_heads

NAMES = [layout.name for layout in STATE_LAYOUTS]


def randomised(module: nn.Module) -> nn.Module:
    """The module with every parameter drawn anew, biases too."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(
                torch.randn(parameter.shape, dtype=torch.float64, generator=generator) / 3
            )
    return module


def inputs(width: int, length: int = 7) -> Tensor:
    generator = torch.Generator().manual_seed(length)
    return torch.randn(2, length, width, dtype=torch.float64, generator=generator)


CAUSAL = {
    "nanogpt": (lambda: NanoGPTAttention(12, 3, bias=True), "nanogpt", (3, None), None),
    "nanogpt-no-bias": (lambda: NanoGPTAttention(12, 3, bias=False), "nanogpt", (3, None), None),
    "gpt2": (lambda: GPT2Attention(12, 3), "gpt2", (3, None), None),
    "llama": (lambda: LlamaAttention(10, 6, 3, 4), "llama", (6, 3), Rotary()),
    "neox": (lambda: NeoXAttention(24, 3, 4), "neox", (3, None), Rotary(dim=4)),
    "bloom": (lambda: BloomAttention(12, 4), "bloom", (4, None), LinearBias()),
    "falcon": (lambda: FalconAttention(24, 6, 2), "falcon", (6, 2), Rotary()),
    "falcon-one-group": (lambda: FalconAttention(24, 6, 1), "falcon", (6, 1), Rotary()),
}


@pytest.mark.parametrize(("build", "layout", "counts", "positions"), CAUSAL.values(), ids=CAUSAL)
def test_against_published_causal_attention(
    build: type[nn.Module], layout: str, counts: tuple[int, int | None], positions: Positions | None
) -> None:
    module = randomised(build())
    state = {f"model.h.11.attn.{name}": tensor for name, tensor in module.state_dict().items()}
    state["model.h.1.attn.c_attn.weight"] = torch.zeros(1)
    heads = heads_from_state_dict(
        state, layout=layout, num_heads=counts[0], num_kv_heads=counts[1], prefix="model.h.11.attn"
    )
    layer = MultiHeadAttention.from_weights(heads, positions=positions)
    x = inputs(heads.embed_dim)
    check_close("output", layer(x, is_causal=True), module(x), allowed=1e-12)
    written = state_dict_from_heads(layer.head_weights(), layout=layout)
    parameters = dict(module.named_parameters())
    assert written.keys() == parameters.keys()
    assert all(torch.equal(written[name], parameters[name]) for name in written)


def test_against_whisper_cross_attention_without_key_bias() -> None:
    module = randomised(WhisperAttention(12, 3))
    heads = heads_from_state_dict(module.state_dict(), layout="whisper", num_heads=3)
    assert heads.b_k is None
    x, source = inputs(12), inputs(12, 11)
    layer = MultiHeadAttention.from_weights(heads)
    check_close("output", layer(x, source), module(x, source), allowed=1e-12)
    assert "k_proj.bias" not in state_dict_from_heads(heads, layout="whisper")


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"kdim": 5, "vdim": 7}, {"kdim": 5}])
def test_against_the_state_of_torch_mha(options: dict[str, int]) -> None:
    module = randomised(nn.MultiheadAttention(12, 3, dtype=torch.float64, **options))
    heads = heads_from_state_dict(module.state_dict(), layout="torch", num_heads=3)
    written = state_dict_from_heads(heads, layout="torch", prefix="attn.")
    other = nn.MultiheadAttention(12, 3, dtype=torch.float64, batch_first=True, **options)
    other.load_state_dict({name.removeprefix("attn."): t for name, t in written.items()})
    x, key, value = inputs(12), inputs(module.kdim, 11), inputs(module.vdim, 11)
    expected, weights = other(x, key, value, average_attn_weights=False)
    y, ours = MultiHeadAttention.from_weights(heads)(x, key, value, need_weights=True)
    check_close("output", y, expected, allowed=1e-12)
    check_close("weights", ours, weights, allowed=1e-12)
    assert all(torch.equal(other.state_dict()[n], t) for n, t in module.state_dict().items())


@pytest.mark.parametrize("layout", NAMES)
@pytest.mark.parametrize("prefix", ["", "h.0.attn", "h.0.attn."])
def test_every_layout_round_trips_under_a_prefix(layout: str, prefix: str) -> None:
    heads = plain_heads()
    state = state_dict_from_heads(heads, layout=layout, prefix=prefix)
    back = heads_from_state_dict(state, layout=layout, num_heads=3, prefix=prefix)
    assert back.equal(heads)
    assert all(name.startswith("h.0.attn." if prefix else "") for name in state)


@pytest.mark.parametrize(
    ("layout", "names"),
    [
        ("llama", {"q_gain": "q_norm.weight", "k_gain": "k_norm.weight", "sinks": "sinks"}),
        ("phi", {"q_gain": "q_layernorm.weight", "k_shift": "k_layernorm.bias"}),
    ],
)
def test_norms_and_sinks_round_trip_where_the_models_have_them(
    layout: str, names: dict[str, str]
) -> None:
    rows = {part: torch.randn(3 if part == "sinks" else 4) for part in names}
    heads = replace(plain_heads(), **rows)
    state = state_dict_from_heads(heads, layout=layout)
    assert all(torch.equal(state[name], rows[part]) for part, name in names.items())
    assert heads_from_state_dict(state, layout=layout, num_heads=3).equal(heads)
    with pytest.raises(LayoutError, match=r"q_gain \(shape \(4,\)\) has no place in layout"):
        state_dict_from_heads(heads, layout="neox")


def test_every_written_tensor_is_a_detached_copy_with_memory_of_its_own() -> None:
    layer = MultiHeadAttention.from_weights(plain_heads())
    state = state_dict_from_heads(layer.head_weights(), layout="llama")
    places = [tensor.untyped_storage().data_ptr() for tensor in state.values()]
    places += [parameter.untyped_storage().data_ptr() for parameter in layer.parameters()]
    assert len(set(places)) == len(places)
    assert all(t.is_contiguous() and not t.requires_grad for t in state.values())


def test_missing_and_unexpected_names_are_all_named_in_full() -> None:
    state = state_dict_from_heads(plain_heads(), layout="gpt2", prefix="h.0")
    del state["h.0.c_proj.bias"], state["h.0.c_attn.weight"]
    state["h.0.q_norm.weight"] = torch.ones(4)
    says = (
        r'state \(read as layout "gpt2"\) lacks h\.0\.c_attn\.weight, h\.0\.c_proj\.bias and has '
        r"the unexpected h\.0\.q_norm\.weight: check layout and prefix"
    )
    with pytest.raises(LayoutError, match=says):
        heads_from_state_dict(state, layout="gpt2", num_heads=3, prefix="h.0")


def test_a_prefix_that_nothing_has_is_named() -> None:
    state = state_dict_from_heads(plain_heads(), layout="llama", prefix="h.10")
    with pytest.raises(LayoutError, match=r"lacks h\.1\.k_proj\.weight, h\.1\.o_proj\.weight"):
        heads_from_state_dict(state, layout="llama", num_heads=3, prefix="h.1")


@pytest.mark.parametrize("wrapper", ["module.", "_orig_mod.", "_orig_mod.module."])
def test_names_with_a_wrapper_in_front_are_recognised(wrapper: str) -> None:
    state: dict[str, Tensor] = {}
    for h in ("h.0", "h.1"):
        state |= state_dict_from_heads(plain_heads(), layout="gpt2", prefix=f"{wrapper}{h}")
    with pytest.raises(LayoutError, match=rf'lacks .*: use prefix "{wrapper}h.1"$'):
        heads_from_state_dict(state, layout="gpt2", num_heads=3, prefix="h.1")
    with pytest.raises(LayoutError, match=rf': use prefix "{wrapper}h.0" or "{wrapper}h.1"$'):
        heads_from_state_dict(state, layout="gpt2", num_heads=3)
    heads_from_state_dict(state, layout="gpt2", num_heads=3, prefix=f"{wrapper}h.1")


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("model.safetensors", r"\(model.safetensors\) must be .*: use safetensors.torch.load_file"),
        (Path("model.onnx"), r"\(model.onnx\) must be .*: an ONNX file holds a graph"),
        (nn.Linear(2, 2), r"\(Linear\) must be a dict: use module.state_dict\(\)"),
        (["c_attn.weight"], r"\(list\) must be a dict of tensors by name"),
    ],
)
def test_what_is_not_a_state_dict_is_refused_with_the_way_to_get_one(
    state: Any, message: str
) -> None:
    with annotations_unchecked(), pytest.raises(LayoutError, match=f"state {message}"):
        heads_from_state_dict(state, layout="gpt2", num_heads=3)


@pytest.mark.parametrize(
    ("layout", "name", "shape", "says"),
    [
        ("torch", "in_proj_weight", (12, 36), r"\(12, 36\), expected \(36, 12\)"),
        ("gpt2", "c_attn.weight", (36, 12), r"\(36, 12\), expected \(12, 36\)"),
        ("llama", "k_proj.weight", (4, 12), r"\(4, 12\), expected \(12, 12\)"),
        ("neox", "query_key_value.bias", (12,), r"\(12,\), expected \(36,\)"),
        ("bloom", "dense.bias", (36,), r"\(36,\), expected \(12,\)"),
        ("whisper", "out_proj.weight", (12, 24), r"\(12, 24\), expected \(12, 12\)"),
    ],
)
def test_a_misshaped_tensor_is_named_in_full(
    layout: str, name: str, shape: tuple[int, ...], says: str
) -> None:
    state = state_dict_from_heads(plain_heads(), layout=layout, prefix="h.0")
    state[f"h.0.{name}"] = torch.zeros(shape)
    with pytest.raises(LayoutError, match=rf"^h\.0\.{name} has shape {says}: "):
        heads_from_state_dict(state, layout=layout, num_heads=3, prefix="h.0")


@pytest.mark.parametrize(("shape", "says"), [((35,), "(3 * embed_dim,)"), ((39,), "(12,)")])
def test_a_misshaped_shared_bias_of_torch_is_named(shape: tuple[int, ...], says: str) -> None:
    state = nn.MultiheadAttention(12, 3, kdim=5).state_dict()
    state["in_proj_bias"] = torch.zeros(shape)
    with pytest.raises(LayoutError, match=r"^in_proj_bias") as caught:
        heads_from_state_dict(state, layout="torch", num_heads=3)
    assert says in str(caught.value)


def test_modules_with_norms_or_extra_keys_are_refused() -> None:
    state = nn.MultiheadAttention(12, 3, add_bias_kv=True).state_dict()
    with pytest.raises(LayoutError, match=r"has the unexpected bias_k, bias_v"):
        heads_from_state_dict(state, layout="torch", num_heads=3)


def test_a_bias_that_comes_alone_is_missed_where_modules_have_all_or_none() -> None:
    state = nn.MultiheadAttention(12, 3).state_dict()
    del state["in_proj_bias"]
    with pytest.raises(LayoutError, match=r"lacks in_proj_bias:"):
        heads_from_state_dict(state, layout="torch", num_heads=3)


def test_what_is_no_tensor_is_named() -> None:
    state = {**state_dict_from_heads(plain_heads(), layout="llama"), "q_proj.weight": [[1.0]]}
    heads_of = getattr(heads_from_state_dict, "__wrapped__", heads_from_state_dict)
    with pytest.raises(LayoutError, match=r"^q_proj\.weight \(list\) must be a tensor"):
        heads_of(state, layout="llama", num_heads=3)


@pytest.mark.parametrize("layout", ["gpt3", "", "Torch"])
def test_an_unknown_layout_is_named_beside_those_that_exist(layout: str) -> None:
    with pytest.raises(LayoutError, match=rf"layout \('{layout}'\) is not known: .*\"falcon\""):
        state_dict_from_heads(plain_heads(), layout=layout)


@pytest.mark.parametrize(
    ("heads", "layout", "says"),
    [
        (random_heads(head_dim=4), "nanogpt", r"num_kv_heads \(3\) must equal num_heads \(6\)"),
        (random_heads(), "llama", r"v_head_dim \(4\) must equal head_dim \(5\)"),
        (
            random_heads(head_dim=4),
            "falcon",
            r"head_dim \(4\) times num_heads \(6\) must be embed_dim \(10\)",
        ),
        (plain_heads(biases=()), "gpt2", r"b_q, b_k, b_v, b_o \(None\) must be there"),
        (plain_heads(biases=("b_o",)), "neox", r"b_q, b_k, b_v \(None\) must be there"),
    ],
)
def test_what_a_layout_cannot_hold_is_refused_with_a_remedy(
    heads: HeadWeights, layout: str, says: str
) -> None:
    with pytest.raises(LayoutError, match=rf"^{says}.*layout \"{layout}\".*: \w+"):
        state_dict_from_heads(heads, layout=layout)
    if heads.num_kv_heads == heads.num_heads:
        return
    wide = state_dict_from_heads(random_heads(head_dim=4), layout="llama")
    assert wide["k_proj.weight"].shape == (12, 10)


@pytest.mark.parametrize(
    ("state", "prefix", "message"),
    [
        ({}, None, r"prefix \(NoneType\) must be text"),
        ({1: torch.zeros(2, 2)}, "", r"state has a name of type int, expected text"),
    ],
)
def test_names_that_are_not_text_are_refused(state: Any, prefix: Any, message: str) -> None:
    with annotations_unchecked(), pytest.raises(LayoutError, match=message):
        heads_from_state_dict(state, layout="llama", num_heads=6, prefix=prefix)
