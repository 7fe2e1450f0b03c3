"""Where the weights are: parameters by name and shape, widths, and the readings of them."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from manyheads.verify.infer_names import Target, bias_role, packed_order, role_of
from manyheads.verify.parameters import attribute
from manyheads.verify.subject import ParamSpec, Spec

_DEEP = 6


@dataclass(frozen=True, kw_only=True)
class Item:
    """A weight, or the same weight of every head."""

    path: str
    """Attribute path; {h} is replaced by the head index."""
    shape: tuple[int, ...]
    """Of one weight, as stored."""
    role: str | None
    """q, k, v, qkv, kv, qk or o by its name, else None."""
    is_module: bool
    """Whether it is a module with a weight, rather than a tensor."""
    is_turned: bool = False
    """Whether the module stores it (in, out)."""
    count: int = 1
    """How many heads share the path."""

    @property
    def is_flat(self) -> bool:
        """Whether it is a matrix, or a convolution of width one, rather than one matrix a head."""
        return self.count == 1 and (len(self.shape) == 2 or self.shape[2:] == (1,))

    @property
    def rows(self) -> int:
        """Outputs."""
        return self.shape[1] if self.is_turned else self.shape[0]

    @property
    def columns(self) -> int:
        """Inputs."""
        return self.shape[0] if self.is_turned else self.shape[1]


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """What a subject holds."""

    items: tuple[Item, ...]
    """Weights in the order they were made."""
    biases: dict[str, str]
    """Paths of biases that are tensors of their own, by role."""
    multihead: str | None
    """Path of an nn.MultiheadAttention inside, "" for the subject itself."""


def _children(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """Modules and tensors that a module holds, in the order they were made where that is known."""
    yield from module._parameters.items()
    yield from module._buffers.items()
    yield from module._modules.items()
    for name, value in vars(module).items():
        if not name.startswith("_") and isinstance(value, list | tuple | dict | nn.Module | Tensor):
            yield name, value


def _walk(holder: Target, path: str, depth: int, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Leaves: modules with a weight, and tensors that are not part of one."""
    if depth > _DEEP:
        return
    pairs = _children(holder) if isinstance(holder, nn.Module) else _entries(holder)
    for name, value in pairs:
        here = f"{path}.{name}" if path else name
        if isinstance(value, Tensor | nn.MultiheadAttention) or _is_leaf(value):
            yield here, value
        elif isinstance(value, nn.Module | list | tuple | dict) and id(value) not in seen:
            yield from _walk(value, here, depth + 1, seen | {id(value)})


def _entries(holder: Target) -> Iterator[tuple[str, Any]]:
    if isinstance(holder, dict):
        return ((name, value) for name, value in holder.items() if isinstance(name, str))
    return ((str(i), value) for i, value in enumerate(holder))


def _is_leaf(value: Target) -> bool:
    if not isinstance(value, nn.Module):
        return False
    weight = getattr(value, "weight", None)
    return isinstance(weight, Tensor) and not isinstance(value, nn.Embedding) and weight.dim() >= 2


def take_inventory(made: Target, num_heads: int, num_kv_heads: int | None = None) -> Inventory:
    """Every matrix of a subject.

    Args:
        made: the module.
        num_heads: H, to tell one layer a head from a list of other layers.
        num_kv_heads: G where it is known.
    """
    if not isinstance(made, nn.Module):
        return Inventory(items=(), biases={}, multihead=None)
    if isinstance(made, nn.MultiheadAttention):
        return Inventory(items=(), biases={}, multihead="")
    items: list[Item] = []
    biases: dict[str, str] = {}
    multihead: str | None = None
    for path, value in _walk(made, "", 0, {id(made)}):
        if isinstance(value, nn.MultiheadAttention):
            multihead = path if multihead is None else multihead
            continue
        item = _item(path, value)
        if item is not None:
            items.append(item)
        elif isinstance(value, Tensor) and value.dim() == 1 and value.is_floating_point():
            role = bias_role(path.rpartition(".")[2])
            if role is not None:
                biases.setdefault(role, path)
    return Inventory(
        items=tuple(_grouped(items, num_heads, num_kv_heads)), biases=biases, multihead=multihead
    )


def _item(path: str, value: Target) -> Item | None:
    role = role_of(path)
    if isinstance(value, Tensor):
        is_weight = value.is_floating_point() and value.dim() in (2, 3) and min(value.shape) > 0
        if not is_weight or (role is None and not isinstance(value, nn.Parameter)):
            return None
        return Item(path=path, shape=tuple(value.shape), role=role, is_module=False)
    weight = value.weight
    if weight.dim() == 4 and weight.shape[2:] == (1, 1):
        return None
    is_turned = type(value).__name__ == "Conv1D" and hasattr(value, "nf")
    return Item(
        path=path, shape=tuple(weight.shape), role=role, is_module=True, is_turned=is_turned
    )


