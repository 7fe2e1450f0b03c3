"""What `look` shows equals what the model computes, and the model stays as it was."""

import json
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import manyheads as mh
from manyheads.core.errors import LookError
from manyheads.looking.opening import open_model
from manyheads.looking.proof import NotAdditive
from manyheads.looking.reading import FORMAT
from manyheads.models.config import GPTConfig
from manyheads.models.gpt import TinyGPT
from tests.looking.conftest import sizes, small_model

EXACT = 1e-12


def eager_weights(model: nn.Module, ids: Tensor) -> tuple[Tensor, ...]:
    """The weights that the model itself returns with eager attention."""
    was = model.config._attn_implementation
    model.config._attn_implementation = "eager"
    with torch.no_grad():
        found = model.eval()(ids, output_attentions=True).attentions
    model.config._attn_implementation = was
    return found


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert"])
def test_weights_are_those_of_the_models_own_eager_attention(
    name: str, ids: Tensor, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(name)
    seen = mh.look(model, inputs=ids)
    assert seen.proof.output_gap == 0.0
    for layer, weights in enumerate(eager_weights(model, ids)):
        assert torch.equal(seen.weights(layer), weights)
        assert torch.equal(seen.weights(layer, 3), weights[:, 3])


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert"])
def test_contributions_are_the_models_own_matrix_by_head(
    name: str, ids: Tensor, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(name)
    outputs: list[Tensor] = []
    parts = {
        "llama": lambda: model.model.layers[1].self_attn.o_proj,
        "gpt2": lambda: model.transformer.h[1].attn.c_proj,
        "bert": lambda: model.bert.encoder.layer[1].attention.output.dense,
    }
    part = parts[name]()
    handle = part.register_forward_hook(lambda m, a, out: outputs.append(out))
    model.config._attn_implementation = "eager"
    seen = mh.look(model, inputs=ids)
    handle.remove()
    found = seen.contributions(1)
    assert found.shape == (2, 11, 4, 24)
    total = found.sum(dim=2) + (0.0 if part.bias is None else part.bias)
    torch.testing.assert_close(total, outputs[0], rtol=0, atol=EXACT)
    assert seen.proof.refused == {}
    assert seen.proof.intervention_error < EXACT
    assert seen.proof.sum_error < EXACT


def test_contributions_equal_the_loss_when_a_head_is_silenced_by_its_columns(
    llama: nn.Module, ids: Tensor
) -> None:
    found = mh.look(llama, inputs=ids).contributions(0)
    attention = llama.eval().model.layers[0].self_attn
    outputs: list[Tensor] = []
    attention.register_forward_hook(lambda m, a, out: outputs.append(out[0]))
    with torch.no_grad():
        llama(ids)
        attention.o_proj.weight[:, 12:18] = 0.0  # head 2 of width 6
        llama(ids)
    torch.testing.assert_close(outputs[0] - outputs[1], found[:, :, 2], rtol=0, atol=1e-7)


def test_padding_and_window_and_softcap_and_sinks_are_the_models_own(ids: Tensor) -> None:
    gemma = small_model(
        "Gemma2ForCausalLM", **sizes(num_key_value_heads=2, head_dim=6, sliding_window=4)
    )
    mask = torch.ones_like(ids)
    mask[1, :4] = 0
    seen = mh.look(gemma, inputs={"input_ids": ids, "attention_mask": mask})
    assert seen.card.window == 4
    assert seen.card.softcap == 50.0
    assert seen.card.norms == "post"
    assert float(seen.weights(0)[1, :, 6:, :4].abs().max()) == 0.0
    assert float(seen.weights(0)[0, :, 9, :6].abs().max()) == 0.0
    oss = small_model(
        "GptOssForCausalLM",
        **sizes(num_key_value_heads=2, head_dim=6, num_local_experts=2, num_experts_per_tok=1),
    )
    seen = mh.look(oss, inputs=ids)
    assert seen.card.sinks
    assert bool((seen.weights(0).sum(dim=-1) < 0.999).all())
    assert seen.proof.refused == {}


def test_groups_and_shared_layers_are_counted_by_calls(llama: nn.Module, ids: Tensor) -> None:
    card = mh.look(llama, inputs=ids).card
    assert (card.layers, card.modules, card.heads, card.groups) == (2, 2, (4, 4), (2, 2))
    albert = small_model("AlbertModel", **sizes(embedding_size=8, num_hidden_layers=3))
    card = mh.look(albert, inputs=ids).card
    assert (card.layers, card.modules) == (3, 1)


def test_cross_attention_has_its_own_axes(ids: Tensor) -> None:
    t5 = small_model(
        "T5ForConditionalGeneration",
        vocab_size=60, d_model=24, d_kv=6, d_ff=20, num_layers=2, num_heads=4,
        decoder_start_token_id=0,
    )  # fmt: skip
    seen = mh.look(t5, inputs={"input_ids": ids, "decoder_input_ids": ids[:, :5]})
    crossed = [i for i, kind in enumerate(seen.card.kinds) if kind == "cross"]
    assert len(crossed) == 2
    assert all(seen.weights(i).shape == (2, 4, 5, 11) for i in crossed)
    assert seen.proof.refused == {}


def test_a_vision_model_is_read_by_patches() -> None:
    vit = small_model(
        "ViTModel",
        hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=20,
        image_size=12, patch_size=4,
    )  # fmt: skip
    pixels = torch.randn(2, 3, 12, 12, dtype=torch.float64)
    seen = mh.look(vit, inputs={"pixel_values": pixels})
    assert seen.weights(0).shape == (2, 4, 10, 10)
    assert "patch 2,3" in seen.to_html()


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("BitNetModel", {"num_key_value_heads": 2}),
        ("NystromformerModel", {"segment_means_seq_len": 11, "num_landmarks": 11}),
        ("DiffLlamaModel", {"num_key_value_heads": 2}),
        ("XLNetModel", None),
    ],
)
def test_contributions_that_do_not_add_up_are_refused_and_patterns_shown(
    name: str, changes: dict[str, Any] | None, ids: Tensor
) -> None:
    own = {"vocab_size": 60, "d_model": 24, "n_layer": 2, "n_head": 4, "d_inner": 20}
    model = small_model(name, **(own if changes is None else sizes(**changes)))
    seen = mh.look(model, inputs=ids)
    assert set(seen.proof.refused) == set(range(seen.card.layers))
    refusal = seen.contributions(0)
    assert isinstance(refusal, NotAdditive)
    assert refusal.reason
    assert seen.weights(0).shape[0] == 2


