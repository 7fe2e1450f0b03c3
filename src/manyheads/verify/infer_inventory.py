"""Every matrix that a built subject holds, by attribute path, registered or not."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from manyheads.verify.infer_names import Stranger, bias_role, role_of

_DEEP = 6


@dataclass(frozen=True, kw_only=True)
class Item:
    """A weight, or the same weight of every head."""

    path: str
    """Attribute path; {h} stands for the head index."""
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


def _walk(holder: Stranger, path: str, depth: int, seen: set[int]) -> Iterator[tuple[str, Any]]:
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


def _entries(holder: Stranger) -> Iterator[tuple[str, Any]]:
    if isinstance(holder, dict):
        return ((name, value) for name, value in holder.items() if isinstance(name, str))
    return ((str(i), value) for i, value in enumerate(holder))


def _is_leaf(value: Stranger) -> bool:
    if not isinstance(value, nn.Module):
        return False
    weight = getattr(value, "weight", None)
    return isinstance(weight, Tensor) and not isinstance(value, nn.Embedding) and weight.dim() >= 2


def take_inventory(made: Stranger, num_heads: int, num_kv_heads: int | None = None) -> Inventory:
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


def _item(path: str, value: Stranger) -> Item | None:
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
