"""Inference on ordinary modules: what is not declared is read off the module at work."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.core.config import Rotary
from manyheads.core.errors import SubjectError
from manyheads.verify.infer import infer
from manyheads.verify.isolation import judged
from manyheads.verify.subject import CONVENTIONS, MaskSpec, Spec, Subject
from tests.factories import annotations_unchecked, mostly_slow

E, H = 12, 3


def _infer(target: object, **spec: object):  # noqa: ANN202 - an Inference
    sizes = {"embed_dim": E, "num_heads": H} | spec
    return infer(target, Subject(target="t", spec=Spec(**sizes)))


def _verdict(target: object, **spec: object) -> tuple[str, list[str | None]]:
    sizes = {"embed_dim": E, "num_heads": H} | spec
    with annotations_unchecked():
        report = judged(target, Subject(target="t", spec=Spec(**sizes)))
    return report.verdict, [f.fault for f in report.findings if f.severity == "error"]


class Packed(nn.Module):
    """A packed projection, as many write it; the order of its blocks can be chosen."""

    order = "qkv"

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        self.n_head = config.n_head
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.register_buffer("tril", torch.ones(config.block_size, config.block_size).tril().bool())

    def forward(self, x: Tensor) -> Tensor:
        blocks = dict(zip(self.order, self.c_attn(x).chunk(3, -1), strict=True))
        q, k, v = (blocks[n].unflatten(-1, (self.n_head, -1)).transpose(1, 2) for n in "qkv")
        scores = q @ k.mT / math.sqrt(q.size(-1))
        scores = scores.masked_fill(~self.tril[: x.size(1), : x.size(1)], -math.inf)
        return self.c_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class KeyFirst(Packed):
    order = "kqv"


class Masked(nn.Module):
    """Separate projections, a padding mask in the convention `says`, and weights on request."""

    says = "blocked"

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.W_query, self.W_key = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.W_value, self.out_proj = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.drop = nn.Dropout(dropout)

    def hide(self, scores: Tensor, mask: Tensor) -> Tensor:
        mask = mask[:, None, None, :]
        if self.says == "additive":
            return scores + mask
        hidden = {"blocked": lambda: mask, "allowed": lambda: ~mask, "one_zero": lambda: mask == 0}
        return scores.masked_fill(hidden[self.says](), -math.inf)

    def forward(
        self, x: Tensor, key_mask: Tensor | None = None, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        names = (self.W_query, self.W_key, self.W_value)
        q, k, v = (f(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for f in names)
        scores = q @ k.mT * q.size(-1) ** -0.5
        if key_mask is not None:
            scores = self.hide(scores, key_mask)
        weights = scores.softmax(-1)
        y = self.out_proj((self.drop(weights) @ v).transpose(1, 2).flatten(2))
        return (y, weights) if return_weights else y


class Turned(Masked):
    """Rotary tables are handed over by the caller."""

    def forward(self, x: Tensor, freqs_cis: Tensor) -> Tensor:  # type: ignore[override]
        def turn(z: Tensor) -> Tensor:
            wide = z.to(freqs_cis.real.dtype).unflatten(-1, (-1, 2)).contiguous()
            return (
                torch.view_as_real(torch.view_as_complex(wide) * freqs_cis).flatten(-2).to(z.dtype)
            )

        names = (self.W_query, self.W_key, self.W_value)
        q, k, v = (f(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for f in names)
        y = F.scaled_dot_product_attention(turn(q), turn(k), v)
        return self.out_proj(y.transpose(1, 2).flatten(2))


class TimeFirst(Masked):
    """(T, B, E) in and out."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x.transpose(0, 1)).transpose(0, 1)  # type: ignore[union-attr]


class MergedByView(Masked):
    """Heads are joined without moving the head axis back."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        names = (self.W_query, self.W_key, self.W_value)
        q, k, v = (f(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for f in names)
        return self.out_proj(F.scaled_dot_product_attention(q, k, v).reshape(x.shape))


def one_sequence(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:
    """Heads in and out."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)


def test_a_configuration_object_gets_sizes_by_every_usual_name() -> None:
    known = _infer(Packed)
    assert known.subject.kwargs is not None
    assert known.subject.kwargs["config"].n_embd == E
    assert known.inferred["params"]["k"] == "c_attn.weight, rows 13 to 24"
    assert known.subject.spec.causal == "always"
    assert known.inferred["spec.order"] == "always causal"
    assert _verdict(Packed) == ("sound", [])


