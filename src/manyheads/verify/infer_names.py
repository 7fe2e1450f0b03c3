"""What people call things: constructor sizes, call arguments, and the places of weights."""

import re
from typing import Any

Target = Any
"""Whatever was loaded or built: a class, a module, a function, a configuration."""

SIZES: dict[str, tuple[str, ...]] = {
    "embed_dim": (
        *("embed_dim", "d_model", "dim", "hidden_size", "n_embd", "embed_size", "width", "emb_dim"),
        *("embedding_dim", "model_dim", "emb_size", "emb", "d_in", "d_out", "in_features"),
        *("out_features", "channels", "input_dim", "output_dim", "query_dim", "d_embed", "n_state"),
        *("dmodel", "model_size", "in_dim", "out_dim", "features", "embed", "hidden_dim"),
        *(
            "num_hiddens",
            "n_embed",
            "embedding_size",
            "dim_model",
            "in_channels",
            "embed_dims",
            "c",
            "e",
        ),
    ),
    "num_heads": (
        *("num_heads", "n_heads", "heads", "n_head", "nhead", "num_attention_heads", "h", "nheads"),
        *("num_head", "head", "head_num", "n_attention_heads", "attention_heads", "headcount"),
        *("number_of_heads", "heads_num", "encoder_attention_heads", "decoder_attention_heads"),
    ),
    "num_kv_heads": (
        *("num_kv_heads", "n_kv_heads", "kv_heads", "num_key_value_heads", "n_query_groups"),
        *("n_kv_head", "n_kv", "num_query_groups", "num_groups", "kv_head", "n_local_kv_heads"),
    ),
    "head_dim": (
        *("head_dim", "d_head", "dim_head", "d_k", "head_size", "dim_k", "dk", "d_key", "qk_dim"),
        *("head_width", "kv_channels", "d_kv", "qk_width", "attention_head_size", "dim_per_head"),
    ),
    "v_head_dim": (
        *("v_head_dim", "d_v", "dim_v", "dv", "d_value", "v_dim", "value_width", "value_dim_head"),
    ),
    "kdim": (
        *("kdim", "context_dim", "cross_dim", "encoder_dim", "kv_dim", "cross_attention_dim"),
        *("dim_context", "d_context", "memory_dim", "context_size_dim", "kv_in_dim"),
    ),
    "vdim": ("vdim",),
    "dropout": (
        *("dropout", "attn_dropout", "p", "dropout_p", "attention_dropout", "drop", "attn_drop"),
        *("dropout_rate", "drop_rate", "p_drop", "attn_pdrop", "attention_probs_dropout_prob"),
        *("proj_drop", "resid_dropout", "resid_pdrop", "hidden_dropout_prob", "dropout_prob"),
    ),
    "window": ("window", "window_size", "sliding_window", "attention_window", "local_window"),
}
"""Names of the sizes in a declaration, ours first."""

GUESSES: dict[str, tuple[tuple[str, ...], object]] = {
    "length": (
        (
            *("max_len", "max_seq_len", "block_size", "context_length", "n_ctx", "max_length"),
            *("seq_len", "max_position_embeddings", "ctx_len", "context_size", "max_positions"),
            *("n_positions", "sequence_length", "max_seq_length", "num_tokens", "seq_length"),
        ),
        64,
    ),
    "layers": (("num_layers", "n_layer", "n_layers", "depth", "layers", "num_hidden_layers"), 2),
    "vocab": (("vocab_size", "n_vocab", "vocab", "num_embeddings"), 64),
    "theta": (("rope_theta", "theta", "rope_base", "rotary_base", "base"), 10000.0),
    "batch": (("max_batch_size", "batch_size"), 32),
    "layer": (("layer_idx", "layer_id", "layer_index", "layer"), 0),
    "eps": (("eps", "norm_eps", "layer_norm_eps", "layer_norm_epsilon", "rms_norm_eps"), 1e-5),
    "bias": (("bias", "qkv_bias", "use_bias", "attention_bias", "attn_bias", "out_bias"), True),
    "causal": (("causal", "is_causal", "autoregressive", "is_decoder", "masked"), False),
}
"""What else a constructor may need, with the value it is given."""

CONFIGS = ("config", "cfg", "args", "conf", "params", "model_args", "hparams", "options")
"""Names of a single object that holds all sizes."""

QUERIES = ("q", "query", "queries", "xq", "x_q", "q_in", "query_input", "target")
"""Call arguments that are queries."""
KEYS = ("k", "key", "keys", "xk", "x_k", "k_in", "key_input")
"""Call arguments that are keys."""
VALUES = ("v", "value", "values", "xv", "x_v", "v_in", "value_input")
"""Call arguments that are values."""
CONTEXTS = (
    *("context", "memory", "encoder_hidden_states", "key_value_states", "encoder_output"),
    *("encoder_outputs", "enc_out", "enc", "kv", "source", "src", "cond", "y", "ctx", "z"),
    *("x_kv", "kv_input", "encoder_out", "key_value", "other", "mem", "cross", "media"),
)
"""Call arguments that keys and values are made from."""
CAUSAL_ARGS = ("is_causal", "causal", "use_causal_mask", "apply_causal_mask", "causal_mask")
"""Flags of a call that ask for causality."""
FLAGS = (
    *("need_weights", "output_attentions", "return_attention", "return_attentions"),
    *("return_weights", "return_attn", "return_attn_weights", "return_attention_weights"),
    *("return_attention_scores", "use_flash", "flash", "use_sdpa", "fast", "use_fused", "fused"),
    *("return_probs", "with_weights", "output_weights", "return_scores", "use_fast"),
)
"""Flags of a call that must not change the output."""
STARTS = ("start", "start_pos", "offset", "start_index", "position", "pos", "past_length", "step")
"""Call arguments that say at which position the input begins."""
ROTARIES = (
    *("position_embeddings", "rotary_pos_emb", "rope", "rotary_emb", "rotary", "freqs_cis"),
    *("freqs_complex", "freqs", "freq_cis", "pos_cis", "freqs_cos", "freqs_sin", "cos", "sin"),
    *("rope_cache", "rotary_embedding", "rotary_embeddings", "cos_sin", "rope_freqs"),
)
"""Call arguments that hold rotary tables."""
DOCUMENTS = ("document_ids", "doc_ids", "segment_ids", "sequence_ids", "seq_ids", "doc_id")
"""Call arguments that say to which document of a row each position belongs."""
SCALES = ("scale", "scaling", "softmax_scale", "sm_scale", "norm_factor")
"""Call arguments that scores are multiplied by."""
POSITION_IDS = (
    "position_ids",
    "positions",
    "input_pos",
    "pos_ids",
    "cache_position",
    "token_positions",
)
"""Call arguments that hold the positions' numbers."""

