"""Finds the weights of a subject by their declared paths, as per-head matrices."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import ModuleDict, ParameterDict

from manyheads.core.errors import ManyHeadsError, SubjectError
from manyheads.core.weights import HeadWeights
from manyheads.verify.subject import ParamSpec, Spec

Pair = tuple[Tensor, Tensor | None]
"""A weight and its bias, if any."""


def attribute(root: object, path: str) -> Any:  # noqa: ANN401 - any attribute
    """Follow a dotted path through attributes and list positions.

    Raises:
        SubjectError: there is no such attribute; the message names the step that failed.
    """
    here: Any = root
    for step in [s for s in path.split(".") if s]:
        try:
            is_by_name = isinstance(here, Mapping | ModuleDict | ParameterDict)
            if is_by_name and step in here:
                here = here[step]
            elif is_by_name or step.isdigit():
                here = here[int(step)]
            else:
                here = getattr(here, step)
        except (AttributeError, IndexError, TypeError, KeyError, ValueError) as error:
            raise SubjectError(f"params: {path!r} has no {step!r} in the built object") from error
    return here


class WeightReader:
    """Reads weight and bias of a name, as tensors (out, in) and (out,).

    Args:
        root: the built object.
        params: where its weights are.
    """

    def __init__(self, root: object, params: ParamSpec) -> None:
        self.root, self.params, self.tensors = root, params, dict[str, Tensor]()
        self.is_in_out = False  # set where a packed tensor turns out to be stored (in, out)

    def pair(self, kind: str, head: int | None = None) -> Pair:
        """Weight and bias of one projection.

        Args:
            kind: q, k, v, o, qkv or kv.
            head: number of the head where each has its own.

        Raises:
            SubjectError: no path is declared, or it is neither a tensor nor a module.
        """
        path = self.params.names.get(kind)
        if path is None:
            raise SubjectError(f"params.{kind} is missing: layout {self.params.layout!r} needs it")
        path = path.replace("{h}", str(head))
        item = attribute(self.root, path)
        weight, bias = (item, None) if isinstance(item, Tensor) else self._parts(item, path)
        if kind in self.params.biases:
            bias_path = self.params.biases[kind].replace("{h}", str(head))
            bias = attribute(self.root, bias_path)
            self._note(bias_path, bias)
        if not isinstance(weight, Tensor):
            raise SubjectError(
                f"params.{kind} ({path!r}) is neither a tensor nor a module with a weight"
            )
        if weight is item:
            self._note(path, weight)
        return weight, bias if isinstance(bias, Tensor) else None

    def _parts(self, module: object, path: str) -> tuple[object, object]:
        """Weight and bias of a module, as it has them."""
        weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
        self._note(f"{path}.weight", weight)
        self._note(f"{path}.bias", bias)
        is_conv1d = type(module).__name__ == "Conv1D" and hasattr(module, "nf")
        if is_conv1d and isinstance(weight, Tensor):
            return weight.T, bias  # GPT-2's layer stores (in, out)
        return weight, bias

    def _note(self, path: str, tensor: object) -> None:
        if isinstance(tensor, Tensor):
            self.tensors[path] = tensor


__all__ = ["Located", "attribute", "locate"]


@dataclass(frozen=True, kw_only=True)
class Located:
    """Weights found in a subject."""

    heads: HeadWeights | None
    """Per-head matrices, None where there are no projections."""
    tensors: dict[str, Tensor]
    """The subject's own tensors by the names they were found under."""
    has_out: bool
    """Whether there is an output projection."""
    reads_slices: bool = False
    """Whether the per-head layers are only as wide as a slice of the input, undeclared."""
    shared: bool = False
    """Whether every head's layers are the same object."""

    def in_float64(self) -> "Located":
        """The same with per-head matrices in float64, through which no gradient flows."""
        if self.heads is None:
            return self
        each = {name: x.detach().double() for name, x in self.heads.tensors().items()}
        return replace(self, heads=HeadWeights(**each))


def _without_kernel(weight: Tensor) -> Tensor:
    """A convolution of kernel size one as a matrix."""
    while weight.dim() > 2 and weight.shape[-1] == 1:
        weight = weight[..., 0]
    return weight


