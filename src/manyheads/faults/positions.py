"""Faults of positions: rotary embedding and linear bias."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.positions import rotary_angles, rotate
from manyheads.attention.problem import Problem
from manyheads.core.config import Rotary
from manyheads.faults.catalogue import Variant


class OtherRotary(Pipeline):
    """Rotates with other settings: pairing, base, direction."""

    def __init__(
        self, *, flips: bool = False, base: float | None = None, reverses: bool = False
    ) -> None:
        self.flips, self.base, self.reverses = flips, base, reverses

    def setting(self, rotary: Rotary) -> Rotary:
        """The settings that the fault uses."""
        base = self.base or rotary.base
        if not self.flips:
            return replace(rotary, base=base)
        return replace(rotary, style="interleaved" if rotary.style == "half" else "half", base=base)

    def rotate(self, x: Tensor, rotary: Rotary, start: int) -> Tensor:
        """Rotate q or k."""
        return rotate(x, self.setting(rotary), start)

    def turn_piece(
        self, p: Problem, q: Tensor, k: Tensor, start: int, stop: int
    ) -> tuple[Tensor, Tensor]:
        """Rotate a piece with the same settings."""
        if p.rotary is None:
            return super().turn_piece(p, q, k, start, stop)
        return self.rotate(q[:, :, start:stop], p.rotary, start), self.rotate(
            k[:, :, :stop], p.rotary, 0
        )


class MixedTable(OtherRotary):
    """The angle table of one pairing applied with the other: not a rotation."""

    def __init__(self, table: str, pairing: str) -> None:
        super().__init__()
        self.table, self.pairing = table, pairing

    def rotate(self, x: Tensor, rotary: Rotary, start: int) -> Tensor:
        """X * cos + partner * sin, with the table and the partners of different pairings."""
        angles = rotary_angles(rotary, x.shape[-1], start, x.shape[-2], x.device)
        full = (
            torch.cat((angles, angles), dim=-1)
            if self.table == "half"
            else angles.repeat_interleave(2, dim=-1)
        )
        if self.pairing == "half":
            first, second = x.chunk(2, dim=-1)
            partner = torch.cat((-second, first), dim=-1)
        else:
            partner = torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)
        return x * full.cos() + partner * full.sin()


class WithoutMinus(OtherRotary):
    """The partner loses its minus sign: x * cos + swapped * sin, which is not a rotation."""

    def rotate(self, x: Tensor, rotary: Rotary, start: int) -> Tensor:
        """Add both partners."""
        width = x.shape[-1] if rotary.dim is None else rotary.dim
        angles = rotary_angles(rotary, width, start, x.shape[-2], x.device)
        cos, sin = angles.cos(), angles.sin()
        turned, rest = x[..., :width], x[..., width:]
        if rotary.style == "half":
            first, second = turned.chunk(2, dim=-1)
            joined = torch.cat((first * cos + second * sin, second * cos + first * sin), dim=-1)
        else:
            first, second = turned[..., ::2], turned[..., 1::2]
            pair = (first * cos + second * sin, second * cos + first * sin)
            joined = torch.stack(pair, dim=-1).flatten(-2)
        return torch.cat((joined, rest), dim=-1)


class TurnedTwice(OtherRotary):
    """Queries, keys or both are rotated twice."""

    def __init__(self, names: str) -> None:
        super().__init__()
        self.names = names

    def turn(self, p: Problem, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Rotate the named ones again."""
        turned_q, turned_k = super().turn(p, q, k)
        again_q, again_k = super().turn(p, turned_q, turned_k)
        return (again_q if "q" in self.names else turned_q), (
            again_k if "k" in self.names else turned_k
        )

    def turn_piece(
        self, p: Problem, q: Tensor, k: Tensor, start: int, stop: int
    ) -> tuple[Tensor, Tensor]:
        """Rotate the named ones again, by their own positions."""
        if p.rotary is None:
            return super().turn_piece(p, q, k, start, stop)
        twice_q, twice_k = rotate(q, p.rotary, 0), rotate(k, p.rotary, 0)
        q, k = (twice_q if "q" in self.names else q), (twice_k if "k" in self.names else k)
        return super().turn_piece(p, q, k, start, stop)