def test_a_second_path_beside_the_matrix_is_noticed(llama: nn.Module, ids: Tensor) -> None:
    class Adapted(nn.Module):
        """A matrix with a low-rank path beside it."""

        def __init__(self, base: nn.Linear) -> None:
            super().__init__()
            self.base, self.side = base, nn.Linear(24, 24, bias=False, dtype=torch.float64)

        def forward(self, x: Tensor) -> Tensor:
            return self.base(x) + self.side(x)

    attention = llama.model.layers[1].self_attn
    attention.o_proj = Adapted(attention.o_proj)
    seen = mh.look(llama, inputs=ids)
    assert list(seen.proof.refused) == [1]


def test_numbers_that_are_not_finite_prove_nothing(llama: nn.Module, ids: Tensor) -> None:
    with torch.no_grad():
        llama.model.layers[1].self_attn.v_proj.bias = nn.Parameter(
            torch.full((12,), torch.nan, dtype=torch.float64)
        )
    seen = mh.look(llama, inputs=ids)
    assert list(seen.proof.refused) == [1]
    assert "not finite" in seen.proof.refused[1]


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_a_scaled_sum_with_the_stream_is_part_of_the_way(factor: float) -> None:
    class Scaled(nn.Module):
        """Adds the message to the stream with a factor."""

        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(8, 24, dtype=torch.float64)
            self.out = nn.Linear(8, 8, dtype=torch.float64)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            heads = torch.softmax(q @ k.mT, dim=-1) @ v
            return x + self.out(heads.transpose(1, 2).flatten(2)) * factor

    torch.manual_seed(0)
    seen = mh.look(Scaled(), inputs=torch.randn(3, 5, 8, dtype=torch.float64))
    expected = seen.contributions(0) * factor
    torch.testing.assert_close(seen.stream_contributions(0), expected, rtol=0, atol=1e-14)
    assert seen.stream_error(0) < EXACT


def test_heads_of_a_wrong_order_are_followed_through_the_models_own_axes(ids: Tensor) -> None:
    class HeadMinor(nn.Module):
        """Joins heads with the head axis last, as some code does."""

        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(8, 24, dtype=torch.float64)
            self.out = nn.Linear(8, 8, dtype=torch.float64)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            weights = torch.softmax(q @ k.mT, dim=-1)
            heads = (weights @ v).permute(0, 2, 3, 1)  # (B, T, d, H)
            return x + self.out(heads.flatten(2))

    torch.manual_seed(0)
    seen = mh.look(HeadMinor(), inputs=torch.randn(3, 5, 8, dtype=torch.float64))
    projection = seen.sites[0].projection
    assert projection is not None
    assert projection.heads.tolist() == [0, 1] * 4
    assert seen.proof.refused == {}
    assert seen.proof.intervention_error < EXACT


def test_modules_of_torch_are_read() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(24, 4, 20, batch_first=True, dtype=torch.float64)
    model = nn.TransformerEncoder(layer, 2)
    x = torch.randn(2, 7, 24, dtype=torch.float64)
    seen = mh.look(model, inputs=x)
    with torch.no_grad():
        _, expected = model.eval().layers[0].self_attn(x, x, x, average_attn_weights=False)
    torch.testing.assert_close(seen.weights(0), expected)
    assert seen.card.read_by == ("layout",)
    assert seen.proof.refused == {}
    assert seen.proof.output_gap < EXACT


