"""Wrong calls are refused in every form, with the argument, its value and what is expected."""

import re
from typing import Any

import pytest
import torch

import manyheads as mh
from manyheads.core.errors import ConfigError, ShapeError
from tests.factories import FORMS, annotations_unchecked, layer_of

Q, K = torch.zeros(2, 3, 13), torch.zeros(2, 4, 13)  # B=2, T=3, S=4, D=13
BITS, KEEP = torch.ones(3, 4, dtype=torch.bool), torch.ones(2, 4, dtype=torch.bool)

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "rank 2": (
        {"query": Q[0]},
        r"query has shape \(3, 13\), expected \(B, T, 13\): use query\[None\]",
    ),
    "rank 4": ({"key": K[None]}, r"key has shape \(1, 2, 4, 13\), expected \(B, T, 13\)"),
    "list": ({"query": [1.0]}, r"query \(list\) must be a tensor: use torch.as_tensor"),
    "width": ({"query": Q[..., :12]}, r"query has shape \(2, 3, 12\), expected \(B, T, 13\)"),
    "key width": ({"key": K[..., :5]}, r"key has shape \(2, 4, 5\).*its last axis must be 13"),
    "value width": ({"value": K[..., :5]}, r"value has shape \(2, 4, 5\)"),
    "integers": (
        {"query": Q.long()},
        r"query has dtype torch.int64, expected floating point: use query.float",
    ),
    "bool": ({"key": K.bool()}, r"key has dtype torch.bool, expected floating point"),
    "dtype": (
        {"value": K.double()},
        r"value has dtype torch.float64, expected torch.float32 as the layer",
    ),
    "no query": ({"query": Q[:, :0]}, r"query has shape \(2, 0, 13\), an empty sequence"),
    "no key": (
        {"key": K[:, :0], "value": K[:, :0]},
        r"key has shape \(2, 0, 13\), an empty sequence",
    ),
    "batches": (
        {"query": Q[:1]},
        r"\(1, 3, 13\), \(2, 4, 13\) and \(2, 4, 13\): batches must be equal",
    ),
    "lengths": (
        {"value": K[:, :3]},
        r"\(2, 4, 13\) and \(2, 3, 13\): batches must be equal, and key and",
    ),
    "mask turned": (
        {"attn_mask": BITS.T},
        r"attn_mask has shape \(4, 3\), expected \(T, S\) = \(3, 4\)",
    ),
    "mask rank 3": (
        {"attn_mask": BITS[None]},
        r"attn_mask has shape \(1, 3, 4\), expected \(T, S\) = \(3, 4\) or "
        r"\(B, H, T, S\) = \(2, 6, 3, 4\): use attn_mask\[:, None\]",
    ),
    "mask rank 1": ({"attn_mask": BITS[0]}, r"attn_mask has shape \(4,\), expected"),
    "mask heads": (
        {"attn_mask": BITS.expand(2, 5, 3, 4)},
        r"attn_mask has shape \(2, 5, 3, 4\), expected \(B, H, T, S\) = \(2, 6, 3, 4\)",
    ),
    "mask dtype": (
        {"attn_mask": BITS.double()},
        r"attn_mask has dtype torch.float64, expected torch.bool",
    ),
    "mask of integers": (
        {"attn_mask": BITS.long()},
        r"attn_mask has dtype torch.int64, expected torch.bool",
    ),
    "mask list": ({"attn_mask": [[True]]}, r"attn_mask \(list\) must be a tensor"),
    "padding shape": (
        {"key_padding_mask": KEEP[:, :3]},
        r"key_padding_mask has shape \(2, 3\), expected \(B, S\) = \(2, 4\)",
    ),
    "padding rank": (
        {"key_padding_mask": KEEP[0]},
        r"key_padding_mask has shape \(4,\), expected \(B, S\)",
    ),
    "padding dtype": (
        {"key_padding_mask": KEEP.float()},
        r"key_padding_mask has dtype torch.float32, expected torch.bool \(True = padding\)",
    ),
    "padding list": (
        {"key_padding_mask": [True]},
        r"key_padding_mask \(list\) must be a tensor",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_call_is_refused_with_names_and_values_in_every_form(name: str) -> None:
    change, words = WRONG[name]
    arguments = {"query": Q, "key": K, "value": K} | change
    for form in FORMS:
        layer = layer_of(form=form, dtype=torch.float32)
        for call in (layer, layer.trace):
            with annotations_unchecked(), pytest.raises(ShapeError, match=words) as caught:
                call(**arguments)
            assert isinstance(caught.value, mh.ManyHeadsError)
            assert isinstance(caught.value, ValueError)
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "meaning"), [("is_causal", "hide"), ("need_weights", "return")])
@pytest.mark.parametrize("value", ["no", None, 1, torch.tensor(True)], ids=str)
def test_flag_that_is_neither_true_nor_false_is_refused(
    name: str, meaning: str, value: object
) -> None:
    words = rf"{name} \({re.escape(repr(value))}\) must be True or False: pass True to {meaning}"
    for form in FORMS:
        layer = layer_of(form=form, dtype=torch.float32)
        for call in (layer, layer.trace) if name == "is_causal" else (layer,):
            with annotations_unchecked(), pytest.raises(ConfigError, match=words):
                call(Q, **{name: value})
