"""The built page in a browser, from a server and from disk, with every request watched."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.web.browsing import BROWSER_FLAGS, Visit
from tests.web.serving import serve_command


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    """One headless browser for all page tests."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=BROWSER_FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def served_address(static_page: Path) -> Iterator[str]:
    """Where `manyheads serve` serves the page."""
    with serve_command() as (_, address):
        yield address


@pytest.fixture
def visit(browser: Browser, static_page: Path) -> Iterator[Visit]:
    """The page opened from disk, with the network off; it must end without errors or requests."""
    with Visit(browser, static_page.as_uri() + "/index.html", offline=True) as visit:
        yield visit
