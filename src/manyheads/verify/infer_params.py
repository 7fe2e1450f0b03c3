"""Readings of where the weights are: what names and shapes allow, the most usual first."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from manyheads.verify.infer_inventory import Inventory, Item
from manyheads.verify.infer_names import Stranger, packed_order
from manyheads.verify.infer_widths import sized_spec
from manyheads.verify.subject import ParamSpec, Spec

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


def readings(made: Stranger, inventory: Inventory, spec: Spec) -> list[Reading]:
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
    """What may be the output projection; None stands for none."""
    named = [item for item in inventory.items if item.role == "o"]
    named.sort(key=lambda item: item.path.count("."))
    if named:
        return [*named[:3], None]
    return [*unnamed[:2], None]


_NO_OUT = "the output projection that it holds is never applied: the output is the joined heads"


def _with(
    inventory: Inventory, layout: str, names: dict[str, Item], out: Item | None, **other: Stranger
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
