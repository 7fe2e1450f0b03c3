"""The numbers of a card: the tables below its texts, computed by the engine.

The numbers of a layer are read from a real layer and a real mask. The layer is built without memory
(torch's meta device), so its size does not matter.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import Any

from manyheads.core.config import AttentionConfig
from manyheads.core.errors import ConfigError, LearnError
from manyheads.learn.sentences import Quoted, Sentence, filled, number_named
from manyheads.worksheets.arithmetic import Number, add, multiply, reciprocal, square_root
from manyheads.worksheets.exact import solve_exact
from manyheads.worksheets.interventions import one_wide_head, without_head, zero_query
from manyheads.worksheets.library import Worksheet, worksheet, worksheet_names
from manyheads.worksheets.quantities import Quantity, quantity_from_text, value_at

_NAME = re.compile(r"\{\{([^|{}]+)")
_TEXT = re.compile(r"<<([^<>]+)>>")


class CardNumbers:
    """The numbers and texts that one card may name.

    Args:
        row: the card; its tables `layers`, `models`, `sheets`, `sums` and `ratios` say what is
            computed, and `refused` is a layer with invalid sizes.
    """

    def __init__(self, row: Mapping[str, Any]) -> None:
        self._row = row
        self._sheets: dict[str, Worksheet] = {
            name: _changed_sheet(how) for name, how in row.get("sheets", {}).items()
        }
        self._numbers: dict[str, Number] = {}
        for name, sizes in row.get("layers", {}).items():
            self._add(name, numbers_of_layer(sizes))
        for name, sizes in row.get("models", {}).items():
            self._add(name, _of_model(sizes))
        self._add("refused", {name: Fraction(n) for name, n in row.get("refused", {}).items()})
        for name, terms in row.get("sums", {}).items():
            self._numbers[name] = reduce(add, [self._number(term) for term in terms])
        for name, (part, whole) in row.get("ratios", {}).items():
            self._numbers[name] = multiply(self._number(part), reciprocal(self._number(whole)))

    def fill(self, template: str) -> Sentence:
        """Fill a text of the card in.

        Raises:
            LearnError: an unknown name.
            WorksheetError: no such number in a worksheet.
        """
        text = _TEXT.sub(lambda match: self._text(match[1]), template)
        names = {match[1].strip() for match in _NAME.finditer(text)}
        said = filled(text, {name: self._number(name) for name in names})
        return Sentence(tuple(self._qualified(part) for part in said.parts))

    def _add(self, name: str, numbers: Mapping[str, Number]) -> None:
        self._numbers |= {f"{name}.{part}": value for part, value in numbers.items()}

    def _number(self, name: str) -> Number:
        if name in self._numbers:
            return self._numbers[name]
        sheet_name, _, place = name.partition(":")
        if sheet_name not in self._sheets:
            return number_named(name, {})
        sheet = self._sheets[sheet_name]
        quantity = quantity_from_text(sheet, place)
        if not isinstance(quantity, Quantity):
            raise LearnError(f"number ({name}) is given: name a solved one, such as output[0][0]")
        steps = solve_exact(sheet, quantity.sequence)
        return value_at(steps, quantity.field.name, quantity.index)

    def _text(self, name: str) -> str:
        if name == "refused":
            return _refusal(self._row["refused"])
        from manyheads.faults.catalogue import fault_kind

        fault_id, _, part = name.rpartition(".")
        text = getattr(fault_kind(fault_id), part)
        assert isinstance(text, str)
        return text

    def _qualified(self, part: str | Quoted) -> str | Quoted:
        """Give the card's own numbers a name that no other card has."""
        if isinstance(part, str) or part.quantity.partition(":")[0] in worksheet_names():
            return part
        return replace(part, quantity=f"cards:{self._row['id']}.{part.quantity}")


def _changed_sheet(how: Mapping[str, Any]) -> Worksheet:
    sheet = worksheet(how["of"])
    if how.get("zero_query"):
        sheet = zero_query(sheet)
    if how.get("one_wide_head"):
        sheet = one_wide_head(sheet)
    if "without_head" in how:  # counted from 1, as readers do
        sheet = without_head(sheet, how["without_head"] - 1)
    return sheet.edit(how.get("set", {}))