class OneSided(OtherRotary):
    """Rotates only some of queries, keys and values."""

    def __init__(self, names: str) -> None:
        super().__init__()
        self.names = names

    def turn(self, p: Problem, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Leave one of them as it is."""
        turned_q, turned_k = super().turn(p, q, k)
        return (turned_q if "q" in self.names else q), (turned_k if "k" in self.names else k)

    def turn_piece(
        self, p: Problem, q: Tensor, k: Tensor, start: int, stop: int
    ) -> tuple[Tensor, Tensor]:
        """Leave one of them as it is."""
        turned_q, turned_k = super().turn_piece(p, q, k, start, stop)
        return (
            turned_q if "q" in self.names else q[:, :, start:stop],
            turned_k if "k" in self.names else k[:, :, :stop],
        )


class TurnsValues(OtherRotary):
    """Values are rotated too."""

    def heads(self, p: Problem) -> tuple[Tensor, Tensor, Tensor]:
        """Rotate the values by their position."""
        q, k, v = super().heads(p)
        return q, k, v if p.rotary is None or v.shape[-1] != k.shape[-1] else rotate(v, p.rotary, 0)


class TurnsAlongHeads(OtherRotary):
    """The angle follows the head index."""

    def rotate(self, x: Tensor, rotary: Rotary, start: int) -> Tensor:
        """Rotate by the head index instead of the position."""
        return rotate(x.transpose(1, 2), rotary, 0).transpose(1, 2)


class TurnsAlongBatch(OtherRotary):
    """The angle follows the sample index."""

    def rotate(self, x: Tensor, rotary: Rotary, start: int) -> Tensor:
        """Rotate by the sample index instead of the position."""
        return rotate(x.transpose(0, 2), rotary, 0).transpose(0, 2)


class TurnsJoined(OtherRotary):
    """The joined rows are rotated before they are split into heads."""

    def rotate(self, x: Tensor, rotary: Rotary, start: int) -> Tensor:
        """Rotate all channels of all heads together."""
        heads = x.shape[1]
        joined = x.transpose(1, 2).flatten(2)[:, None]
        turned: Tensor = rotate(joined, rotary, start)[:, 0].unflatten(-1, (heads, -1))
        return turned.transpose(1, 2)


class ShiftedPositions(OtherRotary):
    """Queries or keys are rotated by shifted positions; None puts the first query at zero."""

    def __init__(self, query_shift: int | None, key_shift: int) -> None:
        super().__init__()
        self.query_shift, self.key_shift = query_shift, key_shift

    def turn(self, p: Problem, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Add the shifts."""
        if p.rotary is None:
            return q, k
        start = 0 if self.query_shift is None else k.shape[2] - q.shape[2] + self.query_shift
        return self.rotate(q, p.rotary, start), self.rotate(k, p.rotary, self.key_shift)


def _has_rotary(p: Problem) -> bool:
    return p.rotary is not None


def _fully_rotary(p: Problem) -> bool:
    return p.rotary is not None and p.rotary.dim is None


def _rotary_applies(pipeline: Pipeline) -> Callable[[Problem], bool]:
    return _fully_rotary if isinstance(pipeline, MixedTable | TurnsJoined) else _has_rotary


_ROTARY: tuple[tuple[str, str, str, Pipeline], ...] = (
    (
        "rotary-pairing",
        "pairing",
        "channels paired for rotation in the other style",
        OtherRotary(flips=True),
    ),
    ("rotary-keys-missing", "q", "only the queries rotated", OneSided("q")),
    ("rotary-keys-missing", "k", "only the keys rotated", OneSided("k")),
    (
        "rotary-axis",
        "heads",
        "the rotary angle following the head index instead of the position",
        TurnsAlongHeads(),
    ),
    (
        "rotary-axis",
        "samples",
        "the rotary angle following the batch index instead of the position",
        TurnsAlongBatch(),
    ),
    (
        "rotary-axis",
        "joined",
        "the full rows rotated before they are split into heads",
        TurnsJoined(),
    ),
    (
        "rotary-not-a-rotation",
        "interleaved>half",
        "an angle table for interleaved pairs applied to halves",
        MixedTable("interleaved", "half"),
    ),
    (
        "rotary-not-a-rotation",
        "half>interleaved",
        "an angle table for halves applied to interleaved pairs",
        MixedTable("half", "interleaved"),
    ),
    (
        "rotary-offset",
        "q:zero",
        "the queries rotated from position zero",
        ShiftedPositions(None, 0),
    ),
    ("rotary-offset", "q:1", "the queries rotated one position too far", ShiftedPositions(1, 0)),
    ("rotary-offset", "k:1", "the keys rotated one position too far", ShiftedPositions(0, 1)),
    ("rotary-applied-twice", "values", "the values rotated as well", TurnsValues()),
    ("rotary-applied-twice", "k", "the keys rotated twice", TurnedTwice("k")),
    ("rotary-applied-twice", "qk", "queries and keys rotated twice", TurnedTwice("qk")),
    ("rotary-applied-twice", "q", "the queries rotated twice", TurnedTwice("q")),
    ("rotary-not-a-rotation", "no-minus", "a rotation without its minus sign", WithoutMinus()),
)


def _rotary() -> list[Variant]:
    """All variants of this family."""
    found = [
        Variant(
            fault=fault,
            key=key,
            says=f"the output equals the formula with {text}",
            pipeline=pipeline,
            applies=_rotary_applies(pipeline),
            is_legal=fault == "rotary-pairing",
        )
        for fault, key, text, pipeline in _ROTARY
    ]
    return found


class OtherSlopes(Pipeline):
    """Other slopes, or another sign, of the linear bias."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def slopes(self, heads: int) -> list[float]:
        """The slopes that the fault uses."""
        power = 1 << (heads.bit_length() - 1)
        upper = power if power == heads else 2 * power
        made = {
            "from 2^0": [2.0 ** (-8.0 * h / heads) for h in range(heads)],
            "by H": [2.0 ** (-8.0 * (h + 1) / heads) for h in range(heads)],
            "by the next higher power": [2.0 ** (-8.0 * (h + 1) / upper) for h in range(heads)],
            "by the next higher power, from 2^0": [2.0 ** (-8.0 * h / upper) for h in range(heads)],
            "by the next lower power": [2.0 ** (-8.0 * (h + 1) / power) for h in range(heads)],
            "1 / 2^(h + 1)": [2.0 ** -(h + 1) for h in range(heads)],
            "1 / 2^h": [2.0**-h for h in range(heads)],
            "without the 8": [2.0 ** (-(h + 1) / heads) for h in range(heads)],
            "of 2^-4": [2.0 ** (-4.0 * (h + 1) / heads) for h in range(heads)],
            "of 2^-16": [2.0 ** (-16.0 * (h + 1) / heads) for h in range(heads)],
            "all equal to 1": [1.0] * heads,
        }
        return made[self.kind]

    def add_bias(self, p: Problem, scores: Tensor) -> Tensor:
        """The bias as the fault has it."""
        if p.slopes is None:
            return scores
        right = list(p.slopes)
        special = {
            "reversed": right[::-1],
            "positive": [-s for s in right],
            "for one head": right[:1] * len(right),
        }
        slopes = special[self.kind] if self.kind in special else self.slopes(p.num_heads)
        return super().add_bias(replace(p, slopes=tuple(slopes)), scores)


def _has_slopes(p: Problem) -> bool:
    return p.slopes is not None


_SLOPES = (
    "from 2^0",
    "by H",
    "by the next higher power",
    "by the next higher power, from 2^0",
    "by the next lower power",
    "1 / 2^(h + 1)",
    "1 / 2^h",
    "without the 8",
    "of 2^-4",
    "of 2^-16",
    "all equal to 1",
    "reversed",
    "positive",
    "for one head",
)


def _slopes() -> list[Variant]:
    """All variants of this family."""
    found = []
    for kind in _SLOPES:
        found.append(
            Variant(
                fault="linear-bias-slopes",
                key=kind,
                says=f"the output equals the formula with slopes {kind}",
                pipeline=OtherSlopes(kind),
                applies=_has_slopes,
            )
        )
    return found


def variants() -> list[Variant]:
    """All variants of this family, the likelier first."""
    return [*_rotary(), *_slopes()]
