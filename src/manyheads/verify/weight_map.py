"""Says which parameter of one implementation corresponds to which of another, and converts them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from manyheads.verify.comparison import MapRow
from manyheads.verify.origins import Parameters
from manyheads.verify.same_weights import Held, Match, Place

_NAMES = {f"{kind}_{role}": f"{kind.upper()}_{role.upper()}" for kind in "wb" for role in "qkvo"}
_NAMES = {name: text.replace("B_", "b_") for name, text in _NAMES.items()}


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a parameter: a grid of some of its entries."""

    name: str
    """The parameter."""
    index: tuple[tuple[int, ...], ...]
    """For each axis the numbers that are taken."""
    sizes: tuple[int, ...]
    """Length of each axis."""
    rows: int | None
    """The axis along which the input of the weight runs; None where there is one number."""
    columns: int | None
    """The axis along which the channels of a head run; None where there is one."""

    @property
    def is_turned(self) -> bool:
        """Whether channels come before the input."""
        return self.rows is not None and self.columns is not None and self.columns < self.rows

    def __str__(self) -> str:
        """As it is written in Python."""
        axes = [_axis(i, n) for i, n in zip(self.index, self.sizes, strict=True)]
        is_all = all(axis == ":" for axis in axes)
        return self.name if is_all else f"{self.name}[{', '.join(axes)}]"

    def as_item(self, whole: str) -> str:
        """As an item of a state dict; `whole` is the index of a parameter that is taken whole."""
        return f'["{self.name}"]{str(self)[len(self.name) :] or whole}'


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One part of the first implementation that is one part of the second."""

    weight: str
    """Name of the weight."""
    head: int | None
    """The head, counted from 0; None for all."""
    a: Part
    """In the first."""
    b: Part
    """In the second."""
    offset: float
    """What is added to the numbers of the first."""

    @property
    def is_transposed(self) -> bool:
        """Whether rows of one are columns of the other."""
        return self.a.is_turned != self.b.is_turned

    @property
    def row(self) -> MapRow:
        """For the table."""
        return MapRow(
            weight=_NAMES.get(self.weight, self.weight),
            head=self.head,
            a=str(self.a),
            b=str(self.b),
            is_transposed=self.is_transposed,
        )

    @property
    def code(self) -> str:
        """The statement that copies it."""
        turned = ".T" if self.is_transposed else ""
        added = (
            "" if not self.offset else f" {'+' if self.offset > 0 else '-'} {abs(self.offset):g}"
        )
        return f"b{self.b.as_item('[...]')} = a{self.a.as_item('')}{turned}{added}"


def _axis(numbers: Sequence[int], size: int) -> str:
    """Some numbers along an axis, as an index."""
    if len(numbers) == 1 and size > 1:
        return str(numbers[0])
    if list(numbers) == list(range(size)):
        return ":"
    first, last = numbers[0], numbers[-1]
    step = numbers[1] - first if len(numbers) > 1 else 1
    if step > 0 and list(numbers) == list(range(first, last + 1, step)):
        return f"{first}:{last + 1}" + (f":{step}" if step > 1 else "")
    return str(list(numbers))


def pieces(a: Held, b: Held, match: Match, refused: Sequence[str] = ()) -> list[Piece]:
    """The parts that correspond, by weight and head; heads are joined where that is one part.

    Args:
        a: the first.
        b: the second.
        match: which entries are the same weight.
        refused: weights that could not be shared.
    """
    if match.by == "name":
        wholes = ((name, _all_of(name, a), _all_of(name, b)) for name in match.pairs)
        return [Piece(weight=n, head=None, a=x, b=y, offset=0.0) for n, x, y in wholes]
    found: list[Piece] = []
    for weight, (mine, theirs) in match.pairs.items():
        if weight not in refused:
            found += _of_weight(weight, a.parameters, mine, b.parameters, theirs)
    return found


def _of_weight(
    weight: str, a: Parameters, mine: Place, b: Parameters, theirs: Place
) -> Iterator[Piece]:
    offset = mine.offset - theirs.offset
    x, y = _by_heads(weight, mine.entries), _by_heads(weight, theirs.entries)
    whole = part_of(a, _joined(x)), part_of(b, _joined(y))
    if whole[0] is not None and whole[1] is not None:
        yield Piece(weight=weight, head=None, a=whole[0], b=whole[1], offset=offset)
        return
    for head in range(len(x)):
        one = part_of(a, x[head]), part_of(b, y[head])
        if one[0] is not None and one[1] is not None:
            yield Piece(weight=weight, head=head, a=one[0], b=one[1], offset=offset)
            continue
        for i in range(x.shape[2]):
            row = part_of(a, x[head, :, i : i + 1]), part_of(b, y[head, :, i : i + 1])
            if row[0] is not None and row[1] is not None:
                yield Piece(weight=weight, head=head, a=row[0], b=row[1], offset=offset)


def _all_of(name: str, held: Held) -> Part:
    sizes = tuple(held.parameters.named[name].shape)
    index = tuple(tuple(range(n)) for n in sizes)
    return Part(name=name, index=index, sizes=sizes, rows=None, columns=None)


def _by_heads(weight: str, entries: Tensor) -> Tensor:
    """Entries as (heads, input, channels)."""
    if weight == "w_o":
        return entries.transpose(1, 2)
    if weight in ("w_q", "w_k", "w_v"):
        return entries
    if weight in ("b_q", "b_k", "b_v"):
        return entries[:, None]
    return entries.flatten()[None, None]


def _joined(entries: Tensor) -> Tensor:
    """All heads as one: (input, heads * channels)."""
    return entries.transpose(0, 1).flatten(1)


def part_of(parameters: Parameters, entries: Tensor) -> Part | None:
    """The part of one parameter that some entries (input, channels) are; None if they are none."""
    names = parameters.owners(entries)
    if len(names) != 1:
        return None
    name = names[0]
    shape = tuple(parameters.named[name].shape)
    places = torch.unravel_index(entries - parameters.starts[name], shape or (1,))
    index, rows, columns = [], None, None
    for axis, place in enumerate(places):
        by_row, by_column = bool((place != place[:1]).any()), bool((place != place[:, :1]).any())
        if by_row and by_column:
            return None
        rows, columns = axis if by_row else rows, axis if by_column else columns
        index.append(tuple(int(i) for i in (place[:, 0] if by_row else place[0])))
        if not by_row and not by_column:
            index[-1] = index[-1][:1]
    if len([i for i in index if len(i) > 1]) != (rows is not None) + (columns is not None):
        return None
    return Part(name=name, index=tuple(index), sizes=shape or (1,), rows=rows, columns=columns)


def unmatched(held: Held, parts: Sequence[Part]) -> tuple[str, ...]:
    """Parameters no part of which has a counterpart."""
    used = {part.name for part in parts}
    return tuple(name for name in held.parameters.named if name not in used)


_FILE = '''"""Converts weights of {a}
into weights of {b}.

Written by `manyheads compare`.
"""


def convert(a, b):
    """Return the state dict b with the weights of the state dict a.

    a: state dict of {a}
    b: state dict of {b}; what has no counterpart in a stays as it is
    """
    b = {{name: tensor.clone() for name, tensor in b.items()}}
{body}
    return b
'''


def conversion(
    names: tuple[str, str], found: Sequence[Piece], left: Mapping[str, Sequence[str]]
) -> str:
    """Python code that converts a state dict of the first into one of the second.

    Args:
        names: of the two implementations.
        found: the parts that correspond.
        left: parameters of "a" and of "b" without a counterpart.
    """
    lines = [f"    {piece.code}" for piece in found]
    for side, rest in left.items():
        lines += [f'    # no counterpart: {side}["{name}"]' for name in rest]
    a, b = (repr(name)[1:-1].replace('"', "'") for name in names)
    return _FILE.format(a=a, b=b, body="\n".join(lines))