def _of_model(sizes: Mapping[str, Any]) -> dict[str, Number]:
    from manyheads.models.config import ModelConfig

    config = ModelConfig(**sizes)
    return {
        "parameters": Fraction(config.num_parameters),
        "H": Fraction(config.num_heads or 0),
        "d": Fraction(config.width_of_head),
        "D": Fraction(config.width),
    }


def _refusal(sizes: Mapping[str, Any]) -> str:
    from manyheads.core.config import AttentionConfig

    try:
        AttentionConfig.of(**sizes)
    except ConfigError as error:
        return str(error)
    raise LearnError(f"refused ({dict(sizes)}) is a layer that works: give sizes that do not")


_CALL = {"batch": 1, "queries": 1, "keys": None, "entry": "float32"}
"""What a row may set for the call: B, T, S (default T), and the dtype."""


def numbers_of_layer(row: Mapping[str, Any]) -> dict[str, Number]:
    """Every number of a layer and a causal call of it, by name.

    Args:
        row: arguments of `MultiHeadAttention`, and `batch`, `queries`, `keys` and `entry` (a
            torch dtype) of the call.

    Raises:
        ConfigError: no layer can have these sizes.
    """
    from manyheads.attention.module import MultiHeadAttention

    call = {name: row.get(name, usual) for name, usual in _CALL.items()}
    layer = MultiHeadAttention(
        **{name: value for name, value in row.items() if name not in _CALL}, device="meta"
    )
    keys = call["keys"] or call["queries"]
    axes = {"B": call["batch"], "T": call["queries"], "S": keys}
    numbers = {
        **axes,
        **_sizes(layer.config),
        "parameters": sum(parameter.numel() for parameter in layer.parameters()),
        **_storage(layer.config, axes, call["entry"]),
        **_seen(axes["T"], axes["S"], layer.config.window),
        **_slopes(layer.config.num_heads),
    }
    # Exact, where the layer's own scale is a float; a test holds one to the other.
    scale = reciprocal(square_root(Fraction(layer.config.head_dim)))
    return {name: Fraction(value) for name, value in numbers.items()} | {"scale": scale}


def _sizes(config: AttentionConfig) -> dict[str, int]:
    """Widths, and which rows of stored matrices belong to what, counted from 1."""
    queries, keys, values = config.projection_widths
    return {
        "D": config.embed_dim,
        "H": config.num_heads,
        "G": config.num_kv_heads,
        "d": config.head_dim,
        "v": config.v_head_dim,
        "joined": config.concat_dim,
        "kdim": config.kdim,
        "pairs": config.head_dim // 2,
        "group": config.num_heads // config.num_kv_heads,
        "input_rows": queries + keys + values,
        "first_key_row": queries + 1,
        "last_key_row": queries + keys,
        "last_block": config.concat_dim - config.v_head_dim + 1,
    }


def _storage(config: AttentionConfig, axes: Mapping[str, int], entry: str) -> dict[str, int]:
    """Entries and bytes of the scores, and of the cached keys and values."""
    import torch

    def stored(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=getattr(torch, entry), device="meta")

    scores = stored(axes["B"], config.num_heads, axes["T"], axes["S"])
    k = stored(axes["B"], config.num_kv_heads, axes["S"], config.head_dim)
    v = stored(axes["B"], config.num_kv_heads, axes["S"], config.v_head_dim)
    return {
        "entries": scores.numel(),
        "entry_bytes": scores.element_size(),
        "score_bytes": scores.nbytes,
        "cache_bytes": k.nbytes + v.nbytes,
    }


def _seen(num_queries: int, num_keys: int, window: int | None) -> dict[str, int]:
    """How many keys the first and the last query see in a causal call, and all together."""
    import torch

    from manyheads.core.masks import Visibility

    if num_queries * num_keys > 1 << 20:  # a card that asks for these has small sizes
        return {}
    rule = Visibility(num_queries=num_queries, num_keys=num_keys, is_causal=True, window=window)
    allowed, _ = rule.rows(0, num_queries, torch.device("cpu"))
    assert allowed is not None
    by_query = allowed.expand(num_queries, num_keys).sum(dim=-1)
    return {
        "first_sees": int(by_query[0]),
        "last_sees": int(by_query[-1]),
        "pairs_seen": int(by_query.sum()),
    }


def _slopes(num_heads: int) -> dict[str, float]:
    from manyheads.attention.positions import published_slopes

    slopes = published_slopes(num_heads)
    return {"first_slope": slopes[0], "last_slope": slopes[-1]}