def _rows(
    weight: Tensor, bias: Tensor | None, heads: int, what: str
) -> tuple[Tensor, Tensor | None]:
    """(heads*d, in) and (heads*d,) into (heads, in, d) and (heads, d)."""
    weight = _without_kernel(weight)
    if weight.dim() != 2 or weight.shape[0] % heads:
        raise SubjectError(
            f"params.{what} has shape {tuple(weight.shape)}, not divisible into {heads} heads"
        )
    split = None if bias is None else bias.unflatten(0, (heads, -1))
    return weight.unflatten(0, (heads, -1)).mT, split


def _out(reader: WeightReader, spec: Spec) -> Pair | None:
    """Output projection as (H, v, D) and (D,)."""
    if "o" not in reader.params.names:
        return None
    if "{h}" in reader.params.names["o"]:
        parts = [reader.pair("o", h) for h in range(spec.heads)]
        biases = [b for _, b in parts if b is not None]
        return torch.stack([w.T for w, _ in parts]), torch.stack(biases).sum(0) if biases else None
    weight, bias = reader.pair("o")
    weight = _without_kernel(weight)
    layout = reader.params.layout
    if layout == "per_head_tensors" and weight.dim() == 3:
        return weight, bias
    if weight.dim() != 2:
        raise SubjectError(f"params.o has shape {tuple(weight.shape)}, expected two axes")
    rows = weight if layout == "in_out" or reader.is_in_out else weight.T  # (H*v, D)
    if rows.shape[0] % spec.heads:
        raise SubjectError(
            f"params.o has shape {tuple(weight.shape)}, not divisible into {spec.heads} heads"
        )
    if layout == "head_minor":
        return rows.unflatten(0, (-1, spec.heads)).transpose(0, 1), bias
    return rows.unflatten(0, (spec.heads, -1)), bias


def _separate(reader: WeightReader, spec: Spec) -> list[Pair]:
    counts = {"q": spec.heads, "k": spec.kv_heads, "v": spec.kv_heads}
    found = []
    for kind, heads in counts.items():
        weight, bias = reader.pair(kind)
        layout = reader.params.layout
        if layout == "in_out":
            weight = weight.T
        if layout == "head_minor":
            rows = weight.unflatten(0, (-1, heads)).transpose(0, 1)  # (heads, d, in)
            found.append((rows.mT, None if bias is None else bias.unflatten(0, (-1, heads)).T))
        else:
            found.append(_rows(weight, bias, heads, kind))
    return found


def _packed(reader: WeightReader, spec: Spec) -> list[Pair]:
    weight, bias = reader.pair("qkv")
    weight = _without_kernel(weight)
    sizes = {"q": spec.heads * spec.d, "k": spec.kv_heads * spec.d, "v": spec.kv_heads * spec.dv}
    widths = [sizes[kind] for kind in reader.params.order]
    if weight.shape[0] != sum(widths) and weight.shape[1] == sum(widths):
        weight, reader.is_in_out = weight.T, True
    if weight.shape[0] != sum(widths):
        raise SubjectError(
            f"params.qkv has shape {tuple(weight.shape)}, expected {sum(widths)} rows"
        )
    parts = dict(zip(reader.params.order, weight.split(widths), strict=True))
    biases = {} if bias is None else dict(zip(reader.params.order, bias.split(widths), strict=True))
    counts = {"q": spec.heads, "k": spec.kv_heads, "v": spec.kv_heads}
    return [_rows(parts[kind], biases.get(kind), heads, "qkv") for kind, heads in counts.items()]


def _packed_per_head(reader: WeightReader, spec: Spec) -> list[Pair]:
    weight, bias = reader.pair("qkv")
    widths = [spec.d, spec.d, spec.dv]
    if weight.shape[0] != spec.heads * sum(widths):
        raise SubjectError(
            f"params.qkv has shape {tuple(weight.shape)}, expected {spec.heads * sum(widths)} rows"
        )
    parts = weight.unflatten(0, (spec.heads, -1)).split(widths, dim=1)  # (H, width, in)
    biases = (
        [None] * 3
        if bias is None
        else list(bias.unflatten(0, (spec.heads, -1)).split(widths, dim=1))
    )
    return [(part.mT, b) for part, b in zip(parts, biases, strict=True)]


