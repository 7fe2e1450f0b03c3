"""No attention class of a well-known library is called faulty, two sizes declared and no more."""

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from torch import nn

from manyheads.verify import check
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


SIZED = {"dim": E, "heads": H, "dim_head": E // H}
X, VIT, TIMM = "x_transformers.x_transformers", "vit_pytorch", "timm.layers.attention"

# module, class, constructor arguments
OTHERS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    *((X, "Attention", {**SIZED, **more}) for more in ({}, {"flash": True}, {"causal": True})),
    (X, "Attention", {**SIZED, "qk_norm": True}),
    (X, "Attention", {**SIZED, "one_kv_head": True}),
    (X, "Attention", {**SIZED, "add_zero_kv": True}),
    *(
        (f"{VIT}.{name}", "Attention", SIZED)
        for name in ("vit", "simple_vit", "cct", "pit", "cross_vit", "mp3", "look_vit", "vit_5")
    ),
    *(
        (f"{VIT}.{name}", "Attention", SIZED)
        for name in ("vat_siglip", "simple_vit_with_qk_norm", "normalized_vit")
    ),
    (TIMM, "Attention", {"dim": E, "num_heads": H}),
    (TIMM, "Attention", {"dim": E, "num_heads": H, "qk_norm": True, "norm_layer": nn.LayerNorm}),
    (TIMM, "AttentionRope", {"dim": E, "num_heads": H}),
    ("timm.models.beit", "Attention", {"dim": E, "num_heads": H}),
    ("timm.models.tnt", "Attention", {"dim": E, "hidden_dim": E, "num_heads": H}),
    ("timm.models.metaformer", "Attention", {"dim": E, "head_dim": E // H}),
)


@pytest.mark.slow
@pytest.mark.parametrize(("module", "name", "arguments"), OTHERS)
def test_attention_of_other_libraries_is_sound(
    module: str, name: str, arguments: dict[str, Any]
) -> None:
    make: Callable[..., nn.Module] = getattr(_imported(module), name)
    verdict, errors, _ = _judge(make(**arguments))
    assert (verdict, errors) == ("sound", [])


NAMED = (
    ({"kv_heads": 2}, "nonstandard", "query head h reading key/value head h mod G"),
    ({"gate_values": True}, "undetermined", "a sigmoid"),
    ({"head_scale": True}, "undetermined", "multiplied by numbers that differ"),
    ({"num_mem_kv": 2}, "undetermined", "an extra key and value"),
)


@pytest.mark.slow
@pytest.mark.parametrize(("settings", "verdict", "words"), NAMED)
def test_other_attention_is_named_and_not_faulty(
    settings: dict[str, Any], verdict: str, words: str
) -> None:
    make: Callable[..., nn.Module] = _imported(X).Attention
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = check(make(**SIZED, **settings), embed_dim=E, num_heads=H)
    assert report.verdict == verdict
    assert any(words in finding.says for finding in report.findings)
