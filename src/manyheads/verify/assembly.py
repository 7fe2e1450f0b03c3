"""Puts the rows of queries, keys, values and messages into one order of axes by their tags."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from manyheads.verify.tags import MIXED, NONE, Product, Tags, of_rows, varies
from manyheads.verify.watch import Event, Line


class NotSeenError(Exception):
    """No attention can be read from the operations; the message says what was seen instead.

    Args:
        says: what was seen.
        line: where.
        step: the step that is not there or not arranged by positions.
    """

    def __init__(self, says: str, line: Line | None = None, step: str = "") -> None:
        super().__init__(says)
        self.line, self.step = line, step


@dataclass(frozen=True, kw_only=True, eq=False)
class Core:
    """The heads of one call as they were used, in one order of axes."""

    q: Tensor
    """(B, H, T, d): what was multiplied with the keys."""
    k: Tensor
    """(B, H, S, d)."""
    v: Tensor
    """(B, H, S, v): what was mixed."""
    weights: Tensor
    """(B, H, T, S): what mixed it."""
    messages: Tensor
    """(B, H, T, v)."""
    has_more: bool
    """Whether values are mixed that belong to no position and are not zero."""
    sources: tuple[int, int, int]
    """The input from which q, k and v were made: 0, 1 or 2; NONE if from several."""
    lines: dict[str, Line | None]
    """Lines of the products, by step: "scores", "head_outputs"."""
    score_event: int
    """Number of the operation that multiplied queries and keys."""
    message_event: int
    """Number of the operation that made the messages."""


@dataclass(kw_only=True, eq=False)
class ScoreProduct:
    """One product of queries and keys."""

    product: Product
    """The product."""
    number: Tensor
    """(N, M, P): number of the pair of sample and head that each score belongs to."""


@dataclass(kw_only=True, eq=False)
class Products:
    """Products of attention, with tags of their numbers."""

    batch: int
    """Number of samples."""
    lengths: tuple[int, int]
    """Number of queries and of keys per sample."""
    src: Tags = field(default_factory=Tags)
    """The input that each number comes from, or RAW or MESSAGE."""
    pos: Tags = field(default_factory=Tags)
    """The position of each number, counted through all samples; of scores, that of the query."""
    key: Tags = field(default_factory=Tags)
    """Of scores, the position of the key; of messages, the index in the row."""
    pair: Tags = field(default_factory=Tags)
    """Number of the pair of sample and head that each score or message belongs to."""
    scores: list[ScoreProduct] = field(default_factory=list)
    """Products of queries and keys."""
    mixes: list[tuple[Product, bool]] = field(default_factory=list)
    """Products of weights and values, and whether the weights are the left factor."""
    parts: list[tuple[str, Tensor, Tensor, Tensor, Tensor]] = field(default_factory=list)
    """Kind ("weights", "values" or "messages"), three kinds of tags, and the numbers."""


@dataclass(kw_only=True, eq=False)
class _Rows:
    """Queries, keys or values in one order of axes."""

    name: str
    """The letters "q", "k" and "v" name the three kinds."""
    numbers: Tensor
    """(B, H, length, width); NaN where no row was put."""
    sources: set[int] = field(default_factory=set)
    """Tags of the inputs that the rows come from."""

    def put(self, b: Tensor, h: Tensor, where: Tensor, rows: Tensor) -> None:
        """Put rows at samples, heads and positions; the positions count through all samples."""
        self.numbers[b, h, where % self.numbers.shape[2]] = rows.to(self.numbers.dtype)


class Assembly:
    """Puts rows into one order of axes by their tags.

    Args:
        found: products, and the tags of their factors.
    """

    def __init__(self, found: Products) -> None:
        self.s = found
        self.heads = 0
        self.table = torch.zeros(0, 2, dtype=torch.int64)  # sample and head by number of pair
        self.weights: list[Tensor] = []
        self.weight_tags: tuple[list[Tensor], list[Tensor], list[Tensor]] = [], [], []

    def softmaxed(self, event: Event) -> tuple[Tensor, Tensor] | None:
        """Products of queries and keys, and what a softmax made of them, both (B, H, T, S)."""
        s, out = self.s, event.out[0]
        tags = [layer.of(out) for layer in (s.pos, s.key, s.pair)]
        if any(t is None or bool((t < 0).any()) for t in tags) or out.dim() < 2:
            return None
        axis = int(event.args[1]) if len(event.args) > 1 else -1
        row, column, pair = (t.movedim(axis, -1).flatten(0, -2) for t in tags if t is not None)
        if varies(row) and not varies(column):
            row, column = column, row
        elif varies(row):
            return None
        try:
            self._number_pairs([row[None]], [column[None]], [pair[None]])
        except NotSeenError:
            return None
        queries, keys = s.lengths
        b, h = self._pair_of(pair)
        found = [_empty(s.batch, self.heads, queries, keys) for _ in range(2)]
        value = event.values[0].movedim(axis, -1).flatten(0, -2).double()
        found[1][b, h, row % queries, column % keys] = value
        for item in s.scores:
            product = item.product
            raw = product.left.double() @ product.right.double().mT
            places = [read(s.pos) for read in (product.left_of, product.right_of)]
            if places[0] is None or places[1] is None:
                return None
            one, two = of_rows(places[0])[:, :, None], of_rows(places[1])[:, None, :]
            b, h = self._pair_of(item.number)
            found[0][b, h, (one % queries).expand(raw.shape), (two % keys).expand(raw.shape)] = raw
        return (found[0], found[1]) if all(torch.isfinite(x).all() for x in found) else None

    def core(self) -> Core:
        """See `Structure.core`."""
        s = self.s
        is_swapped = self._place_weights()
        first = s.scores[0].product
        q, k = self._queries_and_keys(is_swapped)
        a = self._weights()
        v, has_more = self._values()
        return Core(
            q=q.numbers,
            k=k.numbers,
            v=v.numbers,
            weights=a,
            messages=self._messages(v.numbers.shape[-1]),
            has_more=has_more,
            sources=(_only(q.sources), _only(k.sources), _only(v.sources)),
            lines={
                "scores": first.event.line,
                "head_outputs": s.mixes[0][0].event.line,
            },
            score_event=first.event.number,
            message_event=s.mixes[-1][0].event.number,
        )

    def _place_weights(self) -> bool:
        """Find the tags of the weights and number the heads.

        Returns:
            Whether the product has the keys on its left, so that each column is one query.
        """
        rows, columns, pairs, self.weights = self._parts("weights")
        vary = any(varies(r) for r in rows), [varies(c) for c in columns]
        is_row = all(vary[1]) and not vary[0]
        is_wide = self.weights[0].shape[-1] > 1
        if not is_row and vary[0] and not any(vary[1]):
            rows, columns = columns, rows
        elif not is_row and is_wide:
            raise NotSeenError(
                "weights of different queries are summed", self._line(-1), "attn_weights"
            )
        self._number_pairs(rows, columns, pairs)
        self.weight_tags = rows, columns, pairs
        return not is_row and is_wide

    def _rows(self, name: str, length: int, width: int) -> _Rows:
        """No rows yet, with room for all samples, heads and positions."""
        return _Rows(name=name, numbers=_empty(self.s.batch, self.heads, length, width))

    def _queries_and_keys(self, is_swapped: bool) -> tuple[_Rows, _Rows]:
        """The factors of the scores."""
        width = self.s.scores[0].product.left.shape[-1]
        q, k = (self._rows(name, n, width) for name, n in zip("qk", self.s.lengths, strict=True))
        for item in self.s.scores:
            product = item.product
            sides = [
                (product.left, product.left_of, item.number),
                (product.right, product.right_of, item.number.mT),
            ]
            if is_swapped:
                sides.reverse()
            for (x, read, number), to in zip(sides, (q, k), strict=True):
                pos, src = read(self.s.pos), read(self.s.src)
                assert pos is not None and src is not None
                where = of_rows(pos)  # (N, M)
                self._check_rows(where, product.event, to.name)
                self._put(to, where, x, number)
                to.sources |= set(of_rows(src)[where >= 0].tolist())
        return q, k

    def _put(self, to: _Rows, where: Tensor, x: Tensor, number: Tensor) -> None:
        """Put rows where their tags say, for every head that they belong to.

        Args:
            to: all rows of queries, keys or values.
            where: (N, M) their positions, counted through all samples.
            x: (N, M, K) the rows.
            number: (N, M, P) the pairs of sample and head.
        """
        own = where >= 0
        if x.shape[-1] != to.numbers.shape[-1]:
            raise NotSeenError(f"rows of several widths are used as {to.name}", self._line(0), "")
        for one in _first_of_each(number[0, 0]):
            b, h = self._pair_of(number[:, :, one])
            to.put(b[own], h[own], where[own], x[own])

    def _weights(self) -> Tensor:
        """The weights (B, H, T, S): zero where no product has any."""
        queries, keys = self.s.lengths
        found = _empty(self.s.batch, self.heads, queries, keys).fill_(0.0)
        for row, column, pair, x in zip(*self.weight_tags, self.weights, strict=True):
            b, h = self._pair_of(pair)
            own = column >= 0
            found[b[own], h[own], row[own] % queries, column[own] % keys] = x[own].to(found.dtype)
        return found

    def _values(self) -> tuple[_Rows, bool]:
        """The values, and whether values that belong to no position are not zero."""
        keys, has_more = self.s.lengths[1], False
        found = self._rows("v", keys, self._parts("values")[3][0].shape[1])
        for src, pos, pair, x in zip(*self._parts("values"), strict=True):
            # src, pos, x are (N, v, K); pair is (N, M, K)
            where = of_rows(pos.transpose(1, 2))  # (N, K)
            self._check_rows(where, self.s.mixes[0][0].event, "v")
            own, rows_of_v = where >= 0, x.transpose(1, 2)
            self._put(found, where, rows_of_v, pair.mT)
            has_more = has_more or bool((rows_of_v[~own] != 0).any())
            sample = self._pair_of(pair[:, 0])[0]
            if not bool((where // keys == sample)[own].all()):
                raise NotSeenError(
                    "weights of one sample mix values of another", self._line(-1), "v"
                )
            found.sources |= set(of_rows(src.transpose(1, 2))[own].tolist())
        return found, has_more

    def _messages(self, width: int) -> Tensor:
        """The messages (B, H, T, v)."""
        queries = self.s.lengths[0]
        found = _empty(self.s.batch, self.heads, queries, width)
        for row, pair, number, x in zip(*self._parts("messages"), strict=True):
            if bool((row < 0).any()) or bool((pair < 0).any()):
                raise NotSeenError("messages mix positions", self._line(-1), "head_outputs")
            b, h = self._pair_of(pair)
            found[b, h, row % queries, number] = x.to(found.dtype)
        return found

    def _line(self, index: int) -> Line | None:
        return self.s.mixes[index][0].event.line

    def _parts(self, kind: str) -> list[list[Tensor]]:
        found = [part[1:] for part in self.s.parts if part[0] == kind]
        return [list(column) for column in zip(*found, strict=True)]

    def _check_rows(self, where: Tensor, event: Event, name: str) -> None:
        if bool((where == MIXED).any()):
            raise NotSeenError(
                f"a row of {name} holds numbers of several positions or heads", event.line, name
            )

    def _number_pairs(self, rows: list[Tensor], columns: list[Tensor], pairs: list[Tensor]) -> None:
        """Sample and head of each pair: heads are counted in the order in which they appear."""
        seen: dict[tuple[int, int, int], int] = {}
        found: dict[int, tuple[int, int]] = {}
        whole = (
            x for part in zip(rows, columns, pairs, strict=True) for x in zip(*part, strict=True)
        )
        for row, column, pair in whole:
            for number in pair.unique().tolist():
                if number < 0 or number in found:
                    continue
                mine = pair == number
                place = self._place_of_pair(row[mine], column[mine])
                head = seen[place] = seen.get(place, -1) + 1
                found[number] = (place[0], head)
        if not found:
            raise NotSeenError("scores belong to no head", self.s.scores[0].product.event.line)
        self.heads = 1 + max(head for _, head in found.values())
        self.table = torch.zeros(1 + max(found), 2, dtype=torch.int64)
        for number, place_and_head in found.items():
            self.table[number] = torch.tensor(place_and_head)

    def _place_of_pair(self, queries: Tensor, keys: Tensor) -> tuple[int, int, int]:
        """Sample, first query and first key of one pair of sample and head.

        Args:
            queries: the position of the query of each score.
            keys: the position of the key; NONE for a key that belongs to no position.

        Raises:
            NotSeenError: the scores are not those of all queries and keys of one sample.
        """
        line = self.s.scores[0].product.event.line
        real = keys[keys != NONE]
        if int(queries.min()) < 0 or not real.numel() or int(real.min()) < 0:
            says = "a row of queries or keys holds numbers of several positions"
            raise NotSeenError(says, line, "q")
        if queries.unique().numel() * real.unique().numel() != real.numel():
            says = "one head multiplies a position with itself several times"
            raise NotSeenError(says, line, "q")
        lengths = self.s.lengths
        samples = {*(queries // lengths[0]).tolist(), *(real // lengths[1]).tolist()}
        if len(samples) != 1:
            says = "queries of one sample are multiplied with keys of another"
            raise NotSeenError(says, line, "scores")
        return samples.pop(), int(queries.min()), int(real.min())

    def _pair_of(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        found = self.table[numbers.clamp(0, len(self.table) - 1)]
        return found[..., 0], found[..., 1]


def pair_numbers(rows: Tensor, columns: Tensor, start: int, lengths: tuple[int, int]) -> Tensor:
    """Numbers (N, M, P) of the pairs of sample and head that scores belong to.

    One product of matrices is one pair, unless it holds all queries several times: then it holds
    several heads that share the keys, in the order of their queries. Keys likewise.

    Args:
        rows: (N, M) positions of its left rows.
        columns: (N, P) positions of its right rows.
        start: the first number.
        lengths: number of queries and of keys.
    """
    shape = (rows.shape[0], rows.shape[1], columns.shape[1])
    times, of_row = _times(rows, lengths)
    others, of_column = _times(columns, lengths)
    if times > 1 and others > 1:
        times, of_row, others = 1, torch.zeros_like(rows[0]), 1
    inner = of_row[:, None] if others == 1 else of_column[None, :]
    many = max(times, others)
    return (start + many * torch.arange(shape[0])[:, None, None] + inner).expand(shape)


def _times(positions: Tensor, lengths: tuple[int, int]) -> tuple[int, Tensor]:
    """How many times all products (N, M) hold every position, and which time each row is."""
    first = positions[0]
    same = first[:, None] == first[None, :]
    which = same.tril(-1).sum(dim=1)
    times = same.sum(dim=1)
    is_whole = bool((first >= 0).all()) and first.unique().numel() in lengths
    is_even = is_whole and bool((times == times[0]).all())
    later = positions[:, :, None] == positions[:, None, :]
    if not is_even or not bool((later == same).all()):
        return 1, torch.zeros_like(first)
    return int(times[0]), which


def _first_of_each(numbers: Tensor) -> list[int]:
    """Where each of the numbers stands first."""
    return [numbers.tolist().index(number) for number in numbers.unique().tolist()]


def _empty(*shape: int) -> Tensor:
    return torch.full(shape, math.nan, dtype=torch.float64)


def _only(found: set[int]) -> int:
    return found.pop() if len(found) == 1 else NONE
