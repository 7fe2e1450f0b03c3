"""What tests of exercises on the page do: type answers, compare sentences and names."""

import re
from collections.abc import Sequence

from playwright.sync_api import Page

from manyheads.learn.exercises import Exercise, Mark
from manyheads.learn.exercises.form import number_text
from manyheads.worksheets.sheet import Row
from tests.web.reckoning import drawn
from tools.page.exercises import SEEDS

LAST_SEED = SEEDS - 1
READ_LINES = """() => [...document.querySelectorAll("main [data-text]")].map(
  (node) => [node.dataset.text, node.textContent])"""


def place(one: Exercise) -> str:
    """Its address."""
    return f"#learn/exercises/{one.id}"


def plain(text: str) -> str:
    """A sentence without what the page writes otherwise than the terminal."""
    text = re.sub("\u221a(\\d+)", r"sqrt(\1)", text.replace("\u2212", "-").replace("\u00b7", "*"))
    return " ".join(re.sub(r"\b([Wb])_([QKVO])\b", r"\1\2", text).split())


def line_of(name: str, found: Mark | None) -> str:
    """What a sentence of an exercise must be, by its name."""
    _, ident, part = name.split(":", 2)
    kind, seed = ident.split("/")
    one = drawn(kind, int(seed))
    if part == "mark":
        assert found is not None, name
        return found.says
    if part == "prompt":
        return one.prompt
    if at := re.fullmatch(r"working\[(\d+)\]", part):
        return one.working[int(at[1])]
    (said,) = (m.says for m in one.misconceptions if f"misconception.{m.name}" == part)
    return said


def check_lines(page: Page, found: Mark | None = None) -> set[str]:
    """All sentences are the terminal's; their names."""
    lines = dict(page.evaluate(READ_LINES))
    for name, text in lines.items():
        assert plain(text) == plain(line_of(name, found)), name
    return set(lines)


def names(one: Exercise) -> dict[str, set[str]]:
    """The names of all numbers of an exercise."""
    given = {
        f"exercise:{one.id}:given.{table.name}[{r}][{c}]"
        for table in one.given
        for r, row in enumerate(table.rows)
        for c in range(len(row))
    }
    answer = {f"exercise:{one.id}:answer[{at}]" for at in range(len(one.answer))}
    wrong = {
        f"exercise:{one.id}:misconception.{item.name}[{at}]"
        for item in one.misconceptions
        for at in range(len(item.values))
    }
    return {"given": given, "open": given | answer | wrong}


def texts(numbers: Row) -> list[str]:
    """Numbers as they can be typed."""
    return [number_text(number).removeprefix("~") for number in numbers]


def answer_with(page: Page, typed: Sequence[str]) -> str:
    """Fill the fields, what is too much into the last one, and mark; the answer as one text."""
    fields = page.locator(".asked input")
    last = fields.count() - 1
    for at in range(last + 1):
        fields.nth(at).fill(typed[at] if at < min(last, len(typed)) else ", ".join(typed[last:]))
    page.get_by_role("button", name="Check").click()
    page.wait_for_function("document.querySelector('.marking p') !== null")
    return ", ".join(text for text in typed if text)
