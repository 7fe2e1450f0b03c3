"""Tags move as numbers do: each number here is its own tag, so the two can be compared."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from manyheads.verify.tags import MIXED, NONE, Tags, combined, product_of
from manyheads.verify.watch import Event, storage_of, watch
from tests.factories import random_like

SHAPE = (2, 3, 4)


def followed(call: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor | None]:
    """What a function makes of the numbers 0, 1, 2 ... and the tags of the result."""
    x = torch.arange(24, dtype=torch.float64).view(SHAPE)
    tags = Tags()
    tags.put(x, x.to(torch.int64))
    watched = watch(lambda: call(x))
    assert watched.raised is None, watched.raised
    for event in watched.events:
        tags.follow(event)
    assert isinstance(watched.answer, Tensor)
    return watched.answer, tags.of(watched.answer)


def in_slices(x: Tensor) -> Tensor:
    """Written piece by piece, in place."""
    y = torch.full((2, 3, 5), float(NONE), dtype=x.dtype)
    y[:, 1:, :2] = x[:, :2, 2:]
    y[0, 0, 4] = x[1, 2, 3]
    return y


def squeezed_in_place(x: Tensor) -> Tensor:
    y = x[:, :1].clone()
    y.squeeze_(1)
    y.unsqueeze_(0)
    return y.transpose_(1, 2)


def by_positions(x: Tensor) -> Tensor:
    y = torch.full_like(x, float(NONE))
    return y.index_copy(1, torch.tensor([2, 0]), x[:, :2])


def gathered(x: Tensor) -> Tensor:
    return x.gather(2, torch.tensor([3, 0]).expand(2, 3, 2))


MOVES: dict[str, Callable[[Tensor], Tensor]] = {
    "transpose": lambda x: x.transpose(1, 2),
    "view": lambda x: x.view(6, 2, 2).permute(2, 0, 1),
    "reshape that copies": lambda x: x.transpose(1, 2).reshape(2, -1),
    "flatten and unflatten": lambda x: x.mT.flatten(1).unflatten(1, (2, -1)),
    "split and cat": lambda x: torch.cat(x.split(2, -1)[::-1], 1),
    "chunk and stack": lambda x: torch.stack(x.chunk(3, 1), 0),
    "cat with constants": lambda x: torch.cat((x, torch.full((2, 3, 1), float(NONE)).double()), -1),
    "slices in place": in_slices,
    "expand": lambda x: x[:, :, None].expand(2, 3, 5, 4).reshape(2, 15, 4),
    "repeat": lambda x: x.repeat(1, 2, 1),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "squeeze_": squeezed_in_place,
    "einsum that only turns": lambda x: torch.einsum("abc->cab", x),
    "index": lambda x: x[:, torch.tensor([2, 0, 2])],
    "bool index": lambda x: x[:, torch.tensor([True, False, True])],
    "index_select": lambda x: x.index_select(2, torch.tensor([3, 1])),
    "index_copy": by_positions,
    "gather": gathered,
    "roll": lambda x: x.roll(1, 1),
    "flip": lambda x: x.flip(0),
    "pad": lambda x: torch.nn.functional.pad(x, (1, 0), value=float(NONE)),
    "other type": lambda x: x.float().to(torch.float64),
    "contiguous": lambda x: x.movedim(0, 2).contiguous(),
    "unbind": lambda x: x.unbind(1)[2],
    "diagonal": lambda x: x.diagonal(dim1=1, dim2=2),
    "unfold": lambda x: x.unfold(2, 2, 1),
}


@pytest.mark.parametrize("name", MOVES)
def test_tags_go_where_the_numbers_go(name: str) -> None:
    numbers, tags = followed(MOVES[name])
    assert tags is not None
    assert torch.equal(tags, numbers.to(torch.int64))


KEEPS: dict[str, Callable[[Tensor], Tensor]] = {
    "factor": lambda x: x * 0.5,
    "weight for each channel": lambda x: x * torch.arange(4.0).double() + 1,
    "function": lambda x: x.tanh().exp(),
    "in place": lambda x: x.clone().mul_(2).add_(1),
    "where": lambda x: torch.where(x > 3, x, 0.0),
    "masked_fill": lambda x: x.masked_fill(x > 3, -1.0),
    "with itself": lambda x: x * x.sigmoid(),
    "softmax": lambda x: x.softmax(-1),
    "layer norm": lambda x: torch.nn.functional.layer_norm(x, (4,)),
}


@pytest.mark.parametrize("name", KEEPS)
def test_operations_on_single_numbers_keep_tags(name: str) -> None:
    _, tags = followed(KEEPS[name])
    assert tags is not None
    assert torch.equal(tags, torch.arange(24).view(SHAPE))


@pytest.mark.parametrize("name", ["sum", "mean", "logsumexp", "cumsum"])
def test_sums_have_no_tag(name: str) -> None:
    _, tags = followed(lambda x: getattr(x, name)(1))
    assert tags is not None
    assert bool((tags == NONE).all())


def test_a_number_made_of_two_places_is_mixed() -> None:
    _, tags = followed(lambda x: x + x.roll(1, 1))
    assert tags is not None
    assert bool((tags == MIXED).all())


def test_where_only_one_has_a_tag_it_stays() -> None:
    first, second = torch.tensor([NONE, 3, 3, 3, MIXED]), torch.tensor([4, NONE, 3, 5, 3])
    assert combined(first, second).tolist() == [4, 3, 3, MIXED, MIXED]


def test_a_buffer_that_is_overwritten_with_constants_loses_its_tags() -> None:
    def call(x: Tensor) -> Tensor:
        y = x.clone()
        y[:, 1] = torch.zeros(2, 4, dtype=x.dtype)
        return y

    _, tags = followed(call)
    assert tags is not None
    assert bool((tags[:, 1] == NONE).all())
    assert torch.equal(tags[:, 0], torch.arange(24).view(SHAPE)[:, 0])


def test_masking_in_place_with_one_constant_keeps_tags() -> None:
    def call(x: Tensor) -> Tensor:
        y = x.clone()
        y[:, torch.tensor([[True, False, False, True], [False] * 4, [True] * 4])] = -torch.inf
        return y

    _, tags = followed(call)
    assert tags is not None
    assert torch.equal(tags, torch.arange(24).view(SHAPE))


def test_complex_numbers_share_the_tag_of_their_parts() -> None:
    def call(x: Tensor) -> Tensor:
        turn = torch.polar(torch.ones(3, 2).double(), torch.ones(3, 2).double())
        return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (2, 2))) * turn).flatten(2)

    x = torch.zeros(SHAPE, dtype=torch.float64)
    rows = torch.arange(6).view(2, 3, 1).expand(SHAPE)
    tags = Tags()
    tags.put(x, rows)
    watched = watch(lambda: call(x))
    for event in watched.events:
        tags.follow(event)
    assert isinstance(watched.answer, Tensor)
    found = tags.of(watched.answer)
    assert found is not None
    assert torch.equal(found, rows)


A, W = random_like(1, 2, 3, 4), random_like(2, 2, 5, 4)
PRODUCTS: dict[str, Callable[[], Tensor]] = {
    "batched": lambda: A @ W.mT,
    "einsum": lambda: torch.einsum("btd,bsd->bts", A, W),
    "einsum in another order": lambda: torch.einsum("btd,bsd->tsb", A, W),
    "with a weight": lambda: torch.nn.functional.linear(A, W[0], random_like(3, 5)),
    "matrix by row": lambda: A[0] @ W[0, 0],
    "row by row": lambda: A[0, 0] @ W[0, 0],
    "sum of products": lambda: (A[:, :, None] * W[:, None]).sum(-1),
    "convolution": lambda: torch.nn.functional.conv1d(A.mT, W[0, :, :, None]),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_is_read_in_one_form(name: str) -> None:
    events = watch(PRODUCTS[name]).events
    makers: dict[int, Event] = {}
    found = []
    for event in events:
        product = product_of(event, makers)
        if product is not None:
            found.append(product)
        if event.writes:
            makers |= {storage_of(x): event for x in event.out}
    assert len(found) == 1
    product = found[0]
    made = product.shaped(product.left @ product.right.mT)
    bias = random_like(3, 5) if name == "with a weight" else 0.0
    assert torch.allclose(made + bias, product.event.values[0], atol=1e-12)


def test_a_sum_of_something_else_is_no_product() -> None:
    events = watch(lambda: (A + A).sum(-1)).events
    assert [product_of(event, {storage_of(x): event for x in event.out}) for event in events] == [
        None
    ] * len(events)