def _pattern(path: str) -> Iterator[tuple[str, int]]:
    """The path with each of its numbers in turn replaced by {h}, and that number."""
    steps = path.split(".")
    for i, step in enumerate(steps):
        if step.isdigit():
            yield ".".join([*steps[:i], "{h}", *steps[i + 1 :]]), int(step)


def _grouped(items: list[Item], num_heads: int, num_kv_heads: int | None) -> list[Item]:
    """Weights that differ in a head's index only become one item."""
    places: dict[str, dict[int, Item]] = {}
    for item in items:
        for pattern, index in _pattern(item.path):
            places.setdefault(pattern, {})[index] = item
    counts = {num_heads, num_kv_heads or num_heads}
    grouped: dict[str, Item] = {}
    for pattern, found in places.items():
        first = found[min(found)]
        if sorted(found) != list(range(len(found))) or len({i.shape for i in found.values()}) > 1:
            continue
        is_per_head = len(found) in counts or (
            len(found) in _divisors(num_heads) and first.role in ("k", "v")
        )
        is_square = len(first.shape) == 2 and first.shape[0] == first.shape[1] and num_heads > 1
        if not is_per_head or (is_square and first.role is None):
            continue
        one = Item(
            path=pattern,
            shape=first.shape,
            role=role_of(pattern),
            is_module=first.is_module,
            is_turned=first.is_turned,
            count=len(found),
        )
        for item in found.values():
            grouped.setdefault(item.path, one)
    return list(dict.fromkeys(grouped.get(item.path, item) for item in items))


def _divisors(number: int) -> set[int]:
    return {n for n in range(1, number + 1) if number % n == 0}


Sizes = tuple[int, int, int, int, int]
"""Head width, key/value heads, value width, widths of key and value input."""


def sized_spec(made: Target, inventory: Inventory, params: ParamSpec, spec: Spec) -> Spec | None:
    """The sizes that follow from the shapes under a reading, None where they do not fit."""
    if params.layout == "mha":
        return _sized_mha(attribute(made, params.names["module"]), spec)
    items = {item.path: item for item in inventory.items}
    of = {kind: items[path] for kind, path in params.names.items()}
    try:
        return _sized(params, of, spec)
    except (ZeroDivisionError, ValueError):
        return None


def _sized_mha(module: nn.MultiheadAttention, spec: Spec) -> Spec:
    changes: dict[str, int] = {}
    if module.kdim != module.embed_dim:
        changes["kdim"] = module.kdim
    if module.vdim != (module.kdim or module.embed_dim):
        changes["vdim"] = module.vdim
    kdim, vdim = changes.get("kdim"), changes.get("vdim")
    return replace(spec, kdim=spec.kdim or kdim, vdim=spec.vdim or vdim)


def _sized(params: ParamSpec, of: dict[str, Item], spec: Spec) -> Spec | None:
    if params.layout in ("packed", "packed_per_head"):
        sizes = _packed_sizes(params, of, spec)
    elif params.layout == "packed_kv":
        sizes = _kv_sizes(of, spec)
    else:
        sizes = _separate_sizes(params, of, spec)
    if sizes is None:
        return None
    d, groups, dv, kdim, vdim = sizes
    out = of.get("o")
    if out is not None and not _out_fits(params, out, spec, dv):
        return None
    if spec.heads % groups:
        return None
    return replace(
        spec,
        head_dim=d,
        num_kv_heads=groups,
        v_head_dim=None if dv == d else dv,
        kdim=spec.kdim if spec.kdim or kdim == spec.width else kdim,
        vdim=spec.vdim if spec.vdim or vdim == kdim else vdim,
    )


def _whole(number: int, divisor: int) -> int:
    if divisor <= 0 or number % divisor or number < divisor:
        raise ValueError
    return number // divisor


def _separate_sizes(params: ParamSpec, of: dict[str, Item], spec: Spec) -> Sizes | None:
    q, k, v = of["q"], of["k"], of["v"]
    if params.layout == "per_head_tensors":
        heads, width, d = q.shape
        is_narrow = width * spec.heads == spec.width and spec.heads > 1
        if heads != spec.heads or (width != spec.width and not is_narrow):
            return None
        widths = (spec.width, spec.width) if is_narrow else (k.shape[1], v.shape[1])
        return d, k.shape[0], v.shape[2], *widths
    if params.layout == "per_head_modules":
        narrow = q.columns * spec.heads == spec.width and spec.heads > 1
        if not narrow and q.columns != spec.width:
            return None
        kdim = spec.width if narrow else k.columns
        return q.rows, k.count, v.rows, kdim, spec.width if narrow else v.columns
    turned = params.layout == "in_out"
    rows = {
        kind: item.columns if turned else item.rows for kind, item in (("q", q), ("k", k), ("v", v))
    }
    columns = {
        kind: item.rows if turned else item.columns for kind, item in (("q", q), ("k", k), ("v", v))
    }
    is_slice = columns["q"] * spec.heads == spec.width and spec.heads > 1
    if is_slice and rows["q"] == columns["q"]:
        return rows["q"], spec.heads, rows["v"], spec.width, spec.width
    if columns["q"] != spec.width:
        return None
    d = spec.head_dim or _whole(rows["q"], spec.heads)
    groups = spec.num_kv_heads or _whole(rows["k"], d)
    return d, groups, spec.v_head_dim or _whole(rows["v"], groups), columns["k"], columns["v"]


