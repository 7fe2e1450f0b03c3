"""Places: written and read, each way, and refused where they are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.core.errors import WorksheetError
from manyheads.worksheets.places import found, joined, parsed, written


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("heads[0].W_Q[3][1]", ("heads", 0, "W_Q", 3, 1)),
        ("heads.0.W_Q[3][1]", ("heads", 0, "W_Q", 3, 1)),
        ("scale", ("scale",)),
        ('token_embedding["to be"][1]', ("token_embedding", "to be", 1)),
        ('token_embedding["a\\"].b"]', ("token_embedding", 'a"].b')),
        ("sequences.long-name.X[0][1]", ("sequences", "long-name", "X", 0, 1)),
        (
            "token_embedding.caf\N{LATIN SMALL LETTER E WITH ACUTE}[0]",
            ("token_embedding", "café", 0),
        ),
    ],
)
def test_place_is_read(text: str, keys: tuple) -> None:
    assert parsed(text) == keys
    assert parsed(written(keys)) == keys


keys = st.lists(st.text(min_size=1, max_size=20) | st.integers(0, 999999), max_size=4)


@given(st.text("abcXYZ_", min_size=1, max_size=9), keys)
def test_what_is_written_reads_back(first: str, others: list) -> None:
    assert parsed(written((first, *others))) == (first, *others)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "[0]x",
        "a..b",
        "a[",
        "a[-1]",
        "a[1",
        "a[01234567]",
        'a["b]',
        "a b",
        "0.a",
        "a" * 301,
    ],
)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(WorksheetError, match=r"place \(.*\) cannot be read"):
        parsed(text)


def test_place_of_300_characters_is_read_and_a_key_of_40_is_written_whole() -> None:
    assert parsed("a" * 300) == ("a" * 300,)
    assert joined("x", "a" * 40) == "x." + "a" * 40
    assert joined("x", "a" * 41) == 'x["' + "a" * 37 + '..."]'
    assert joined("x", " " + "a" * 39) == 'x[" ' + "a" * 39 + '"]'
    assert joined("x", " " + "a" * 40) == 'x[" ' + "a" * 36 + '..."]'


def test_what_stands_there_is_found_or_named() -> None:
    document = {"a": [1, {"b": 2}]}
    assert found(document, ("a", 1, "b")) == 2
    for path, message in (
        (("c",), r"c does not exist: the worksheet has a"),
        (("a", 2), r"a\[2\] does not exist: a has 2 entries, use a\[0\] to a\[1\]"),
        (("a", "b"), r"a\.b does not exist: a has 2 entries"),
        (("a", 0, 0), r"a\[0\]\[0\] has an index into a single value: use a\[0\]"),
        (("a", 1, "c"), r"a\[1\]\.c does not exist: a\[1\] has b"),
    ):
        with pytest.raises(WorksheetError, match=message):
            found(document, path)
