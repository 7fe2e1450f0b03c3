"""Text from outside is shown on one line, in printable characters, at a bounded length."""

import pytest

from manyheads.core.text import brief, printable, quoted


def test_control_characters_are_shown_as_escapes() -> None:
    assert printable("a\x1b[2Jb\n") == "a\\x1b[2Jb\\x0a"


@pytest.mark.parametrize(("length", "cut"), [(79, False), (80, False), (81, True), (5000, True)])
def test_a_text_is_cut_beyond_its_limit_only(length: int, cut: bool) -> None:
    assert brief("x" * length) == ("x" * 77 + "..." if cut else "x" * length)


@pytest.mark.parametrize(("length", "cut"), [(38, False), (39, True)])
def test_a_quoted_value_counts_its_quotes(length: int, cut: bool) -> None:
    shown = quoted("x" * length)
    assert shown == (repr("x" * 38)[:37] + "..." if cut else repr("x" * length))
    assert len(shown) == 40


def test_escapes_count_towards_the_limit() -> None:
    assert len(brief("\x00" * 50)) == 80


def test_an_integer_that_python_does_not_write_is_described() -> None:
    assert quoted(10**5000) == "a very long number"