def _packed_kv(reader: WeightReader, spec: Spec) -> list[Pair]:
    weight, bias = reader.pair("kv")
    widths = [spec.kv_heads * spec.d, spec.kv_heads * spec.dv]
    if weight.shape[0] != sum(widths):
        raise SubjectError(
            f"params.kv has shape {tuple(weight.shape)}, expected {sum(widths)} rows"
        )
    parts = list(weight.split(widths))
    biases = [None] * 2 if bias is None else list(bias.split(widths))
    if reader.params.order == "vk":
        if widths[0] != widths[1]:
            raise SubjectError("params.order ('vk') needs keys and values of one width")
        parts, biases = parts[::-1], biases[::-1]
    rest = [_rows(p, b, spec.kv_heads, "kv") for p, b in zip(parts, biases, strict=True)]
    return [_rows(*reader.pair("q"), spec.heads, "q"), *rest]


def _per_head_modules(reader: WeightReader, spec: Spec) -> list[Pair]:
    counts = {"q": spec.heads, "k": spec.kv_heads, "v": spec.kv_heads}
    found: list[Pair] = []
    for kind, heads in counts.items():
        parts = [reader.pair(kind, h) for h in range(heads)]
        weights = [w[..., 0] if w.dim() == 3 else w for w, _ in parts]
        biases = [b for _, b in parts if b is not None]
        found.append(
            (torch.stack(weights).mT, torch.stack(biases) if len(biases) == heads else None)
        )
    return found


