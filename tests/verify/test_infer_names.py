"""Names of weights and arguments."""

import pytest

from manyheads.verify.infer_names import bias_role, role_of, role_of_argument


@pytest.mark.parametrize(
    ("path", "role"),
    [
        *(("attn.q_proj", "q"), ("W_query", "q"), ("to_k", "k"), ("wv", "v"), ("w_qs", "q")),
        *(
            ("c_attn", "qkv"),
            ("in_proj_weight", "qkv"),
            ("query_key_value", "qkv"),
            ("Wqkv", "qkv"),
        ),
        *(("to_kv", "kv"), ("wqk", "qk"), ("to_out.0", "o"), ("c_proj", "o"), ("dense", "o")),
        *(("heads.{h}.query", "q"), ("unifyheads", "o"), ("tokeys", "k"), ("linears.2", None)),
        *(("theta", None), ("norm", None)),
    ],
)
def test_the_role_of_a_weight_is_read_off_its_name(path: str, role: str | None) -> None:
    assert role_of(path) == role


def test_biases_of_their_own_are_told_by_name() -> None:
    assert [bias_role(n) for n in ("b_q", "k_bias", "in_proj_bias", "w_q", "b_o")] == [
        *("q", "k", "qkv"),
        *(None, "o"),
    ]


def test_arguments_are_understood_by_name() -> None:
    names = {
        "key_padding_mask": "mask",
        "memory": "context",
        "freqs_cis": "rotary",
        "cache": "cache",
    }
    assert {name: role_of_argument(name, False) for name in names} == names
    assert role_of_argument("is_causal", True) == "causal"
    assert role_of_argument("need_weights", True) == "flag"
