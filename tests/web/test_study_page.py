"""The studies: every number on the page stands at its path in the shipped results."""

import pytest

from tests.web.browsing import Shown, Visit
from tests.web.reckoning import check_decimals, measured, measured_number
from tools.page.study import shipped_studies


@pytest.fixture(scope="module")
def names() -> list[str]:
    """The shipped studies."""
    found = [folder.name for folder in shipped_studies()]
    if not found:
        pytest.skip("no study is shipped: run one and ship its results")
    return found


def check_results(numbers: set[Shown]) -> None:
    for quantity, value, text, _ in numbers:
        assert float(value) == measured_number(quantity), quantity
        if text and text != value:  # a point or a bar of a curve has no text; its table has
            check_decimals(quantity, value, text)


def test_every_number_of_the_studies_stands_in_their_results(
    visit: Visit, names: list[str]
) -> None:
    visit.open("#study")
    seen = visit.shown(["#study", f"#study/{names[-1]}"])
    check_results(seen)
    for name in names:
        shown = {number.quantity for number in seen if number.quantity.startswith(f"{name}:")}
        assert f"{name}:runs[0].test_loss" in shown
        assert len(shown) > 30


def test_a_bare_number_beside_the_studies_tables_is_found(visit: Visit, names: list[str]) -> None:
    visit.open("#study")
    for place in (".keys", ".matrix thead th", "summary"):
        append = "(place) => document.querySelector('.study ' + place).append(' 29')"
        visit.page.evaluate(append, place)
        with pytest.raises(AssertionError, match="without a name"):
            visit.shown(["#study"])
        remove = "(place) => document.querySelector('.study ' + place).lastChild.remove()"
        visit.page.evaluate(remove, place)
    visit.shown(["#study"])


def test_the_story_shows_the_study_s_own_numbers(visit: Visit, names: list[str]) -> None:
    visit.open("#story")
    seen = visit.shown([f"#story/study/{build}/stage" for build in range(4)])
    found = {number for number in seen if measured(number.quantity)}
    assert len(found) > 5
    check_results(found)


def test_a_number_that_is_not_the_results_is_found(names: list[str]) -> None:
    name = f"{names[0]}:runs[0].test_loss"
    value = measured_number(name)
    check_results({Shown(name, repr(value), f"{value:.4f}", False)})
    with pytest.raises(AssertionError):
        check_results({Shown(name, repr(value + 1e-9), "1", False)})