def test_the_studys_models_show_the_weights_of_their_prediction() -> None:
    opened = open_model("four-heads")
    seen = mh.look("four-heads", "once upon a time there was a little cat")
    assert seen.tokens is not None
    ids = torch.tensor([opened.tokenizer.encode("once upon a time there was a little cat")])
    with torch.no_grad():
        _, weights = opened.model(ids, need_weights=True)
    torch.testing.assert_close(seen.weights(0)[:, :, 0], weights)
    assert seen.proof.refused == {}
    assert seen.proof.output_gap == 0.0
    with pytest.raises(LookError, match="query at every token"):
        seen.labels()


def test_our_own_decoder_is_read_and_its_contributions_are_those_of_its_trace(ids: Tensor) -> None:
    model = TinyGPT(GPTConfig(vocab_size=60, context=16, width=24, num_layers=2, num_heads=4))
    model = model.double().eval()
    seen = mh.look(model, inputs=ids)
    for layer, trace in enumerate(model.traces(ids)):
        torch.testing.assert_close(seen.weights(layer), trace.attn_weights)
        found = seen.contributions(layer).transpose(1, 2)
        torch.testing.assert_close(found, trace.head_contributions)
    assert seen.logits(5).error < EXACT


def test_logits_are_the_sum_of_their_parts(ids: Tensor, gpt2: nn.Module, llama: nn.Module) -> None:
    for model in (gpt2, llama):
        seen = mh.look(model, inputs=ids)
        with torch.no_grad():
            logits = model.eval()(ids).logits[1, 6]
        found = seen.logits(7, against=9, position=6, sample=1)
        assert found.value == pytest.approx(float(logits[7] - logits[9]), abs=1e-6)
        assert sum(found.parts.values()) == pytest.approx(found.value, abs=1e-6)
        assert set(found.heads) == {(layer, head) for layer in range(2) for head in range(4)}
        assert found.parts["1.2"] == found.heads[1, 2]


def test_a_heads_part_of_a_logit_is_its_contribution_through_the_frozen_norm(
    ids: Tensor, gpt2: nn.Module
) -> None:
    seen = mh.look(gpt2, inputs=ids)
    found = seen.logits(7, position=6, sample=0)
    hidden: list[Tensor] = []
    gpt2.eval().transformer.ln_f.register_forward_pre_hook(lambda m, a: hidden.append(a[0]))
    with torch.no_grad():
        gpt2(ids)
    x, norm = hidden[0][0, 6], gpt2.transformer.ln_f
    part = seen.contributions(1)[0, 6, 3]
    centred = (part - part.mean()) / (x.var(correction=0) + norm.eps).sqrt() * norm.weight.detach()
    expected = float(centred @ gpt2.lm_head.weight[7].detach())
    assert found.heads[1, 3] == pytest.approx(expected, rel=1e-9)


def test_logits_behind_a_nonlinearity_or_a_norm_are_refused(ids: Tensor, bert: nn.Module) -> None:
    with pytest.raises(LookError, match="logits cannot be divided"):
        mh.look(bert, inputs=ids).logits(7)


def test_the_json_document_has_the_form_that_is_promised(llama: nn.Module, ids: Tensor) -> None:
    found = json.loads(mh.look(llama, inputs=ids).to_json())
    assert found["format"] == FORMAT == "manyheads-look-1"
    assert set(found["model"]) == {
        "type", "sha256", "layers", "heads", "groups", "dtype", "read_by",
    }  # fmt: skip
    assert len(found["heads"]) == 8
    assert set(found["heads"][0]) == {
        "layer", "head", "label", "score", "null", "ablation", "logit",
    }  # fmt: skip
    assert found["proof"]["refused"] == []
    assert {"seeds", "tokens", "seconds"} <= set(found)


@pytest.mark.parametrize(
    ("inputs", "text", "match"),
    [(None, None, "exactly one"), (None, "a", "tokenizer is missing"), (3, None, "inputs")],
)
def test_wrong_inputs_are_refused(
    inputs: object, text: str | None, match: str, llama: nn.Module
) -> None:
    with pytest.raises(LookError, match=match):
        mh.look(llama, text, inputs=inputs)


def test_layers_and_heads_that_do_not_exist_are_refused(llama: nn.Module, ids: Tensor) -> None:
    seen = mh.look(llama, inputs=ids)
    for layer, head in ((2, None), (-1, None), (0, 4)):
        with pytest.raises(LookError, match="must be from 0"):
            seen.weights(layer, head)


def test_a_module_without_attention_is_refused() -> None:
    with pytest.raises(LookError, match="no attention that can be read"):
        mh.look(nn.Linear(3, 3), inputs=torch.ones(2, 3))
