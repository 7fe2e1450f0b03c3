"""How the handmade modules are declared, and what the first finding must be."""

from typing import Any

from torch import nn

from manyheads.verify.subject import Subject
from manyheads.verify.subject_files import subject_from_dict
from tests.verify import faulty_modules as made
from tests.verify import faulty_positions as placed

SEPARATE = {"layout": "separate", "q": "wq", "k": "wk", "v": "wv", "o": "wo"}
PACKED = {"layout": "packed", "qkv": "qkv", "o": "wo"}
LISTED = {"layout": "separate", "q": "layers.0", "k": "layers.1", "v": "layers.2", "o": "wo"}
PADDED = {"masks": [{"arg": "padding", "axes": "BS", "convention": "blocked"}]}
ASKED = {"causal_arg": "causal"}
ROPE = {"position": {"type": "rope", "style": "half", "base": 100.0}}
CACHED = {"form": "cache", "returns": "out,cache"}
STEPS = {**ROPE, "causal": "always"}
GROUPS = {"num_heads": 6, "num_kv_heads": 2, "head_dim": 2}

FAULTY: dict[str, tuple[type[nn.Module], dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "mask-polarity": (made.Inverted, {}, PADDED, SEPARATE),
    "mask-ignored": (made.Ignoring, {}, PADDED, SEPARATE),
    "mask-axis": (made.AlongQueries, {}, PADDED, SEPARATE),
    "mask-multiplied": (made.Multiplying, {}, PADDED, SEPARATE),
    "mask-additive-confusion": (made.Adding, {}, PADDED, SEPARATE),
    "mask-value": (made.NearZero, {}, PADDED, SEPARATE),
    "mask-after-softmax": (made.TooLate, {}, PADDED, SEPARATE),
    "mask-head-order": (made.Tiling, {}, PADDED, SEPARATE),
    "mask-value-in-half": (made.Billion, {}, PADDED, SEPARATE),
    "mask-mutated": (made.WritesInMask, {}, PADDED, SEPARATE),
    "fully-masked-row": (made.Plain, {"fully_masked": "zero"}, PADDED, SEPARATE),
    "causal-off-by-one": (made.CannotSeeItself, {}, ASKED, SEPARATE),
    "causal-alignment": (made.FromFirstKey, {}, {**ASKED, "form": "cross"}, SEPARATE),
    "causal-hint-ignored": (made.Unasked, {}, ASKED, SEPARATE),
    "rotary-pairing": (placed.OtherPairs, ROPE, {}, SEPARATE),
    "rotary-not-a-rotation": (placed.MixedUp, ROPE, {}, SEPARATE),
    "rotary-axis": (placed.AlongHeads, ROPE, {}, SEPARATE),
    "rotary-keys-missing": (placed.QueriesOnly, ROPE, {}, SEPARATE),
    "dtype-mismatch": (placed.NotCastBack, ROPE, {}, SEPARATE),
    "rotary-offset": (placed.FromZeroAgain, STEPS, CACHED, SEPARATE),
    "rotary-applied-twice": (placed.TurnedEachStep, STEPS, CACHED, SEPARATE),
    "cache-entry-missing": (placed.FirstLost, STEPS, CACHED, SEPARATE),
    "cache-position": (placed.OneSlotFar, STEPS, CACHED, SEPARATE),
    "scale": (made.ByModelWidth, {}, {}, SEPARATE),
    "grouped-order": (made.Tiled, GROUPS, {}, SEPARATE),
    "packed-layout": (made.ReadHeadByHead, {}, {}, PACKED),
    "unpack-order": (made.KeysFirst, {}, {}, PACKED),
    "bias-dropped": (made.WithoutBias, {}, {}, PACKED),
    "softmax-axis": (made.OverQueries, {}, {}, SEPARATE),
    "low-precision": (made.RunningHalf, {}, {}, SEPARATE),
    "unregistered-parameters": (made.Listed, {}, {}, LISTED),
    "state-mutated": (made.Counting, {}, {}, SEPARATE),
    "wrong-tensor": (made.ValuesByKeys, {}, {}, SEPARATE),
    "gradient-cut": (made.CutQueries, {}, {}, SEPARATE),
}
"""Class, spec, call and params by the fault that the first finding must name."""
SOUND: dict[str, tuple[type[nn.Module], dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "plain with padding and causality": (made.Plain, {}, {**PADDED, **ASKED}, SEPARATE),
    "rotary": (placed.Rotary, ROPE, {}, SEPARATE),
    "cached": (placed.Cached, STEPS, CACHED, SEPARATE),
    "packed": (made.Packed, {}, {}, PACKED),
}
"""The right forms of the same code."""


def declared(spec: dict[str, Any], call: dict[str, Any], params: dict[str, Any]) -> Subject:
    """The declaration of a handmade module."""
    sizes = {"embed_dim": made.D, "num_heads": made.H, "head_dim": made.d}
    return subject_from_dict(
        {
            "target": "handmade.py:Module",
            "build": {"kwargs": {}},
            "spec": {**sizes, **spec},
            "call": {"form": "self", "layout": "BTE", "returns": "out", **call},
            "params": params,
        }
    )
