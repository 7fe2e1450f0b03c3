"""What tests of the learn view do and ask: cards are turned, files are saved and brought in."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from tests.web.browsing import Shown
from tests.web.reckoning import check_close, check_exact, expected

REVIEWS, QUIZ, EXPLAIN = "reviews.jsonl", "quiz.jsonl", "explain.jsonl"
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def check_said(numbers: set[Shown]) -> None:
    """Numbers in sentences: exact forms, decimals, percentages."""
    for quantity, value, text, _ in numbers:
        check_close(quantity, value, expected(quantity))
        check_exact(quantity, value, text)


def kept(page: Page, name: str) -> list[dict[str, Any]]:
    """The records that the browser keeps under a file's name."""
    text = page.evaluate("(key) => localStorage.getItem(key)", f"manyheads-{name}")
    return [json.loads(line) for line in (text or "").splitlines()]


def saved(page: Page, button: str, folder: Path) -> Path:
    """The file that a button hands over."""
    with page.expect_download() as waiting:
        page.get_by_role("button", name=button).click()
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def turn(page: Page) -> str | None:
    """Turn the card that is asked; None where none is."""
    card = page.locator("[data-card]")
    if card.count() == 0:
        return None
    page.locator("[data-show]").click()
    name = card.get_attribute("data-card")
    assert name
    return name


def bring_in(page: Page, content: bytes) -> str:
    """Bring a file in; what the page says of it."""
    page.set_input_files(
        "input[type=file]",
        {"name": "some.jsonl", "mimeType": "text/plain", "buffer": content},
    )
    said = page.locator(".keeping > .note")
    expect(said).not_to_be_empty()
    return said.inner_text()
