"""Finds the numbers of weights among the parameters, so that no name has to say where they are."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from manyheads.core.weights import HeadWeights

_SAME = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Origin:
    """Where weights come from: entries of parameters, times one factor."""

    entries: Tensor
    """Number of each entry in all parameters, one after the other."""
    factor: float
    """What they are multiplied by."""
    names: tuple[str, ...]
    """The parameters they belong to."""


class Parameters:
    """All parameters of a subject as one row of numbers.

    Args:
        named: tensors by name.
    """

    def __init__(self, named: Mapping[str, Tensor]) -> None:
        self.named = {
            n: t
            for n, t in named.items()
            if t.is_floating_point() and t.numel() and bool(torch.isfinite(t).all())
        }
        self.flat = flat(self.named)
        sizes = [t.numel() for t in self.named.values()]
        self.starts = dict(
            zip(self.named, [sum(sizes[:i]) for i in range(len(sizes))], strict=True)
        )

    def owners(self, entries: Tensor) -> tuple[str, ...]:
        """Names of the parameters that hold some entries."""
        found = []
        for name, start in self.starts.items():
            stop = start + self.named[name].numel()
            if bool(((entries >= start) & (entries < stop)).any()):
                found.append(name)
        return tuple(found)

    def words(self, origin: Origin) -> str:
        """The names of the parameters, and which rows or columns of one that others use too."""
        if len(origin.names) > 1:
            return ", ".join(origin.names)
        name = origin.names[0]
        tensor = self.named[name]
        if tensor.dim() != 2:
            return name
        place = origin.entries.flatten() - self.starts[name]
        for word, numbers, size in (
            ("rows", place // tensor.shape[1], tensor.shape[0]),
            ("columns", place % tensor.shape[1], tensor.shape[1]),
        ):
            used = numbers.unique()
            if len(used) < size:
                is_block = int(used[-1] - used[0]) + 1 == len(used)
                which = f"{int(used[0]) + 1} to {int(used[-1]) + 1}" if is_block else "in turn"
                return f"{name}, {word} {which}"
        return name

    def origin(self, weight: Tensor) -> Origin | None:
        """Where the columns of weights (N, E, width) come from; None if from no parameter.

        Each column is compared by its direction with rows and columns of all parameters.
        """
        wanted = weight.transpose(1, 2).flatten(0, 1)  # (N * width, E)
        fibres, entries = self._fibres(wanted.shape[1])
        if not len(fibres):
            return None
        sizes, size = fibres.norm(dim=1), wanted.norm(dim=1)
        if bool((size == 0).any()):
            return None
        cosine = (wanted / size[:, None]) @ (fibres / sizes.clamp_min(1e-300)[:, None]).T
        best, which = cosine.abs().max(dim=1)
        if float((1 - best).max()) > _SAME:
            return None
        factor = size / sizes[which] * cosine.gather(1, which[:, None])[:, 0].sign()
        if float((factor - factor[0]).abs().max()) > 1e-6 * float(factor[0].abs()):
            return None
        found = entries[which].unflatten(0, (weight.shape[0], -1)).transpose(1, 2)
        value = float(factor.median())
        nearest = round(value)
        return Origin(
            entries=found,
            factor=float(nearest) if abs(value - nearest) < 1e-9 else value,
            names=self.owners(found),
        )

    def _fibres(self, length: int) -> tuple[Tensor, Tensor]:
        """Rows and columns of this length in all parameters, and the numbers of their entries."""
        values, entries = [], []
        for name, tensor in self.named.items():
            numbers = torch.arange(tensor.numel()).view(tensor.shape) + self.starts[name]
            for axis in range(tensor.dim()):
                if tensor.dim() > 1 and tensor.shape[axis] == length:
                    values.append(tensor.detach().double().movedim(axis, -1).reshape(-1, length))
                    entries.append(numbers.movedim(axis, -1).reshape(-1, length))
        if not values:
            return torch.empty(0, length), torch.empty(0, length, dtype=torch.int64)
        return torch.cat(values), torch.cat(entries)

    def bias_origin(self, bias: Tensor, factor: float) -> Origin | None:
        """Where the numbers of a bias come from; None if they are no entries of parameters."""
        if not len(self.flat):
            return None
        ordered, number = self.flat.detach().sort()
        wanted = bias.flatten() / factor
        right = torch.searchsorted(ordered, wanted.contiguous()).clamp(0, len(ordered) - 1)
        left = (right - 1).clamp(min=0)
        nearer = torch.where(
            (ordered[left] - wanted).abs() < (ordered[right] - wanted).abs(), left, right
        )
        if float((ordered[nearer] - wanted).abs().max()) > 1e-9 * max(float(wanted.abs().max()), 1):
            return None
        found = number[nearer].view(bias.shape)
        return Origin(entries=found, factor=factor, names=self.owners(found))


def flat(named: Mapping[str, Tensor]) -> Tensor:
    """All numbers of all tensors in one row, through which gradients flow."""
    if not named:
        return torch.empty(0, dtype=torch.float64)
    wide = torch.float64 if any(t.dtype == torch.float64 for t in named.values()) else None
    rows = [t.reshape(-1) if wide is None else t.reshape(-1).to(wide) for t in named.values()]
    kind = rows[0].dtype
    return torch.cat([row.to(kind) for row in rows])


def compressed(
    origins: Mapping[str, Origin], parameters: Parameters
) -> tuple[dict[str, Origin], tuple[str, ...]]:
    """Origins counted in the tensors alone that they use, and the names of those."""
    used = {name for origin in origins.values() for name in origin.names}
    names = tuple(name for name in parameters.named if name in used)
    shift = torch.zeros(len(parameters.flat), dtype=torch.int64)
    start = 0
    for name in names:
        first, size = parameters.starts[name], parameters.named[name].numel()
        shift[first : first + size] = start - first
        start += size
    moved = {
        field: replace(origin, entries=origin.entries + shift[origin.entries])
        for field, origin in origins.items()
    }
    return moved, names


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """Weights that were found by watching, to be read again from the parameters."""

    origins: Mapping[str, Origin]
    """By field of `HeadWeights`; what is missing here has the numbers of `values`."""
    values: HeadWeights
    """The numbers as they were found."""
    names: tuple[str, ...]
    """Names of all tensors, in the order in which entries are counted."""
    has_out: bool = True
    """Whether there is an output projection."""

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the tensors that hold weights."""
        return tuple(dict.fromkeys(n for origin in self.origins.values() for n in origin.names))

    def read(self, named: Mapping[str, Tensor]) -> HeadWeights:
        """The weights as views of the parameters, gradients included."""
        numbers = flat({n: named[n] for n in self.names})
        fields: dict[str, Tensor] = {}
        for name, value in self.values.tensors().items():
            origin = self.origins.get(name)
            if origin is None:
                fields[name] = value.to(numbers.dtype) if len(numbers) else value
            else:
                read = numbers[origin.entries]
                fields[name] = read if math.isclose(origin.factor, 1.0) else read * origin.factor
        return HeadWeights(**fields)
