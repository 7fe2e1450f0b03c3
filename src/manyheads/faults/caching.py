"""Faults of caches: entries missing, misplaced, or rotated again."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.positions import rotate
from manyheads.attention.problem import Problem, allowed_by_order
from manyheads.faults.catalogue import Variant


class MissingEntry(Pipeline):
    """One position is never stored; zeros are read there, or nothing."""

    def __init__(self, position: int, is_read_as_zero: bool, only_later: bool) -> None:
        self.position, self.is_zero, self.only_later = position, is_read_as_zero, only_later

    def attend(
        self, p: Problem, q: Tensor, k: Tensor, v: Tensor, start: int
    ) -> tuple[Tensor, Tensor]:
        """Blank the entry's key and value, or hide it."""
        if not p.chunks or (self.only_later and start == 0):
            return super().attend(p, q, k, v, start)
        where = self.position if self.position >= 0 else start + self.position
        if where < 0 or where >= k.shape[2]:
            return super().attend(p, q, k, v, start)
        keep = torch.ones(k.shape[2], dtype=k.dtype)
        keep[where] = 0
        self._hidden = None if self.is_zero else where
        k, v = k * keep[:, None], v * keep[:, None]
        result = super().attend(p, q, k, v, start)
        self._hidden = None
        return result

    _hidden: int | None = None

    def ordered(self, p: Problem, num_queries: int, num_keys: int, start: int) -> Tensor:
        """Hide the entry where it is not read at all."""
        allowed = allowed_by_order(p, num_queries, num_keys)
        if self._hidden is not None:
            allowed[:, self._hidden] = False
        return allowed


