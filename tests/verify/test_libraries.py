"""No attention class of a well-known library is called faulty, two sizes declared and no more."""

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from torch import nn

from manyheads.verify.infer import infer
from manyheads.verify.run import verify
from manyheads.verify.subject import Spec, Subject

E, H = 32, 4
ENCODER = {"hidden_size": E, "num_attention_heads": H, "intermediate_size": 64}
DECODER = {**ENCODER, "num_key_value_heads": 2, "num_hidden_layers": 1, "head_dim": E // H}
BY_NAME = {"embed_dim": E, "num_heads": H}

# class, configuration class, its settings, further constructor arguments
TRANSFORMERS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "bert": ("BertSelfAttention", "BertConfig", ENCODER, {}),
    "distilbert": ("DistilBertSelfAttention", "DistilBertConfig", {"dim": E, "n_heads": H}, {}),
    "gpt2": ("GPT2Attention", "GPT2Config", {"n_embd": E, "n_head": H}, {"layer_idx": 0}),
    "llama": ("LlamaAttention", "LlamaConfig", DECODER, {"layer_idx": 0}),
    "mistral": ("MistralAttention", "MistralConfig", DECODER, {"layer_idx": 0}),
    "qwen2": ("Qwen2Attention", "Qwen2Config", DECODER, {"layer_idx": 0}),
    "gemma": ("GemmaAttention", "GemmaConfig", DECODER, {"layer_idx": 0}),
    "t5": (
        *("T5Attention", "T5Config", {"d_model": E, "num_heads": H, "d_kv": E // H}),
        {"has_relative_attention_bias": True, "layer_idx": 0},
    ),
    "bart": ("BartAttention", "BartConfig", {"d_model": E}, BY_NAME),
    "vit": ("ViTAttention", "ViTConfig", ENCODER, {}),
    "clip": ("CLIPAttention", "CLIPVisionConfig", ENCODER, {}),
    "whisper": ("WhisperAttention", "WhisperConfig", {"d_model": E}, BY_NAME),
}


def _imported(name: str) -> Any:
    """A library that need not be there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except ImportError as error:
            pytest.skip(f"{name} cannot be imported ({error}): install the extra `libraries`")


def _judge(module: nn.Module) -> tuple[str, list[tuple[str | None, str]], dict[str, Any]]:
    """Verdict, errors and what was inferred; a sound one must have been compared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec = Spec(embed_dim=E, num_heads=H)
        known = infer(module, Subject(target="library", spec=spec))
        report = verify(known.made, known.subject, known.inferred, known.understanding)
    statuses = {c.name: c.status for c in report.checks}
    assert report.verdict != "sound" or statuses["values"] == "passed"
    errors = [(f.fault, f.says) for f in report.findings if f.severity == "error"]
    return report.verdict, errors, known.inferred


@pytest.mark.parametrize("batch_first", [False, True])
def test_the_library_class_of_torch_is_sound(batch_first: bool) -> None:
    verdict, errors, inferred = _judge(nn.MultiheadAttention(E, H, batch_first=batch_first))
    assert (verdict, errors) == ("sound", [])
    assert inferred["call.layout"] == ("BTE" if batch_first else "TBE")


@pytest.mark.slow
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_attention_of_transformers_is_sound(name: str, implementation: str) -> None:
    transformers = _imported("transformers")
    models = _imported(f"transformers.models.{name}.modeling_{name}")
    kind, settings_class, settings, arguments = TRANSFORMERS[name]
    if not hasattr(models, kind):
        pytest.skip(f"this release of transformers has no {kind}: see which name took its place")
    settings = {**settings, "attn_implementation": implementation}
    config = getattr(transformers, settings_class)(**settings)
    verdict, errors, _ = _judge(getattr(models, kind)(config=config, **arguments))
    assert (verdict, errors) == ("sound", [])


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [{}, {"flash": True}, {"causal": True}, {"kv_heads": 2}, {"qk_norm": True}],
    ids=["plain", "flash", "causal", "grouped", "normed"],
)
def test_attention_of_x_transformers_is_sound(settings: dict[str, Any]) -> None:
    make: Callable[..., nn.Module] = _imported("x_transformers.x_transformers").Attention
    verdict, errors, _ = _judge(make(E, dim_head=E // H, heads=H, **settings))
    assert (verdict, errors) == ("sound", [])
