"""How other code arranges the same weights; each arrangement is read and written, bit for bit."""

from manyheads.layouts.arrangements import (
    heads_from_interleaved_rows,
    heads_from_separate_columns,
    heads_from_separate_rows,
    heads_from_stacked_columns,
    heads_from_stacked_rows,
    interleaved_rows_from_heads,
    separate_columns_from_heads,
    separate_rows_from_heads,
    stacked_columns_from_heads,
    stacked_rows_from_heads,
)
from manyheads.layouts.blocks import JoinedWeights, SeparateWeights
from manyheads.layouts.drop_in import DropInAttention
from manyheads.layouts.limits import fill_biases, fill_input_biases, repeat_kv_heads
from manyheads.layouts.state_dicts import heads_from_state_dict, state_dict_from_heads
from manyheads.layouts.torch_mha import from_torch, to_torch

__all__ = [
    "DropInAttention",
    "JoinedWeights",
    "SeparateWeights",
    "fill_biases",
    "fill_input_biases",
    "from_torch",
    "heads_from_interleaved_rows",
    "heads_from_separate_columns",
    "heads_from_separate_rows",
    "heads_from_stacked_columns",
    "heads_from_stacked_rows",
    "heads_from_state_dict",
    "interleaved_rows_from_heads",
    "repeat_kv_heads",
    "separate_columns_from_heads",
    "separate_rows_from_heads",
    "stacked_columns_from_heads",
    "stacked_rows_from_heads",
    "state_dict_from_heads",
    "to_torch",
]