def _kv_sizes(of: dict[str, Item], spec: Spec) -> Sizes | None:
    d = spec.head_dim or _whole(of["q"].rows, spec.heads)
    dv = spec.v_head_dim or d
    groups = spec.num_kv_heads or _whole(of["kv"].rows, d + dv)
    return (
        (d, groups, dv, of["kv"].columns, of["kv"].columns)
        if of["q"].columns == spec.width
        else None
    )


def _packed_sizes(params: ParamSpec, of: dict[str, Item], spec: Spec) -> Sizes | None:
    item, out = of["qkv"], of.get("o")
    rows = item.rows if item.columns == spec.width else item.columns
    if spec.width not in (item.rows, item.columns):
        return None
    d, groups = spec.head_dim, spec.num_kv_heads
    if d is None and groups is None and spec.width % spec.heads and out is not None:
        dv = _whole(out.columns, spec.heads)  # nothing divides, so values have a width of their own
        return (
            _whole(rows - spec.heads * dv, 2 * spec.heads),
            spec.heads,
            dv,
            spec.width,
            spec.width,
        )
    if d is None and groups is not None:
        d = _whole(rows, spec.heads + 2 * groups)
    if d is None:
        equal = rows % (3 * spec.heads) == 0 and (
            out is None or out.columns * 3 == rows or out.rows * 3 == rows
        )
        d = rows // (3 * spec.heads) if equal else _whole(spec.width, spec.heads)
    if groups is None:
        groups = _whole(rows - spec.heads * d, 2 * d)
    if params.layout == "packed_per_head" and groups != spec.heads:
        return None
    return d, groups, spec.v_head_dim or d, spec.width, spec.width


def _out_fits(params: ParamSpec, out: Item, spec: Spec, dv: int) -> bool:
    if out.count > 1:
        return dv in out.shape
    if len(out.shape) == 3 and out.shape[-1] != 1:
        return out.shape[:2] == (spec.heads, dv)
    return spec.heads * dv in (out.rows, out.columns) or out.columns * spec.heads == spec.width


