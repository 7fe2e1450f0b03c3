"""The page "power of the checks" has the numbers that the examples give today."""

import re

import pytest

from manyheads.faults import FAULT_KINDS
from tests.factories import annotations_unchecked, mostly_slow
from tests.house.sources import ROOT
from tools.museum.examples import fault_examples
from tools.power.pages import COLUMNS, line_of, page
from tools.power.ways import WAYS, accepts, as_written, judged, sound_example

PAGE = ROOT / "docs" / "power.md"
SAMPLE = ("softmax-axis", "scale", "cross-source", "fully-masked-row")


def lines() -> list[str]:
    return PAGE.read_text(encoding="utf-8").splitlines()


def cells_of(fault: str) -> list[str]:
    (line,) = (line for line in lines() if line.startswith(f"| `{fault}` |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_page_has_a_row_for_every_fault() -> None:
    names = [line.split("`")[1] for line in lines() if line.startswith("| `")]
    assert names == list(FAULT_KINDS)


@pytest.mark.parametrize("fault", mostly_slow(SAMPLE, "scale"))
def test_row_of_the_page_is_what_is_measured(fault: str) -> None:
    with annotations_unchecked():  # thousands of small calls
        assert line_of(fault) in lines()


@pytest.mark.slow
def test_page_is_up_to_date() -> None:
    with annotations_unchecked():
        assert page() == PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("column", COLUMNS)
def test_shares_count_the_rows(column: str) -> None:
    (line,) = (line for line in lines() if re.match(rf"\| {column} \| \d+ of", line))
    through, asked = map(int, re.findall(r"(\d+) of (\d+)", line)[0])
    cells = [cells_of(fault)[COLUMNS.index(column)] for fault in FAULT_KINDS]
    assert through == sum(cell in ("accepts", "sound") for cell in cells)
    assert asked == sum(cell != "–" for cell in cells)


@pytest.mark.parametrize("kind", mostly_slow(["self", "grouped", "padding", "cache"], "padding"))
def test_correct_module_is_accepted_in_every_way(kind: str) -> None:
    example = sound_example(kind)
    with annotations_unchecked():
        assert [name for name in WAYS if not accepts(name, example)] == []
        assert judged(example, is_declared=False).verdict == "sound"


@pytest.mark.parametrize("name", WAYS)
def test_each_way_rejects_some_fault_but_the_shape(name: str) -> None:
    faults = ("softmax-axis", "attends-over-heads", "mask-after-softmax")
    with annotations_unchecked():
        refuses = any(accepts(name, fault_examples()[fault]) is False for fault in faults)
    assert refuses == (name != "output shape")


def test_module_has_the_arguments_of_its_declaration_only() -> None:
    module, _ = as_written(fault_examples()["cross-source"])
    with pytest.raises(TypeError, match="unexpected keyword argument 'is_causal'"):
        module(None, None, is_causal=True)
