"""The page on the power of the judge shows what the tool measures."""

import pytest

from manyheads.practice.task import task
from tools.practice_power import PAGE, page, passes_allclose


@pytest.mark.slow
def test_page_is_what_the_tool_measures() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_one_allclose_accepts_a_wrong_answer() -> None:
    one = task("scores")
    assert passes_allclose(one, "def scores(q, k):\n    return q @ k[:1].mT\n")
    assert not passes_allclose(one, "def scores(q, k):\n    return k @ q.mT\n")