_ORDERS = ("qkv", "kqv", "qvk", "vqk", "kvq", "vkq")
_MOST = 40


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One way to read the weights."""

    params: ParamSpec
    """Where they are."""
    spec: Spec
    """With the sizes that follow."""
    fault: str | None = None
    """The known fault that this reading would be if the usual one had been declared."""
    says: str = ""
    """What is unusual about it, for a note."""


def readings(made: Target, inventory: Inventory, spec: Spec) -> list[Reading]:
    """Every reading that names and shapes allow, the most usual first.

    Args:
        made: the module.
        inventory: what it holds.
        spec: what is declared and known so far.
    """
    found: list[Reading] = []
    for params, fault, says in itertools.islice(_params(inventory, spec), _MOST):
        sized = sized_spec(made, inventory, params, spec)
        if sized is not None:
            found.append(Reading(params=params, spec=sized, fault=fault, says=says))
    return found


Way = tuple[ParamSpec, str | None, str]


def _params(inventory: Inventory, spec: Spec) -> Iterator[Way]:
    if inventory.multihead is not None:
        yield ParamSpec(layout="mha", names={"module": inventory.multihead}), None, ""
        return
    by_role: dict[str, Item] = {}
    for item in inventory.items:
        if item.role is not None:
            by_role.setdefault(item.role, item)
    unnamed = [item for item in inventory.items if item.role is None and item.is_flat]
    outs = _outs(inventory, by_role, unnamed)
    has_out = "o" in by_role
    for params, fault, says in _named(inventory, by_role, outs):
        is_unused = has_out and "o" not in params.names and fault is None
        yield (params, "output-projection-missing", _NO_OUT) if is_unused else (params, fault, says)
    yield from _unnamed(inventory, unnamed, by_role, spec)


def _outs(inventory: Inventory, by_role: dict[str, Item], unnamed: list[Item]) -> list[Item | None]:
    """What may be the output projection; None means none."""
    named = [item for item in inventory.items if item.role == "o"]
    named.sort(key=lambda item: item.path.count("."))
    if named:
        return [*named[:3], None]
    return [*unnamed[:2], None]


_NO_OUT = (
    "the output projection that it holds is never applied: the output is the concatenated heads"
)


def _with(
    inventory: Inventory, layout: str, names: dict[str, Item], out: Item | None, **other: Target
) -> ParamSpec:
    every = {**names, **({} if out is None else {"o": out})}
    paths = {kind: item.path for kind, item in every.items()}
    biases = {
        kind: path
        for kind, path in inventory.biases.items()
        if kind in every and not every[kind].is_module
    }
    return ParamSpec(layout=layout, names=paths, biases=biases, **other)


def _named(
    inventory: Inventory, by_role: dict[str, Item], outs: list[Item | None]
) -> Iterator[Way]:
    if {"q", "k", "v"} <= by_role.keys():
        projections = {kind: by_role[kind] for kind in "qkv"}
        for out in outs:
            yield from _separate(inventory, projections, out)
    if {"q", "kv"} <= by_role.keys():
        for out in outs:
            names = {"q": by_role["q"], "kv": by_role["kv"]}
            yield _with(inventory, "packed_kv", names, out), None, ""
            tied = {"q": by_role["q"], "k": by_role["kv"], "v": by_role["kv"]}
            yield _with(inventory, "separate", tied, out), None, ""
    yield from _tied(inventory, by_role, outs)
    if "qkv" in by_role:
        for out in outs:
            yield from _packed(inventory, by_role["qkv"], out)


def _tied(inventory: Inventory, by_role: dict[str, Item], outs: list[Item | None]) -> Iterator[Way]:
    """One projection for queries and keys."""
    if {"qk", "v"} <= by_role.keys():
        tied = {"q": by_role["qk"], "k": by_role["qk"], "v": by_role["v"]}
        for out in outs:
            yield _with(inventory, "separate", tied, out), None, ""


def _separate(inventory: Inventory, names: dict[str, Item], out: Item | None) -> Iterator[Way]:
    first = names["q"]
    if first.count > 1 or "{h}" in first.path:
        yield _with(inventory, "per_head_modules", names, out), None, ""
        return
    if len(first.shape) == 3 and first.shape[-1] != 1:
        yield _with(inventory, "per_head_tensors", names, out), None, ""
        return
    usual = "conv1x1" if len(first.shape) == 3 else "separate"
    is_raw = not first.is_module
    if is_raw:
        yield _with(inventory, "in_out", names, out), None, ""
    yield _with(inventory, usual, names, out), None, ""
    yield _with(inventory, "head_minor", names, out), None, ""


def _packed(inventory: Inventory, item: Item, out: Item | None) -> Iterator[Way]:
    usual = packed_order(item.path)
    names = {"qkv": item}
    yield _with(inventory, "packed", names, out, order=usual), None, ""
    says = "rows of the packed projection go head by head: q, k and v of head 0, then of head 1"
    yield _with(inventory, "packed_per_head", names, out), "packed-layout", says
    for order in _ORDERS:
        if order != usual:
            says = (
                "the blocks of the packed projection are used in the order "
                f"{', '.join(order)}, not {', '.join(usual)}"
            )
            yield _with(inventory, "packed", names, out, order=order), "unpack-order", says


def _unnamed(
    inventory: Inventory, unnamed: list[Item], by_role: dict[str, Item], spec: Spec
) -> Iterator[Way]:
    """Layers whose names say nothing: by shape, in the order they were made, then in any order."""
    outs = [by_role.get("o")] if "o" in by_role else []
    wide = [i for i in unnamed if i.rows >= 2 * i.columns]
    rest = [i for i in unnamed if i not in wide]
    for item in wide[:2]:
        for out in [*outs, *rest[:1], None]:
            yield from _packed(inventory, item, out)
    if len(rest) < 3:
        squares = [i for i in rest if i.rows % spec.heads == 0 and i.columns == spec.width]
        for item in squares[:2] if "q" not in by_role else []:
            for out in [*outs, *(i for i in rest if i is not item), None]:
                yield _with(inventory, "separate", dict.fromkeys("qkv", item), out), None, ""
        return
    for chosen in itertools.permutations(rest[:4], 3):
        others = [i for i in rest[:4] if i not in chosen]
        for out in [*outs, *others, None][:2]:
            yield from itertools.islice(
                _separate(inventory, dict(zip("qkv", chosen, strict=True)), out), 2
            )


def params_words(params: ParamSpec) -> dict[str, Any]:
    """A reading of the weights as a declaration writes it."""
    found: dict[str, Any] = {"layout": params.layout, **params.names}
    if params.biases:
        found["biases"] = dict(params.biases)
    if params.layout == "packed":
        found["order"] = params.order
    return found
