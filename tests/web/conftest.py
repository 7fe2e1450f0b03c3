"""The built page in a browser, from a server and from disk, with every request watched."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright, sync_playwright

from manyheads.web.site import write_site
from tests.web.browsing import BROWSER_FLAGS, Visit
from tests.web.learning import NOON
from tests.web.serving import serve_command


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    """What drives the browsers."""
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="session")
def browser(playwright: Playwright, chromium: str) -> Iterator[Browser]:
    """One headless browser for all page tests."""
    browser = playwright.chromium.launch(executable_path=chromium, args=BROWSER_FLAGS)
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def served_address(static_page: Path) -> Iterator[str]:
    """Where `manyheads serve` serves the page."""
    with serve_command() as (_, address):
        yield address


@pytest.fixture(scope="session")
def site(static_page: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page as `manyheads site` writes it; to be read only."""
    folder = tmp_path_factory.mktemp("site") / "lesson"
    write_site(folder, static_page)
    return folder


@pytest.fixture(scope="session")
def from_disk(site: Path) -> str:
    """The address of the page opened from disk."""
    return site.as_uri() + "/index.html"


@pytest.fixture(scope="session")
def tab(browser: Browser, from_disk: str) -> Iterator[Visit]:
    """The tab of `visit`: a new one for each test would take most of the time of the tests."""
    visit = Visit(browser, from_disk, offline=True)
    yield visit
    visit.context.close()


@pytest.fixture
def visit(tab: Visit) -> Iterator[Visit]:
    """The page opened from disk, with the network off; it must end without errors or requests.

    The tab is shared: a test that sets its clock takes `dated_visit`.
    """
    tab.renew()
    yield tab
    tab.check()


@pytest.fixture(scope="session")
def dated_tab(browser: Browser, from_disk: str) -> Iterator[Visit]:
    """The tab of `dated_visit`, whose clock cannot be made to go again."""
    visit = Visit(browser, from_disk, offline=True)
    yield visit
    visit.context.close()


@pytest.fixture
def dated_visit(dated_tab: Visit) -> Iterator[Visit]:
    """As `visit`, at noon of a fixed day."""
    dated_tab.renew()
    dated_tab.page.clock.set_fixed_time(NOON)
    yield dated_tab
    dated_tab.check()


@pytest.fixture(scope="session")
def served_tab(browser: Browser, served_address: str) -> Iterator[Visit]:
    """The tab of `served_visit`."""
    visit = Visit(browser, served_address)
    yield visit
    visit.context.close()


@pytest.fixture
def served_visit(served_tab: Visit) -> Iterator[Visit]:
    """The page from `manyheads serve`; it must end without errors or requests elsewhere."""
    served_tab.renew()
    yield served_tab
    served_tab.check()


@pytest.fixture(scope="session")
def axe(root: Path) -> str:
    """The text of axe-core."""
    path = root / "web" / "node_modules" / "axe-core" / "axe.min.js"
    if not path.is_file():
        pytest.skip(f"no {path}: run `make page` or `npm ci` in web/")
    return path.read_text(encoding="utf-8")
