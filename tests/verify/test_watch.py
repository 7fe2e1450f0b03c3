"""A call is recorded with its numbers at that time and the line that asked for each operation."""

import inspect
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.verify.watch import Event, Line, place_of, watch
from tests.factories import random_like

HERE = __file__


def line_of(function: Callable[..., object], offset: int) -> Line:
    """The line of this file that stands `offset` lines below the head of a function."""
    return Line(file=HERE, number=inspect.getsourcelines(function)[1] + offset)


def events_named(events: list[Event], op: str) -> list[Event]:
    return [event for event in events if event.op == op]


def doubled_then_added(x: Tensor) -> Tensor:
    y = x * 2
    y += 1
    return y


def test_each_operation_has_its_line() -> None:
    events = watch(lambda: doubled_then_added(random_like(1, 3))).events
    lines = {event.op: event.line for event in events}
    assert lines["mul"] == line_of(doubled_then_added, 1)
    assert lines["add_"] == line_of(doubled_then_added, 2)


def test_numbers_are_those_before_and_after_an_operation_in_place() -> None:
    x = random_like(1, 3)
    events = watch(lambda: doubled_then_added(x)).events
    mul, add = events_named(events, "mul")[0], events_named(events, "add_")[0]
    assert torch.equal(mul.values[0], x * 2)
    assert torch.equal(add.given[0], x * 2)
    assert torch.equal(add.values[0], x * 2 + 1)
    assert torch.equal(mul.out[0], x * 2 + 1)  # the memory, which was changed later


def test_views_make_no_numbers() -> None:
    events = watch(lambda: random_like(1, 3, 4).transpose(0, 1).reshape(-1)).events
    assert [event.writes for event in events_named(events, "transpose")] == [False]
    assert [event.writes for event in events_named(events, "clone")] == [True]


def test_an_operation_inside_the_library_has_the_line_that_called_it() -> None:
    layer = nn.MultiheadAttention(6, 2, batch_first=True)

    def call(x: Tensor) -> Tensor:
        return layer(x, x, x)[0]

    events = watch(lambda: call(random_like(1, 2, 3, 6, dtype=torch.float32))).events
    assert {event.line for event in events if event.op in ("addmm", "bmm")} == {line_of(call, 1)}


def test_a_kernel_for_the_whole_of_attention_is_one_operation_with_its_arguments() -> None:
    x = random_like(1, 2, 3, 4, 5).requires_grad_()
    events = watch(lambda: F.scaled_dot_product_attention(x, x, x, is_causal=True)).events
    fused = [e for e in events if e.op.startswith("_scaled_dot_product")]
    assert len(fused) == 1
    assert torch.equal(fused[0].given[0], x)


def test_a_shape_that_is_changed_in_place_is_kept_as_it_was() -> None:
    def call() -> Tensor:
        x = torch.zeros(3, 1)
        y = x + 1
        y.squeeze_(1)
        return y * 2

    add = events_named(watch(call).events, "add")[0]
    assert place_of(add.out[0])[2] == (3, 1)


def test_what_was_done_before_an_exception_is_kept() -> None:
    def call() -> Tensor:
        y = torch.ones(2) * 3
        raise ValueError(str(y.shape))

    watched = watch(call)
    assert isinstance(watched.raised, ValueError)
    assert [event.op for event in events_named(watched.events, "mul")] == ["mul"]
