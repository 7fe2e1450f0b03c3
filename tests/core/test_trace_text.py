"""Printed traces: readable, within 80 columns whatever the sizes, and safe as HTML."""

import math
from html.parser import HTMLParser

import pytest
import torch

import manyheads as mh
from manyheads.core.trace_text import html_from_tensors, text_from_tensors
from tests.factories import inputs_of, layer_of

SMALL_TRACE = "\n".join([
    "AttentionTrace (loop, float64): B=1 T=2 S=2 D=2 H=1 G=1 d=2",
    "",
    "head 1 · masked_scores",
    "            key 1    key 2",
    "  -------  ------  -------",
    "  query 1  0.0000  blocked",
    "  query 2  0.0000   0.0000",
    "",
    "head 1 · attn_weights",
    "            key 1   key 2",
    "  -------  ------  ------",
    "  query 1  1.0000  0.0000",
    "  query 2  0.5000  0.5000",
    "",
    "head 1 · head_outputs",
    "            dim 1    dim 2",
    "  -------  ------  -------",
    "  query 1  1.0000  -3.0000",
    "  query 2  1.5000  -1.2500",
    "",
    "head 1 · head_contributions",
    "            dim 1    dim 2",
    "  -------  ------  -------",
    "  query 1  2.0000  -6.0000",
    "  query 2  3.0000  -2.5000",
    "",
    "output",
    "            dim 1    dim 2",
    "  -------  ------  -------",
    "  query 1  2.0000  -6.0000",
    "  query 2  3.0000  -2.5000",
])  # fmt: skip


def test_small_trace_by_hand() -> None:
    one = torch.eye(2, dtype=torch.float64)[None]
    weights = mh.HeadWeights(w_q=0 * one, w_k=one, w_v=one, w_o=2 * one)
    layer = mh.MultiHeadAttention.from_weights(weights, form="loop")
    trace = layer.trace(
        torch.tensor([[[1.0, -3.0], [2.0, 0.5]]], dtype=torch.float64), is_causal=True
    )
    assert str(trace) == repr(trace) == SMALL_TRACE


SIZES = [
    {"queries": 1, "keys": 1},
    {"queries": 40, "keys": 300},
    {"queries": 3, "keys": 4, "embed_dim": 300, "num_heads": 30, "head_dim": 10},
    {"queries": 13, "keys": 9, "batch": 7},
]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("magnitude", [1e-9, 1.0, 123.0, 1e6, 1e120])
def test_printed_trace_fits_80_columns(sizes: dict[str, int], magnitude: float) -> None:
    sizes = dict(sizes)
    shape = [sizes.pop(name, 2) for name in ("queries", "keys", "batch")]
    layer = layer_of(
        **{"embed_dim": 8, "num_heads": 2, "head_dim": 3} | sizes, form="packed", scale=1e-130
    )
    inputs = [magnitude * x for x in inputs_of(layer, shape[0], shape[1], batch=shape[2])]
    text = str(layer.trace(*inputs, is_causal=True))
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.splitlines()) < 700
    assert all(line == line.rstrip() for line in text.splitlines())


def test_title_of_enormous_sizes_is_wrapped() -> None:
    sizes = {"B": 10**6, "H": 10**5, "T": 1, "d": 1, "S": 1}
    q = torch.zeros(1, 1, 1, 1).expand(sizes["B"], sizes["H"], 1, 1)
    tensors = {"q": q, "k": q, "output": q[:, 0].expand(-1, -1, 10**6)}
    tensors |= {
        n: q for n in ("masked_scores", "attn_weights", "head_outputs", "head_contributions")
    }
    lines = text_from_tensors("packed", tensors).splitlines()
    assert max(map(len, lines)) <= 80
    assert "D=1000000" in lines[0] + lines[1]
    assert "sample 1 of 1000000 shown; heads 9 to 100000 left out" in lines


def test_what_is_left_out_is_said() -> None:
    layer = layer_of(form="packed")
    text = str(layer.trace(*inputs_of(layer, 20, 30, batch=3)))
    assert "sample 1 of 3 shown" in text
    assert "(rows 1 to 8 left out; columns 8 to 30 left out)" in text
    assert "query 20" in text
    assert "query 8 " not in text
    assert "head 6 · attn_weights" in text


def test_zero_small_and_special_numbers_can_be_told_apart() -> None:
    row = torch.tensor([[[[0.0, 1e-7, -12345.678, math.nan, math.inf, -math.inf]]]])
    tensors = dict.fromkeys(
        ("masked_scores", "attn_weights", "head_outputs", "head_contributions"), row
    )
    text = text_from_tensors("loop", tensors | {"q": row, "k": row, "output": row[0]})
    assert "0.0000 1.00e-07 -12345.6777 nan inf blocked" in " ".join(text.split())


def text_of(rows: int, columns: int, value: float = 0.0, heads: int = 1, batch: int = 1) -> str:
    """The text of a trace whose matrices all hold one number."""
    matrix = torch.full((batch, heads, rows, columns), value, dtype=torch.float64)
    names = "q k masked_scores attn_weights head_outputs head_contributions"
    return text_from_tensors(
        "loop", dict.fromkeys(names.split(), matrix) | {"output": matrix[:, 0]}
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (5e-5, "0.0001"),
        (4.99e-5, "4.99e-05"),
        (-4.99e-5, "-4.99e-05"),
        (99998.9, "99998.9000"),
        (99999.0, "1.00e+05"),
        (-99999.0, "-1.00e+05"),
    ],
)
def test_numbers_have_four_places_from_a_twenty_thousandth_to_99999(
    value: float, shown: str
) -> None:
    assert text_of(1, 1, value).split()[-1] == shown


@pytest.mark.parametrize(
    ("sizes", "note"),
    [
        ({"rows": 12, "columns": 1}, None),
        ({"rows": 13, "columns": 1}, "rows 1 to 1 left out"),
        ({"rows": 1, "columns": 8}, None),
        ({"rows": 1, "columns": 9}, "columns 9 to 9 left out"),
        ({"rows": 1, "columns": 1, "heads": 8}, None),
        ({"rows": 1, "columns": 1, "heads": 9}, "heads 9 to 9 left out"),
        ({"rows": 1, "columns": 1, "batch": 2}, "sample 1 of 2 shown"),
    ],
    ids=str,
)
def test_nothing_is_left_out_up_to_12_rows_8_columns_and_8_heads(
    sizes: dict[str, int], note: str | None
) -> None:
    text = text_of(**sizes, value=math.inf)  # as narrow as its heading: nine columns would fit
    assert (note in text) if note else "left out" not in text and "sample" not in text


class Cells(HTMLParser):
    """Collects tags and text, and notices tags that are not closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.seen: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_html_shows_the_same_numbers_as_the_text() -> None:
    layer = layer_of(form="packed")
    trace = layer.trace(*inputs_of(layer, 3, 4), is_causal=True)
    page = Cells(trace._repr_html_())
    assert not page.open
    text = str(trace)
    for word in page.words:
        assert word.split(" (")[0] in text
    assert page.words.count("blocked") == text.count("blocked") > 0
    assert "sample 1 of 2 shown" in page.words


def test_html_escapes_what_it_is_given() -> None:
    layer = layer_of(form="packed")
    tensors = layer.trace(*inputs_of(layer, 3, 4)).tensors()
    page = html_from_tensors("<script>alert(1)</script>&", tensors)
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&amp;" in page
    assert Cells(page).seen == {
        "div",
        "p",
        "strong",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
    }
