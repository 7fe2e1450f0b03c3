"""Finds attention among the operations of a call: queries, keys, weights, values and messages.

The first product of two factors that both depend on the input gives the scores; the product of
what became of the scores with a third factor gives the messages. The tags of their rows say which
sample, position and head each row belongs to.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from manyheads.verify.assembly import (
    Assembly,
    Core,
    NotSeenError,
    Products,
    ScoreProduct,
    pair_numbers,
)
from manyheads.verify.tags import MIXED, NONE, Product, Tags, of_rows, product_of, varies
from manyheads.verify.watch import Event, Links, Maker, storage_of, tensors_in

RAW, MESSAGE = 100, 200
"""Sources of tags besides the inputs 0, 1 and 2: products of queries and keys; messages."""


@dataclass(kw_only=True, eq=False)
class Structure(Products):
    """What one pass over the operations found."""

    events: Sequence[Event]
    """The operations in order."""
    data: set[int] = field(default_factory=set)
    """Storages whose numbers depend on an input."""
    makers: dict[int, Event] = field(default_factory=dict)
    """The operation that made each storage."""
    pairs: int = 0
    """How many pairs of sample and head have a number."""
    trouble: NotSeenError | None = None
    """The first thing that keeps attention from being read."""
    snapshots: dict[tuple[int, int], tuple[Tensor, Tensor]] = field(default_factory=dict)
    """Sources and positions of each result, by the numbers of operation and result."""

    @property
    def layers(self) -> tuple[Tags, Tags, Tags, Tags]:
        """All kinds of tags."""
        return self.src, self.pos, self.key, self.pair

    def begin(self, inputs: Sequence[Tensor], positions: Sequence[Tensor]) -> None:
        """Tag the inputs: their positions in one order of axes are given in their own shapes."""
        for number, (x, where) in enumerate(zip(inputs, positions, strict=True)):
            if storage_of(x) in self.data:
                continue
            self.data.add(storage_of(x))
            self.src.put(x, torch.tensor(number))
            self.pos.put(x, where)

    def run(self) -> None:
        """Follow all operations."""
        for event in self.events:
            self._one(event)

    def _one(self, event: Event) -> None:
        given = list(tensors_in(*event.args, *event.keywords.values()))
        is_data = any(storage_of(x) in self.data for x in given if not _is_index(x))
        product = product_of(event, self.makers) if is_data else None
        if event.op.startswith("_scaled_dot_product") and is_data:
            self._fused(event)
        elif product is not None and is_data:
            self._product(product)
        else:
            for layer in self.layers:
                layer.follow(event)
        if event.writes:
            for x in event.out:
                self.makers[storage_of(x)] = event
                if is_data:
                    self.data.add(storage_of(x))
        if is_data and event.out and event.out[0].is_floating_point():
            self._remember(event)

    def _remember(self, event: Event) -> None:
        for i, out in enumerate(event.out):
            src, pos = self.src.of(out), self.pos.of(out)
            if src is not None and pos is not None:
                self.snapshots[event.number, i] = (src.clone(), pos.clone())

    def _is_data(self, x: Tensor) -> bool:
        return storage_of(x) in self.data

    def _product(self, product: Product) -> None:
        left, right = self._is_data(product.left_place), self._is_data(product.right_place)
        for layer in self.layers:
            layer.put(product.event.out[0], torch.tensor(NONE))
        if left and right:
            self._of_two(product)
        else:
            self._projected(product, is_left=left)

    def _projected(self, product: Product, is_left: bool) -> None:
        """A product with a weight: its rows keep the positions of the rows they are made of."""
        read = product.left_of if is_left else product.right_of
        src, pair, key = read(self.src), read(self.pair), read(self.key)
        is_raw = src is not None and bool((src == RAW).any())
        is_one_key = key is not None and bool((of_rows(key) != MIXED).all())
        is_of_heads = pair is not None and bool((of_rows(pair) == MIXED).any())
        if is_raw and is_one_key and is_of_heads:
            self._trouble("a weight mixes the scores or weights of heads", product.event)
        for layer in self.layers:
            found = read(layer)
            if found is None:
                continue
            rows = of_rows(found)  # (N, M)
            rows = rows[:, :, None] if is_left else rows[:, None, :]
            shape = (product.left.shape[0], product.left.shape[1], product.right.shape[1])
            layer.put(product.event.out[0], product.shaped(rows.expand(shape)))

    def _of_two(self, product: Product) -> None:
        sources = [read(self.src) for read in (product.left_of, product.right_of)]
        is_raw = [bool((s == RAW).any()) if s is not None else False for s in sources]
        if not any(is_raw):
            if any(bool((s == MESSAGE).any()) for s in sources if s is not None):
                self._trouble("messages are multiplied with input again", product.event)
                return
            self._scored(product)
        elif all(is_raw):
            self._trouble("scores are multiplied with scores", product.event)
        else:
            self._mixed(product, is_left=is_raw[0])

    def _trouble(self, says: str, event: Event, step: str = "") -> None:
        if self.trouble is None:
            self.trouble = NotSeenError(says, event.line, step)

    def _scored(self, product: Product) -> None:
        """A product of queries and keys."""
        out = product.event.out[0]
        shape = (product.left.shape[0], product.left.shape[1], product.right.shape[1])
        left, right = product.left_of(self.pos), product.right_of(self.pos)
        if left is None or right is None:
            self._trouble("a product of two factors that belong to no position", product.event)
            return
        rows, columns = of_rows(left), of_rows(right)
        number = pair_numbers(rows, columns, self.pairs, self.lengths)
        self.src.put(out, torch.tensor(RAW))
        self.pos.put(out, product.shaped(rows[:, :, None].expand(shape)))
        self.key.put(out, product.shaped(columns[:, None, :].expand(shape)))
        self.pair.put(out, product.shaped(number))
        self._seen_scores(product, number)

    def _seen_scores(self, product: Product, number: Tensor) -> None:
        self.scores.append(ScoreProduct(product=product, number=number))
        self.pairs = int(number.max()) + 1

    def _mixed(self, product: Product, is_left: bool) -> None:
        """A product of weights and values."""
        self.mixes.append((product, is_left))
        reads = (product.left_of, product.right_of)
        of_weights, of_values = reads if is_left else reads[::-1]
        tags = [of_weights(layer) for layer in (self.pos, self.key, self.pair)]
        pos = of_values(self.pos)
        src = of_values(self.src)
        if pos is None or src is None or any(t is None for t in tags):
            self._trouble("values that belong to no position are mixed", product.event, "v")
            return
        values = product.right if is_left else product.left
        weights = product.left if is_left else product.right
        row, column, pair = (t for t in tags if t is not None)  # (N, M, K)
        self.parts.append(("weights", row.clone(), column.clone(), pair.clone(), weights))
        self.parts.append(("values", src.clone(), pos.clone(), pair.clone(), values))
        # each row of the result belongs to what is constant along the row of weights
        owner = of_rows(row if varies(column) else column)  # (N, M)
        shape = (weights.shape[0], weights.shape[1], values.shape[1])
        number = torch.arange(values.shape[1])[None, None, :].expand(shape)
        wide = [x[:, :, None].expand(shape) for x in (owner, of_rows(pair))] + [number]
        if not is_left:
            wide = [x.transpose(1, 2) for x in wide]
        shaped = [product.shaped(x) for x in wide]
        self._made(product.event, shaped[0], shaped[1], shaped[2])

    def _made(self, event: Event, owner: Tensor, pair: Tensor, number: Tensor) -> None:
        """Tag messages.

        Args:
            event: the operation that made them.
            owner: the position that each number of them belongs to.
            pair: its pair of sample and head.
            number: its index in the row.
        """
        out = event.out[0]
        self.src.put(out, torch.tensor(MESSAGE))
        self.pos.put(out, owner)
        self.pair.put(out, pair)
        self.key.put(out, number)
        self.parts.append(("messages", owner, pair, number, event.values[0]))

    def _fused(self, event: Event) -> None:
        """A fused kernel, as its two products; torch's own formula gives the weights between."""
        given = _fused_given(event, self.src, self.pos)
        if given is None:
            self._trouble("the fused kernel is given rows that belong to no position", event)
            return
        raw = given.q @ given.k.mT
        weights = _fused_weights(event, given, raw)
        shape = raw.shape
        owner = of_rows(given.q_pos)[..., None]
        column = of_rows(given.k_pos)[..., None, :].expand(shape)
        one, two = owner.flatten(0, 1)[..., 0], column.flatten(0, 1)[:, 0]
        number = pair_numbers(one, two, self.pairs, self.lengths)
        pair = number.unflatten(0, shape[:2])
        product = _fused_product(event, given)
        self._seen_scores(product, number)
        flat = [x.flatten(0, 1) for x in (owner.expand(shape), column, pair, weights)]
        self.parts.append(("weights", flat[0], flat[1], flat[2], flat[3]))
        values = [x.flatten(0, 1).mT for x in (given.v_src, given.v_pos, given.v)]  # (N, v, S)
        self.parts.append(("values", values[0], values[1], flat[2], values[2]))
        wide = event.out[0].shape
        number = torch.arange(wide[-1]).expand(wide)
        self._made(event, owner.expand(wide), pair[..., :1].expand(wide), number)
        self.mixes.append((product, True))

    def ancestors(self, x: Tensor, before: int) -> list[Maker]:
        """Results from which a tensor was computed, its own included, in order.

        Args:
            x: the tensor.
            before: number of the operation that reads it.
        """
        links = Links(self.events[:before])
        found: set[Maker] = set()
        waiting = links.makers_of(x)
        while waiting:
            made = waiting.pop()
            if made not in found:
                found.add(made)
                waiting += links.parents[made[0]]
        return sorted(found)

    def factor_of(self, name: str) -> tuple[Tensor, int] | None:
        """The tensor from which q, k or v was read, and the operation that read it."""
        if name in "qk" and self.scores:
            product = self.scores[0].product
            x = product.left_place if name == "q" else product.right_place
            return x, product.event.number
        if name == "v" and self.mixes:
            product, is_left = self.mixes[0]
            event = product.event
            if event.op.startswith("_scaled_dot_product"):
                return event.args[2], event.number
            return product.right_place if is_left else product.left_place, event.number
        if name == "v" and len(self.scores) > 1:  # weights that belong to no position
            product = self.scores[-1].product
            return product.right_place, product.event.number
        return None

    def softmaxes(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Products and weights at each softmax, as far as they are arranged by positions."""
        for event in self.events:
            if event.op in ("_softmax", "_safe_softmax") and self.scores:
                found = Assembly(self).softmaxed(event)
                if found is not None:
                    yield found

    def core(self) -> Core:
        """The heads in one order of axes.

        Raises:
            NotSeenError: there is no attention, or its rows are not arranged by positions.
        """
        if not self.scores:
            raise self.trouble or NotSeenError(
                "no product of queries and keys is made", step="scores"
            )
        if not self.mixes:
            raise self.trouble or NotSeenError(
                "no product of weights and values is made", step="head_outputs"
            )
        if self.trouble is not None:
            raise self.trouble
        return Assembly(self).core()


@dataclass(frozen=True, kw_only=True, eq=False)
class _FusedGiven:
    """What a fused kernel was given; keys and values are repeated for each query head."""

    places: list[Tensor]
    """The tensors of queries, keys and values as they were given."""
    groups: int
    """Query heads per key head."""
    q: Tensor
    """(B, H, T, d)."""
    k: Tensor
    """(B, H, S, d)."""
    v: Tensor
    """(B, H, S, v)."""
    q_pos: Tensor
    """Positions of the queries."""
    k_pos: Tensor
    """Positions of the keys."""
    v_pos: Tensor
    """Positions of the values."""
    v_src: Tensor
    """Inputs that the values come from."""


def _fused_given(event: Event, src: Tags, pos: Tags) -> _FusedGiven | None:
    """What a fused kernel was given, or None where a factor has no tags."""
    q, k, v = event.given[:3]
    places = list(tensors_in(*event.args))[:3]
    sources, positions = ([layer.of(x) for x in places] for layer in (src, pos))
    q_pos, k_pos, v_pos = positions
    v_src = sources[2]
    if any(s is None for s in sources):
        return None
    if q_pos is None or k_pos is None or v_pos is None or v_src is None:
        return None
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = (x.repeat_interleave(groups, 1) for x in (k, v))
        k_pos, v_pos, v_src = (x.repeat_interleave(groups, 1) for x in (k_pos, v_pos, v_src))
    return _FusedGiven(
        places=places,
        groups=groups,
        q=q,
        k=k,
        v=v,
        q_pos=q_pos,
        k_pos=k_pos,
        v_pos=v_pos,
        v_src=v_src,
    )


def _fused_weights(event: Event, given: _FusedGiven, raw: Tensor) -> Tensor:
    """The weights that a fused kernel makes of the products of queries and keys."""
    mask, is_causal = mask_of(event)
    scores = raw * (event.keywords.get("scale") or given.q.shape[-1] ** -0.5)
    if is_causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    if mask is not None:
        is_bool = mask.dtype == torch.bool
        scores = scores.masked_fill(~mask, -math.inf) if is_bool else scores + mask
    weights: Tensor = scores.softmax(-1).nan_to_num(nan=0.0)
    return weights


def _fused_product(event: Event, given: _FusedGiven) -> Product:
    """The product of queries and keys inside a fused kernel."""
    q_place, k_place = given.places[:2]
    return Product(
        event=event,
        left=given.q.flatten(0, 1),
        right=given.k.flatten(0, 1),
        left_of=lambda layer: _flat(layer.of(q_place)),
        right_of=lambda layer: _grouped(layer.of(k_place), given.groups),
        shaped=lambda x: x,
        left_place=q_place,
        right_place=k_place,
    )


def _flat(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.flatten(0, 1)


def _grouped(x: Tensor | None, groups: int) -> Tensor | None:
    return None if x is None else x.repeat_interleave(groups, 1).flatten(0, 1)


def _is_index(x: Tensor) -> bool:
    return not (x.is_floating_point() or x.is_complex())


def mask_of(event: Event) -> tuple[Tensor | None, bool]:
    """Mask and causality that a fused kernel was given."""
    names = [a.name for a in event.func._schema.arguments]  # type: ignore[attr-defined]
    given = dict(zip(names, event.args, strict=False)) | event.keywords
    mask = given.get("attn_mask", given.get("attn_bias"))
    return mask if isinstance(mask, Tensor) else None, bool(given.get("is_causal", False))