_WORDS = {
    "q": {
        "q",
        "query",
        "queries",
        "qs",
        "wq",
        "qw",
        "toqueries",
        "toquery",
        "toq",
        "querys",
        "qproj",
    },
    "k": {"k", "key", "keys", "ks", "wk", "kw", "tokeys", "tokey", "tok", "kproj"},
    "v": {
        "v",
        "value",
        "values",
        "vs",
        "wv",
        "vw",
        "tovalues",
        "tovalue",
        "tov",
        "val",
        "vals",
        "vproj",
    },
    "qkv": {
        "qkv",
        "wqkv",
        "toqkv",
        "kqv",
        "wkqv",
        "vqk",
        "qvk",
        "vkq",
        "inproj",
        "cattn",
        "kvq",
        "packed",
    },
    "kv": {"kv", "wkv", "tokv", "kvproj", "ckv", "vk"},
    "qk": {"qk", "wqk", "toqk", "kq"},
}
_OUT = {
    *("o", "out", "wo", "output", "proj", "dense", "cproj", "unify", "unifyheads", "projection"),
    *(
        "final",
        "merge",
        "toout",
        "oproj",
        "outproj",
        "ow",
        "wout",
        "fc",
        "linear",
        "combine",
        "mix",
    ),
    *("concat", "heads", "last", "po"),
}


def words(name: str) -> list[str]:
    """The lower-case words of a name, whichever way they are joined."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return [w for w in re.split(r"[_\W\d]+", spaced.lower()) if w]


def role_of(path: str) -> str | None:
    """q, k, v, qkv, kv, qk or o: what the last name of a path says the weights are for."""
    named = [step for step in path.split(".") if not step.isdigit() and step != "{h}"]
    if not named:
        return None
    found = _role(named[-1])
    return (
        _role(named[-2])
        if found is None and len(named) > 1 and named[-1] in ("linear", "weight")
        else found
    )


def _role(name: str) -> str | None:
    parts = words(name)
    kinds = [_kind(part) for part in parts]
    letters = "".join(kind for kind in kinds if kind in ("q", "k", "v"))
    if letters:
        return {"q": "q", "k": "k", "v": "v"}.get(letters) or _several(letters)
    for kind in ("qkv", "kv", "qk"):
        if kind in kinds:
            return kind
    joined = "".join(part for part in parts if part not in ("weight", "weights"))
    whole = _kind(joined)
    if whole is not None:
        return whole
    return "o" if joined in _OUT or any(part in _OUT for part in parts) else None


def _several(letters: str) -> str | None:
    present = "".join(sorted(set(letters)))
    return {"kqv": "qkv", "kv": "kv", "kq": "qk"}.get(present)


def _kind(word: str) -> str | None:
    return next((kind for kind, names in _WORDS.items() if word in names), None)


def bias_role(name: str) -> str | None:
    """Which projection a bias of its own belongs to, None where the name is that of no bias."""
    short = re.fullmatch(r"b_?(q|k|v|o|qkv|kv|out)", name.lower())
    if short:
        return {"out": "o"}.get(short.group(1), short.group(1))
    parts = words(name)
    if "bias" not in parts and "b" not in parts:
        return None
    rest = "_".join(part for part in parts if part not in ("bias", "b"))
    return role_of(rest) if rest else "qkv"  # a bias without a name belongs to what is packed


def role_of_argument(name: str, is_flag: bool) -> str:
    """What an argument is for: q, k, v, context, mask, cache, start, rotary, ... or other."""
    low = name.lower()
    for role, names in (
        ("causal", CAUSAL_ARGS if is_flag else ("is_causal",)),
        ("flag", FLAGS if is_flag else ()),
        *(("q", QUERIES), ("k", KEYS), ("v", VALUES), ("context", CONTEXTS)),
        *(("rotary", ROTARIES), ("ids", POSITION_IDS), ("start", STARTS)),
        *(("mask", MASKS), ("scale", SCALES), ("documents", DOCUMENTS), ("cache", ("state",))),
        *((size, SIZES[size]) for size in ("window", "num_heads", "dropout") if len(low) > 1),
    ):
        if low in names:
            return role
    for role, parts in _PARTS.items():
        if any(part in low for part in parts):
            return role
    return "flag?" if is_flag else "other"


MASKS = (
    *("lengths", "lens", "key_padding", "valid_lens", "valid_len", "seq_lens", "pad"),
    "attention_mask",
)
"""Call arguments that are masks or lengths."""
_PARTS = {
    "cumulative": ("cu_seq", "cu_len", "cumulative"),
    "longest": ("max_seqlen", "max_seq_len", "max_length"),
    "mask": ("mask",),
    "cache": ("cache", "past"),
}
"""Parts of names of call arguments, by what they are for."""