class ShiftedSlots(Pipeline):
    """Pieces after the first are stored one slot too far (or too near)."""

    def __init__(self, shift: int) -> None:
        self.shift = shift

    def cached(self, p: Problem, k: Tensor, v: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """The slots as a piece finds them."""
        return self._slots(p, k, start), self._slots(p, v, start)

    def _slots(self, p: Problem, rows: Tensor, start: int) -> Tensor:
        slots = torch.zeros_like(torch.cat((rows, rows[:, :, :2]), dim=2))
        begin = 0
        for length in p.chunks:
            if begin > start:
                break
            place = max(0, begin + (self.shift if begin else 0))
            slots[:, :, place : place + length] = rows[:, :, begin : begin + length]
            begin += length
        return slots[:, :, : rows.shape[2]]


class SlotsByCalls(ShiftedSlots):
    """The place of a piece counts calls instead of positions, so that pieces overlap."""

    def __init__(self) -> None:
        super().__init__(0)

    def _slots(self, p: Problem, rows: Tensor, start: int) -> Tensor:
        slots, begin = torch.zeros_like(rows), 0
        for call, length in enumerate(p.chunks):
            if begin > start:
                break
            slots[:, :, call : call + length] = rows[:, :, begin : begin + length]
            begin += length
        return slots


class EmptySlotsRead(Pipeline):
    """Slots that were never written are read too: all of a buffer, or one more than there are."""

    def __init__(self, length: int, extra: int) -> None:
        self.length, self.extra = length, extra

    def cached(self, p: Problem, k: Tensor, v: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """Zeros behind the entries."""
        more = max(self.length - k.shape[2], self.extra)
        return F.pad(k, (0, 0, 0, more)), F.pad(v, (0, 0, 0, more))

    def ordered(self, p: Problem, num_queries: int, num_keys: int, start: int) -> Tensor:
        """Causality among the entries; every query sees the empty slots."""
        written = start + num_queries
        order = allowed_by_order(p, num_queries, written)
        return F.pad(order, (0, num_keys - written), value=True)


class OnlyNewest(Pipeline):
    """The cache is not read: each piece sees only itself."""

    def cached(self, p: Problem, k: Tensor, v: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """The piece's own keys and values."""
        return k[:, :, start:], v[:, :, start:]

    def ordered(self, p: Problem, num_queries: int, num_keys: int, start: int) -> Tensor:
        """Causality within the piece."""
        return allowed_by_order(p, num_queries, num_keys)


class RestartedAngles(Pipeline):
    """New tokens are rotated from position zero again: queries, keys or both."""

    def __init__(self, names: str) -> None:
        self.names = names

    def turn_piece(
        self, p: Problem, q: Tensor, k: Tensor, start: int, stop: int
    ) -> tuple[Tensor, Tensor]:
        """Each piece's keys keep the angle that they got when they came."""
        if p.rotary is None:
            return super().turn_piece(p, q, k, start, stop)
        parts, begin = [], 0
        for length in p.chunks:
            if begin >= stop:
                break
            place = 0 if "k" in self.names else begin
            parts.append(rotate(k[:, :, begin : begin + length], p.rotary, place))
            begin += length
        place = 0 if "q" in self.names else start
        return rotate(q[:, :, start:stop], p.rotary, place), torch.cat(parts, dim=2)


class TurnedAgain(Pipeline):
    """Cached keys are rotated again at every step."""

    def __init__(self, from_zero: bool, stores_turned: bool) -> None:
        self.from_zero, self.stores_turned = from_zero, stores_turned

    def turn_piece(
        self, p: Problem, q: Tensor, k: Tensor, start: int, stop: int
    ) -> tuple[Tensor, Tensor]:
        """Keys so far, rotated once per call since they were stored."""
        if p.rotary is None:
            return super().turn_piece(p, q, k, start, stop)
        keys, begin = k[:, :, :0], 0
        for length in p.chunks:
            if begin >= stop:
                break
            new = k[:, :, begin : begin + length]
            if self.stores_turned:
                keys = rotate(torch.cat((keys, new), dim=2), p.rotary, 0)
            else:
                keys = torch.cat((keys, rotate(new, p.rotary, begin)), dim=2)
            begin += length
        if not self.stores_turned and start:
            old = keys[:, :, :start]
            keys = torch.cat((rotate(old, p.rotary, 0), keys[:, :, start:]), dim=2)
        return rotate(q[:, :, start:stop], p.rotary, 0 if self.from_zero else start), keys


def _is_cached(p: Problem) -> bool:
    return bool(p.chunks)


def _is_cached_rotary(p: Problem) -> bool:
    return bool(p.chunks) and p.rotary is not None


_MISPLACED: tuple[tuple[str, str, str, Pipeline], ...] = (
    (
        "cache-position",
        "shift:1",
        "entries after the first chunk stored one slot too late",
        ShiftedSlots(1),
    ),
    (
        "cache-position",
        "shift:-1",
        "entries after the first chunk stored one slot too early",
        ShiftedSlots(-1),
    ),
    (
        "cache-position",
        "call",
        "each chunk stored at the index of the call instead of its position",
        SlotsByCalls(),
    ),
    ("cache-position", "one-empty", "one empty slot read after the entries", EmptySlotsRead(0, 1)),
    ("cache-entry-missing", "never-read", "a cache that is never read", OnlyNewest()),
)
_TURNED: tuple[tuple[str, str, str, Pipeline], ...] = (
    (
        "rotary-offset",
        "new:qk",
        "new tokens rotated from position zero again",
        RestartedAngles("qk"),
    ),
    (
        "rotary-offset",
        "new:q",
        "new queries rotated from position zero again",
        RestartedAngles("q"),
    ),
    ("rotary-offset", "new:k", "new keys rotated from position zero again", RestartedAngles("k")),
    (
        "rotary-applied-twice",
        "cache:stored",
        "cached keys rotated again at every step",
        TurnedAgain(from_zero=False, stores_turned=True),
    ),
    (
        "rotary-applied-twice",
        "cache:read",
        "cached keys rotated a second time when they are read",
        TurnedAgain(from_zero=False, stores_turned=False),
    ),
)


def _missing() -> Iterator[tuple[str, str, str, Pipeline]]:
    for length in (8, 12, 16, 24, 32, 48, 64, 128):
        text = f"all {length} slots of a buffer read, including the empty ones"
        yield "cache-position", f"buffer:{length}", text, EmptySlotsRead(length, 0)
    for position, name in ((0, "first"), (-1, "last")):
        for is_zero, what in ((True, "zeros"), (False, "nothing")):
            for only_later in (True, False):
                text = f"the {name} cached position missing and {what} read in its place"
                key = f"{name}:{what}{':later' if only_later else ''}"
                yield (
                    "cache-entry-missing",
                    key,
                    text,
                    MissingEntry(position, is_zero, only_later),
                )


def variants() -> list[Variant]:
    """All variants of this family."""
    plain = [*_MISPLACED, *_missing()]
    return [
        Variant(
            fault=fault,
            key=key,
            says=f"the output equals the formula with {text}",
            pipeline=pipeline,
            applies=applies,
        )
        for group, applies in ((plain, _is_cached), (_TURNED, _is_cached_rotary))
        for fault, key, text, pipeline in group
    ]