def test_blocks_of_a_packed_weight_are_told_by_their_use() -> None:
    assert _infer(KeyFirst).inferred["params"] == {
        "k": "c_attn.weight, rows 1 to 12",
        "q": "c_attn.weight, rows 13 to 24",
        "v": "c_attn.weight, rows 25 to 36",
        "o": "c_proj.weight",
    }
    assert _verdict(KeyFirst) == ("sound", [])


MASKS = mostly_slow(sorted(CONVENTIONS.keys() - {"lengths", "documents"}), "additive", "blocked")


@pytest.mark.parametrize("convention", MASKS)
def test_a_padding_mask_is_understood_by_what_it_hides(convention: str) -> None:
    kind = type("Kind", (Masked,), {"says": convention})
    masks = _infer(kind).subject.call.masks
    understood = "allowed" if convention == "one_zero" else convention  # mask == 0 takes both
    assert masks == (MaskSpec(arg="key_mask", axes="BS", convention=understood),)
    assert _verdict(kind) == ("sound", [])


def test_flags_and_returned_weights_are_found() -> None:
    call = _infer(Masked).subject.call
    assert call.flags == {"return_weights": (False, True)}
    assert (call.returns, call.weights_axes) == ("out,weights", "BHTS")


def test_positions_first_is_found_by_behaviour_and_noted() -> None:
    known = _infer(TimeFirst)
    assert known.subject.call.layout == "TBE"
    (note,) = known.inferred["notes"]
    assert note["fault"] is None  # no fault where the axes are what is meant
    assert "over the first axis" in note["says"]


def test_rotary_tables_are_handed_over_where_the_call_needs_them() -> None:
    known = _infer(Turned)
    assert "freqs_cis" in known.inferred["call.filled"]
    assert known.subject.spec.position == Rotary(style="interleaved")
    assert _verdict(Turned) == ("sound", [])


def test_heads_in_and_out_are_told_from_projected_inputs() -> None:
    call = _infer(one_sequence).subject.call
    assert (call.form, call.causal_arg) == ("heads", "is_causal")


def test_sizes_are_read_off_an_instance() -> None:
    known = infer(nn.MultiheadAttention(E, H, batch_first=True), Subject(target="t"))
    assert (known.subject.spec.embed_dim, known.subject.spec.num_heads) == (E, H)
    assert known.subject.call.form == "qkv"
    assert known.inferred["params"]["v"] == "in_proj_weight, rows 25 to 36"


def test_what_is_no_attention_for_any_weights_is_found_undeclared() -> None:
    assert _verdict(MergedByView) == ("faulty", ["merge-by-view"])


class Unscaled(Masked):
    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        names = (self.W_query, self.W_key, self.W_value)
        q, k, v = (f(x).unflatten(-1, (H, -1)).transpose(1, 2) for f in names)
        return self.out_proj(((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2))


def test_another_scale_is_not_inferred() -> None:
    known = _infer(Unscaled)
    assert known.subject.spec.scale is None
    assert known.understanding.scale == pytest.approx(1.0)


def test_a_declared_field_is_never_replaced() -> None:
    subject = Subject(target="t", spec=Spec(embed_dim=E, num_heads=H, scale=0.5))
    assert infer(Masked, subject).subject.spec.scale == 0.5


def test_a_constructor_that_is_not_understood_is_named() -> None:
    class Odd(nn.Module):
        def __init__(self, embed_dim: int, num_heads: int, flavour: str) -> None:
            super().__init__()

    with pytest.raises(SubjectError, match=r"'flavour'.*declare build.kwargs"):
        _infer(Odd)


def test_a_call_that_raises_every_time_is_refused_with_what_it_raised() -> None:
    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise ValueError("out of cheese")

    with pytest.raises(SubjectError, match=r"f\(x\).*out of cheese.*declare call.form"):
        _infer(Broken())


def test_a_layer_without_any_attention_is_no_attention_for_any_weights() -> None:
    report = judged(nn.Linear(E, E), Subject(target="t", spec=Spec(embed_dim=E, num_heads=H)))
    assert report.verdict == "faulty"
    assert "no product of queries and keys" in report.findings[0].says


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(SubjectError, match=r"num_heads \(5\) must divide spec.embed_dim \(12\)"):
        _infer(Masked, num_heads=5)


def test_the_generator_is_left_as_it_was() -> None:
    before = torch.random.get_rng_state()
    _infer(Masked)
    assert torch.equal(torch.random.get_rng_state(), before)