def _widen_slices(pairs: list[Pair], width: int) -> list[Pair]:
    """Matrices that read only their slice of the input, as matrices of the full width."""
    widened: list[Pair] = []
    for weight, bias in pairs:
        heads, rows, columns = weight.shape
        full = weight.new_zeros(heads, width, columns)
        index = torch.arange(heads)[:, None] * (width // heads) + torch.arange(rows)
        full = full.scatter(1, index[..., None].expand(-1, -1, columns), weight)
        widened.append((full, bias))
    return widened


def _per_head_tensors(reader: WeightReader, spec: Spec) -> list[Pair]:
    return [reader.pair(kind) for kind in "qkv"]


def _mha(
    root: object, params: ParamSpec, spec: Spec
) -> tuple[list[Pair], Pair | None, dict[str, Tensor]]:
    path = params.names.get("module", "")
    module = attribute(root, path)
    if not isinstance(module, nn.MultiheadAttention):
        raise SubjectError(f"params.module ({path!r}) is not an nn.MultiheadAttention")
    packed, bias = _tensor(module, "in_proj_weight"), _tensor(module, "in_proj_bias")
    if packed is not None:
        weights = list(packed.chunk(3))
    else:
        weights = [module.q_proj_weight, module.k_proj_weight, module.v_proj_weight]
    biases = [None] * 3 if bias is None else list(bias.chunk(3))
    pairs = [_rows(w, b, spec.heads, "mha") for w, b in zip(weights, biases, strict=True)]
    prefix = f"{path}." if path else ""
    named: dict[str, Tensor] = {prefix + n: tensor for n, tensor in module.named_parameters()}
    out: Tensor = module.out_proj.weight.T.unflatten(0, (spec.heads, -1))
    return pairs, (out, module.out_proj.bias), named


def _tensor(module: nn.Module, name: str) -> Tensor | None:
    """A parameter that may be missing, though torch annotates it as present."""
    found: Tensor | None = getattr(module, name)
    return found


_READERS: dict[str, Callable[[WeightReader, Spec], list[Pair]]] = {
    "separate": _separate,
    "in_out": _separate,
    "head_minor": _separate,
    "conv1x1": _separate,
    "packed": _packed,
    "packed_per_head": _packed_per_head,
    "packed_kv": _packed_kv,
    "per_head_modules": _per_head_modules,
    "slices": _per_head_modules,
    "per_head_tensors": _per_head_tensors,
    "args": _separate,
}


def all_tensors(made: object) -> dict[str, Tensor]:
    """All tensors that a subject holds, by their paths: registered or plain attributes."""
    found: dict[str, Tensor] = {}
    _collect(getattr(made, "inner", made), "", found, set(), 0)
    return found


def _collect(
    holder: object, prefix: str, found: dict[str, Tensor], seen: set[int], depth: int
) -> None:
    if id(holder) in seen or depth > 6:
        return
    seen.add(id(holder))
    for name, item in _parts_of(holder):
        if isinstance(item, Tensor):
            if id(item) not in seen:
                seen.add(id(item))
                found[f"{prefix}{name}"] = item
        elif isinstance(item, nn.Module | list | tuple | dict):
            _collect(item, f"{prefix}{name}.", found, seen, depth + 1)


def _parts_of(holder: object) -> Iterator[tuple[str, object]]:
    """What a module, list or dictionary holds, by name."""
    if isinstance(holder, nn.Module):
        yield from holder._parameters.items()
        yield from holder._buffers.items()
        yield from holder._modules.items()
        yield from (
            (n, x)
            for n, x in vars(holder).items()
            if not n.startswith("_") or isinstance(x, Tensor)
        )
    elif isinstance(holder, dict):
        yield from ((str(n), x) for n, x in holder.items())
    elif isinstance(holder, list | tuple):
        yield from ((str(i), x) for i, x in enumerate(holder))


def _are_shared(root: object, params: ParamSpec, spec: Spec) -> bool:
    """Whether the per-head paths of one kind all lead to the same object."""
    counts = {"q": spec.heads, "k": spec.kv_heads, "v": spec.kv_heads}
    for kind, heads in counts.items():
        path = params.names.get(kind, "")
        if heads > 1 and "{h}" in path:
            found = {id(attribute(root, path.replace("{h}", str(h)))) for h in range(heads)}
            if len(found) == 1:
                return True
    return False


def locate(root: object, params: ParamSpec, spec: Spec) -> Located:
    """Find the weights of a built subject by their declared names.

    Args:
        root: the module, or for `args` a namespace of the call's weight arguments.
        params: where they are.
        spec: the declared sizes.

    Raises:
        SubjectError: a name leads nowhere, or sizes do not fit the declaration.
    """
    if params.layout == "identity":
        return Located(heads=None, tensors={}, has_out=False)
    if params.found is not None:
        named = vars(root) if isinstance(root, SimpleNamespace) else all_tensors(root)
        heads = params.found.read(named)
        if spec.gate is not None and heads.w_g is None:  # it has none: the outputs show it
            heads = replace(heads, w_g=heads.w_o.new_zeros(*heads.w_q.shape[:2], spec.dv))
        return Located(
            heads=heads,
            tensors={name: named[name] for name in params.found.tensors},
            has_out=params.found.has_out,
        )
    reader = WeightReader(root, params)
    out: Pair | None
    if params.layout == "mha":
        pairs, out, reader.tensors = _mha(root, params, spec)
    else:
        pairs, out = _READERS[params.layout](reader, spec), _out(reader, spec)
    is_narrow = spec.heads > 1 and all(w.shape[1] * spec.heads == spec.width for w, _ in pairs)
    gate = None
    if "gate" in params.names:
        gate = _rows(*reader.pair("gate"), spec.heads, "gate")
    elif spec.gate is not None:
        raise SubjectError("params.gate is missing: spec.gate needs the path of its projection")
    if is_narrow:
        pairs = _widen_slices(_one_for_all(pairs, spec), spec.width)
    return Located(
        heads=_assemble(pairs, out, gate),
        tensors=reader.tensors,
        has_out=out is not None,
        reads_slices=is_narrow and params.layout != "slices",
        shared=_are_shared(root, params, spec),
    )


def _one_for_all(pairs: list[Pair], spec: Spec) -> list[Pair]:
    """One small layer serves every slice where it is only one head wide."""
    made: list[Pair] = []
    for weight, bias in pairs:
        if weight.shape[0] * weight.shape[2] == spec.d and weight.shape[0] > 1:
            weight, bias = (
                weight.transpose(0, 1).flatten(1)[None],
                None if bias is None else bias.flatten()[None],
            )
            weight = weight.expand(spec.heads, -1, -1)
            bias = None if bias is None else bias.expand(spec.heads, -1)
        made.append((weight, bias))
    return made


def _assemble(pairs: list[Pair], out: Pair | None, gate: Pair | None) -> HeadWeights:
    (w_q, b_q), (w_k, b_k), (w_v, b_v) = pairs
    w_o: Tensor
    b_o: Tensor | None
    if out is None:
        w_o, b_o = w_q.new_zeros(w_q.shape[0], w_v.shape[2], w_q.shape[1]), None  # never used
    else:
        w_o, b_o = out
    fields: dict[str, Any] = {"w_q": w_q, "w_k": w_k, "w_v": w_v, "w_o": w_o}
    fields |= {"b_q": b_q, "b_k": b_k, "b_v": b_v, "b_o": b_o}
    if gate is not None:
        fields |= {"w_g": gate[0], "b_g": gate[1]}
    try:
        return HeadWeights(**fields)
    except ManyHeadsError as error:
        raise SubjectError(f"params do not fit the declared sizes: {error}") from error
