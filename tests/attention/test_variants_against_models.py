"""The layer against attention of transformers with copied weights, values and gradients.

transformers computes norms, rotary angles and softmax in float32 whatever it is given. Here its
`torch.float32` is float64, so that both sides are compared to 1e-12.
"""

from types import ModuleType
from typing import Any

import pytest
import torch

import manyheads as mh
from manyheads.layouts import heads_from_state_dict
from tests.factories import FORMS, random_like

pytest.importorskip("transformers", reason="lifted by the extra look")
pytestmark = pytest.mark.slow

SIZES: dict[str, Any] = {
    "hidden_size": 24,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
    "num_hidden_layers": 2,
    "vocab_size": 11,
    "intermediate_size": 8,
    "attn_implementation": "eager",
}
YARN = {"factor": 8.0, "beta_fast": 8.0, "beta_slow": 1.0, "original_max_position_embeddings": 32}


def published(module: ModuleType, name: str, **settings: Any) -> tuple[Any, Any, Any]:
    """The first attention layer, its rotary module and its configuration, in float64."""
    config = getattr(module, f"{name}Config")(**SIZES, **settings)
    attention = getattr(module, f"{name}Attention")(config, layer_idx=0).double().eval()
    with torch.no_grad():
        for index, parameter in enumerate(attention.parameters()):
            parameter.copy_(0.5 * random_like(index, *parameter.shape))
    return attention, getattr(module, f"{name}RotaryEmbedding")(config), config


def qwen3() -> tuple[Any, Any, dict[str, Any], dict[str, Any]]:
    from transformers.models.qwen3 import modeling_qwen3 as module

    attention, rotary, config = published(module, "Qwen3", head_dim=6, rms_norm_eps=1e-3)
    options = {"qk_norm": mh.QKNorm(eps=config.rms_norm_eps), "positions": mh.Rotary()}
    return attention, rotary, {"layout": "llama"}, options


def gemma2() -> tuple[Any, Any, dict[str, Any], dict[str, Any]]:
    from transformers.models.gemma2 import modeling_gemma2 as module

    settings = {"attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 10, "sliding_window": 4}
    attention, rotary, _ = published(module, "Gemma2", head_dim=8, **settings)
    options = {"softcap": 2.0, "scale": 10**-0.5, "window": 4, "positions": mh.Rotary()}
    return attention, rotary, {"layout": "llama"}, options


def gpt_oss() -> tuple[Any, Any, dict[str, Any], dict[str, Any]]:
    from transformers.models.gpt_oss import modeling_gpt_oss as module

    rope = {"rope_type": "yarn", "rope_theta": 150000.0, "truncate": False, **YARN}
    settings = {"head_dim": 8, "rope_parameters": rope, "sliding_window": 5}
    attention, rotary, _ = published(module, "GptOss", **settings)
    scaling = mh.RotaryScaling(
        type="yarn", factor=8.0, beta_fast=8.0, original_length=32, truncate=False
    )
    options = {"positions": mh.Rotary(base=150000.0, scaling=scaling), "window": 5}
    return attention, rotary, {"layout": "llama"}, options


def phi() -> tuple[Any, Any, dict[str, Any], dict[str, Any]]:
    from transformers.models.phi import modeling_phi as module

    rope = {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.67}
    settings = {"qk_layernorm": True, "layer_norm_eps": 1e-3, "rope_parameters": rope}
    attention, rotary, _ = published(module, "Phi", **settings)
    norm = mh.QKNorm(type="layer", eps=1e-3)
    options = {"qk_norm": norm, "positions": mh.Rotary(base=100.0, dim=4)}
    return attention, rotary, {"layout": "phi"}, options


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", [qwen3, gemma2, gpt_oss, phi])
def test_the_layer_equals_attention_of_published_models(
    model: Any, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "float32", torch.float64)
    monkeypatch.setattr(torch, "float", torch.float64)
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    attention, rotary, layout, options = model()
    heads = heads_from_state_dict(attention.state_dict(), num_heads=4, num_kv_heads=2, **layout)
    layer = mh.MultiHeadAttention.from_weights(heads, form=form, **options)
    own, theirs = (random_like(9, 2, 7, 24).requires_grad_() for _ in range(2))
    cos_and_sin = rotary(theirs, torch.arange(7)[None])
    allowed = torch.ones(7, 7, dtype=torch.bool).tril()
    if (window := options.get("window")) is not None:
        allowed = allowed.triu(1 - window)
    hidden = torch.zeros(1, 1, 7, 7, dtype=torch.float64).masked_fill(~allowed, -torch.inf)
    expected = attention(theirs, cos_and_sin, hidden)[0]
    found = layer(own, is_causal=True)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    weight = random_like(10, *found.shape)
    (found * weight).sum().backward()
    (expected * weight).sum().backward()
    torch.testing.assert_close(own.grad, theirs.grad, atol=1e-11, rtol=1e-12)
    state = {name: parameter.grad for name, parameter in attention.named_parameters()}
    judge = heads_from_state_dict(state, num_heads=4, num_kv_heads=2, **layout).tensors()
    gradients = mh.MultiHeadAttention.from_weights(heads, form=form, **options)
    for mine, source in zip(gradients.parameters(), layer.parameters(), strict=True):
        mine.data.copy_(source.grad)
    for name, tensor in gradients.head_weights().tensors().items():
        torch.testing.assert_close(tensor, judge[name], atol=1e-11, rtol=1e-12, msg=name)
