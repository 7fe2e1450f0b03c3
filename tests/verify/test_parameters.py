"""Weights are found in every arrangement, bit for bit, and gradients flow through them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from manyheads.attention.module import MultiHeadAttention
from manyheads.core.compare import check_close
from manyheads.core.errors import SubjectError
from manyheads.core.weights import HeadWeights
from manyheads.verify.parameters import locate
from manyheads.verify.subject import ParamSpec, Spec
from tests.factories import annotations_unchecked, random_like

D, H, G, d = 12, 6, 3, 2
SPEC = Spec(embed_dim=D, num_heads=H, num_kv_heads=G, head_dim=d)
EVEN = Spec(embed_dim=D, num_heads=3)
NAMES = {"q": "q", "k": "k", "v": "v", "o": "o"}


def weights_of(spec: Spec) -> HeadWeights:
    """Known matrices, all biases drawn."""
    heads, groups, width = spec.heads, spec.kv_heads, spec.d
    shapes = {
        "w_q": (heads, D, width), "w_k": (groups, D, width), "w_v": (groups, D, width),
        "w_o": (heads, width, D), "b_q": (heads, width), "b_k": (groups, width),
        "b_v": (groups, width), "b_o": (D,),
    }  # fmt: skip
    return HeadWeights(**{n: random_like(i, *s) for i, (n, s) in enumerate(shapes.items())})


class Holder(nn.Module):
    """An object that keeps tensors under the given names."""

    def __init__(self, **tensors: Tensor) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            setattr(self, name, nn.Parameter(tensor.clone()))


def linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, dtype=weight.dtype)
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)
    return layer


def rows(w: HeadWeights, kind: str) -> tuple[Tensor, Tensor]:
    """(heads * d, D) and (heads * d,)."""
    return getattr(w, f"w_{kind}").mT.flatten(0, 1), getattr(w, f"b_{kind}").flatten()


def out(w: HeadWeights) -> nn.Linear:
    return linear(w.w_o.flatten(0, 1).T, w.b_o)


Made = tuple[Any, ParamSpec]


def separate(w: HeadWeights) -> Made:
    root = nn.ModuleDict({n: linear(*rows(w, n)) for n in "qkv"} | {"o": out(w)})
    return root, ParamSpec(layout="separate", names=NAMES)


def in_out(w: HeadWeights) -> Made:
    tensors = {n: rows(w, n)[0].T for n in "qkv"} | {"o": w.w_o.flatten(0, 1)}
    biases = {f"b{n}": rows(w, n)[1] for n in "qkv"} | {"bo": w.b_o}
    places = {n: f"b{n}" for n in "qkvo"}
    return Holder(**tensors, **biases), ParamSpec(layout="in_out", names=NAMES, biases=places)


def head_minor(w: HeadWeights) -> Made:
    made = {}
    for n in "qkv":
        weight, bias = getattr(w, f"w_{n}"), getattr(w, f"b_{n}")
        made[n] = linear(weight.permute(2, 0, 1).flatten(0, 1), bias.T.flatten())
    made["o"] = linear(w.w_o.transpose(0, 1).flatten(0, 1).T, w.b_o)
    return nn.ModuleDict(made), ParamSpec(layout="head_minor", names=NAMES)


def conv1x1(w: HeadWeights) -> Made:
    made = nn.ModuleDict()
    for n, layer in separate(w)[0].items():
        conv = nn.Conv1d(layer.in_features, layer.out_features, 1, dtype=torch.float64)
        with torch.no_grad():
            conv.weight.copy_(layer.weight[..., None])
            conv.bias.copy_(layer.bias)
        made[n] = conv
    return made, ParamSpec(layout="conv1x1", names=NAMES)


def packed(w: HeadWeights, order: str = "qkv") -> Made:
    weight, bias = (torch.cat([rows(w, n)[i] for n in order]) for i in (0, 1))
    root = nn.ModuleDict({"qkv": linear(weight, bias), "o": out(w)})
    return root, ParamSpec(layout="packed", names={"qkv": "qkv", "o": "o"}, order=order)


def packed_keys_first(w: HeadWeights) -> Made:
    return packed(w, "kvq")


def packed_kv(w: HeadWeights) -> Made:
    weight, bias = (torch.cat([rows(w, n)[i] for n in "kv"]) for i in (0, 1))
    root = nn.ModuleDict({"q": linear(*rows(w, "q")), "kv": linear(weight, bias), "o": out(w)})
    return root, ParamSpec(layout="packed_kv", names={"q": "q", "kv": "kv", "o": "o"})


def packed_per_head(w: HeadWeights) -> Made:
    weight = torch.cat([w.w_q.mT, w.w_k.mT, w.w_v.mT], dim=1).flatten(0, 1)
    bias = torch.cat([w.b_q, w.b_k, w.b_v], dim=1).flatten()  # type: ignore[list-item]
    root = nn.ModuleDict({"qkv": linear(weight, bias), "o": out(w)})
    return root, ParamSpec(layout="packed_per_head", names={"qkv": "qkv", "o": "o"})


def per_head_modules(w: HeadWeights) -> Made:
    made = nn.ModuleDict({"o": out(w)})
    for n in "qkv":
        pairs = zip(getattr(w, f"w_{n}"), getattr(w, f"b_{n}"), strict=True)
        made[n] = nn.ModuleList([linear(weight.T, bias) for weight, bias in pairs])
    names = {n: n + ".{h}" for n in "qkv"} | {"o": "o"}
    return made, ParamSpec(layout="per_head_modules", names=names)


def per_head_tensors(w: HeadWeights) -> Made:
    tensors = {n: getattr(w, f"w_{n}") for n in "qkvo"}
    biases = {f"b{n}": getattr(w, f"b_{n}") for n in "qkvo"}
    places = {n: f"b{n}" for n in "qkvo"}
    return Holder(**tensors, **biases), ParamSpec(
        layout="per_head_tensors", names=NAMES, biases=places
    )


def mha(w: HeadWeights) -> Made:
    module = nn.MultiheadAttention(D, w.num_heads, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.cat([rows(w, n)[0] for n in "qkv"]))
        module.in_proj_bias.copy_(torch.cat([rows(w, n)[1] for n in "qkv"]))
        module.out_proj.weight.copy_(w.w_o.flatten(0, 1).T)
        module.out_proj.bias.copy_(w.b_o)
    return nn.ModuleDict({"inner": module}), ParamSpec(layout="mha", names={"module": "inner"})


GROUPED: tuple[Callable[[HeadWeights], Made], ...] = (
    separate, in_out, head_minor, conv1x1, packed, packed_keys_first, packed_kv, per_head_modules,
    per_head_tensors,
)  # fmt: skip
EQUAL = (packed_per_head, mha)
ALL = [(make, SPEC) for make in GROUPED] + [(make, EVEN) for make in (*GROUPED, *EQUAL)]


@pytest.mark.parametrize(("make", "spec"), ALL)
def test_weights_are_located_bit_for_bit(make: Callable[[HeadWeights], Made], spec: Spec) -> None:
    wanted = weights_of(spec)
    root, params = make(wanted)
    located = locate(root, params, spec)
    assert located.heads is not None
    assert located.heads.equal(wanted)
    assert located.has_out
    assert not located.shared


@pytest.mark.parametrize(("make", "spec"), ALL)
def test_gradients_reach_the_owner(make: Callable[[HeadWeights], Made], spec: Spec) -> None:
    root, params = make(weights_of(spec))
    heads = locate(root, params, spec).heads
    assert heads is not None
    sum(t.square().sum() for t in heads.tensors().values()).backward()  # type: ignore[union-attr]
    for name, parameter in root.named_parameters():
        assert parameter.grad is not None, name
        check_close(name, parameter.grad, 2 * parameter.detach(), allowed=1e-12)


def test_owner_of_an_mha_computes_what_the_located_weights_compute() -> None:
    root, params = mha(weights_of(EVEN))
    heads = locate(root, params, EVEN).heads
    assert heads is not None
    x = random_like(9, 2, 5, D)
    layer = MultiHeadAttention.from_weights(heads)
    check_close("output", layer(x), root["inner"](x, x, x)[0], allowed=1e-12)


def test_identity_has_no_weights() -> None:
    located = locate(nn.Module(), ParamSpec(layout="identity"), SPEC)
    assert located.heads is None
    assert not located.has_out


def test_absent_out_is_no_output_projection() -> None:
    root, _ = separate(weights_of(SPEC))
    params = ParamSpec(layout="separate", names={n: n for n in "qkv"})
    assert not locate(root, params, SPEC).has_out


def test_one_object_for_all_heads_is_seen() -> None:
    root, params = per_head_modules(weights_of(EVEN))
    for n in "qkv":
        root[n] = nn.ModuleList([root[n][0]] * EVEN.heads)
    assert locate(root, params, EVEN).shared


def test_layers_that_take_a_slice_are_widened_and_seen() -> None:
    width = D // EVEN.heads
    root = nn.ModuleDict({"o": out(weights_of(EVEN))})
    for n in "qkv":
        layers = [linear(random_like(h, EVEN.d, width), None) for h in range(EVEN.heads)]
        root[n] = nn.ModuleList(layers)
    names = {n: n + ".{h}" for n in "qkv"} | {"o": "o"}
    for layout, is_fault in (("per_head_modules", True), ("slices", False)):
        located = locate(root, ParamSpec(layout=layout, names=names), EVEN)
        assert located.reads_slices == is_fault
        assert located.heads is not None
        w_q = located.heads.w_q
        assert w_q.shape == (EVEN.heads, D, EVEN.d)
        assert torch.equal(w_q[1, width : 2 * width].T, root["q"][1].weight)
        assert not w_q[1, :width].any()


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"q": "query", "k": "k", "v": "v"}, r"'query' has no 'query' in the built object"),
        ({"q": "q.inner", "k": "k", "v": "v"}, r"'q.inner' has no 'inner'"),
        ({"k": "k", "v": "v"}, r"params.q is missing: layout 'separate' needs it"),
        ({"q": "q", "k": "q", "v": "v"}, r"do not fit the declared sizes"),
        ({"q": "act", "k": "k", "v": "v"}, r"params.q \('act'\) is neither a tensor nor a module"),
    ],
)
def test_name_that_leads_nowhere_is_named(names: dict[str, str], said: str) -> None:
    root, _ = separate(weights_of(SPEC))
    root["act"] = nn.ReLU()
    with annotations_unchecked(), pytest.raises(SubjectError, match=said):
        locate(root, ParamSpec(layout="separate", names=names), SPEC)


def test_packed_matrix_of_another_size_is_named() -> None:
    root, params = packed(weights_of(EVEN))
    with pytest.raises(SubjectError, match=r"params.qkv has shape \(36, 12\), expected 24 rows"):
        locate(root, params, SPEC)
