"""Part 5 of the lab: parameters against score storage, counted on real layers and real tensors."""

from functools import partial

import torch
from torch import Tensor, nn

from manyheads.attention.module import MultiHeadAttention
from manyheads.learn.lab.record import Equals, Record

BATCH, WIDTH = 2, 8
HEAD_COUNTS = (1, 2, 4)


def write_costs(record: Record) -> None:
    """Parameters do not depend on the number of heads; scores grow with heads and length."""
    record.say(
        "The layers have no biases and use single precision. More heads split the same matrices "
        "into narrower blocks, so the number of parameters stays the same. But each head has "
        "its own scores."
    )
    record.table("the same width, more heads")
    _write_head_counts(
        record, HEAD_COUNTS, positions=4, parameters=(256,) * 3, entries=(32, 64, 128)
    )
    record.say("Twice the positions give four times the scores: one score per pair of positions.")
    record.table("one score tensor in memory")
    tall = (_Run(num_heads=2, positions=128), _Run(num_heads=2, positions=256))
    _write_memory(record, tall, numbers=(65_536, 262_144), size=(262_144, 1_048_576))


class _Run:
    """A layer of width 8 and a random input, for our layer and for PyTorch's."""

    def __init__(self, num_heads: int, positions: int) -> None:
        self.num_heads, self.positions = num_heads, positions

    def layer(self) -> MultiHeadAttention:
        return MultiHeadAttention(WIDTH, self.num_heads, bias=False, dtype=torch.float32)

    def scores(self) -> Tensor:
        """The scores of a call, (B, H, T, T)."""
        with torch.no_grad():
            return self.layer().trace(self._input()).scores

    def torch_layer(self) -> nn.MultiheadAttention:
        return nn.MultiheadAttention(
            WIDTH, self.num_heads, bias=False, batch_first=True, dtype=torch.float32
        )

    def torch_weights(self) -> Tensor:
        """PyTorch's weights per head, which have the size of the scores."""
        x = self._input()
        with torch.no_grad():
            weights = self.torch_layer()(x, x, x, average_attn_weights=False)[1]
        assert isinstance(weights, Tensor)
        return weights

    def _input(self) -> Tensor:
        generator = torch.Generator().manual_seed(11)
        return torch.randn(BATCH, self.positions, WIDTH, dtype=torch.float32, generator=generator)


Runs = tuple[_Run, ...]


def _count_parameters(layer: nn.Module) -> int:
    return sum(parameter.numel() for parameter in layer.parameters())


def _parameters(runs: Runs) -> tuple[int, ...]:
    return tuple(_count_parameters(run.layer()) for run in runs)


def _shapes(runs: Runs) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(run.scores().shape) for run in runs)


def _entries(runs: Runs) -> tuple[int, ...]:
    return tuple(run.scores().numel() for run in runs)


def _entry_sizes(runs: Runs) -> tuple[int, ...]:
    return tuple(run.scores().element_size() for run in runs)


def _bytes(runs: Runs) -> tuple[int, ...]:
    """The size of the tensor's storage, measured and not computed."""
    return tuple(run.scores().clone().untyped_storage().nbytes() for run in runs)


def _by_hand(*numbers: int | tuple[int, ...]) -> Equals:
    return Equals(source="by hand", numbers=numbers)


def _by_torch(*numbers: int | tuple[int, ...]) -> Equals:
    return Equals(source="torch", numbers=numbers)


def _write_head_counts(
    record: Record,
    counts: tuple[int, ...],
    positions: int,
    parameters: tuple[int, ...],
    entries: tuple[int, ...],
) -> None:
    runs = tuple(_Run(num_heads=count, positions=positions) for count in counts)
    weights = [run.torch_weights() for run in runs]
    record.row(
        "heads H", lambda: tuple(r.layer().config.num_heads for r in runs), _by_hand(*counts)
    )
    widths = tuple(WIDTH // count for count in counts)
    record.row(
        "head width", lambda: tuple(r.layer().config.head_dim for r in runs), _by_hand(*widths)
    )
    torch_parameters = _by_torch(*(_count_parameters(run.torch_layer()) for run in runs))
    record.row("parameters", partial(_parameters, runs), _by_hand(*parameters), torch_parameters)
    shapes = _by_torch(*(tuple(w.shape) for w in weights))
    record.row("scores (B, H, T, T)", partial(_shapes, runs), shapes)
    numels = _by_torch(*(w.numel() for w in weights))
    record.row("score entries", partial(_entries, runs), _by_hand(*entries), numels)


def _write_memory(
    record: Record, runs: Runs, numbers: tuple[int, ...], size: tuple[int, ...]
) -> None:
    weights = [run.torch_weights() for run in runs]
    shapes = _by_torch(*(tuple(w.shape) for w in weights))
    record.row("scores (B, H, T, T)", partial(_shapes, runs), shapes)
    record.row("score entries", partial(_entries, runs), _by_hand(*numbers))
    record.row("bytes per entry", partial(_entry_sizes, runs), _by_hand(*(4 for _ in runs)))
    stored = _by_torch(*(w.nbytes for w in weights))
    record.row("bytes", partial(_bytes, runs), _by_hand(*size), stored)


def try_heads_4(record: Record) -> None:
    """Four heads over the shorter and over the longer input, beside two over the longer one."""
    record.say("Two heads over the longer input, four over the shorter, four over the longer.")
    record.table("heads against length")
    sizes = ((2, 256), (4, 128), (4, 256))
    runs = tuple(_Run(num_heads=heads, positions=positions) for heads, positions in sizes)
    record.row("heads H", lambda: tuple(r.num_heads for r in runs), _by_hand(2, 4, 4))
    torch_parameters = _by_torch(*(_count_parameters(run.torch_layer()) for run in runs))
    record.row("parameters", partial(_parameters, runs), _by_hand(256, 256, 256), torch_parameters)
    entries, stored = (262_144, 131_072, 524_288), (1_048_576, 524_288, 2_097_152)
    _write_memory(record, runs, numbers=entries, size=stored)
    record.say(
        "The number of parameters is the same. Twice the heads double the scores, twice the "
        "positions make four times as many: two heads over the longer input need twice the memory "
        "of four over the shorter."
    )
