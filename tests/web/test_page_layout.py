"""The page can be read: no sideways scroll, no small print, enough contrast, no axe violation."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from manyheads.worksheets.library import worksheet_names
from tests.web.browsing import Visit, one_place_a_step, opened

SIZES = {"desktop": (1280, 720), "phone": (390, 844)}
SMALL_PRINT = """() => [...document.querySelectorAll("body *")]
  .filter((node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()))
  .filter((node) => !node.closest("noscript") && parseFloat(getComputedStyle(node).fontSize) < 12)
  .map((node) => node.outerHTML)"""
TOO_WIDE = """async () => {
  for (let frame = 0; frame < 3; frame += 1) await new Promise(requestAnimationFrame);
  const page = document.documentElement;
  const boxes = [...document.querySelectorAll(".scroll")].filter(
    (box) => box.checkVisibility() && box.scrollWidth > box.clientWidth + 1 && box.tabIndex !== 0);
  return [page.scrollWidth - page.clientWidth, boxes.length];
}"""
CELL_CONTRAST = """() => {
  const light = (text) => {
    let parts = text.match(/[\\d.]+/g).slice(0, 3).map(Number);
    if (text.startsWith("rgb")) parts = parts.map((part) => part / 255);
    const [r, g, b] = parts.map((part) =>
      part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  return [...document.querySelectorAll(".cell:not(.blocked)")].map((cell) => {
    const [a, b] = ["rect", "text"].map((name) =>
      light(getComputedStyle(cell.querySelector(name)).fill));
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  });
}"""
AXE = """async () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
  await new Promise((done) => setTimeout(done, 50));
  const report = await axe.run(document, { resultTypes: ["violations"], preload: false });
  return report.violations.map(({ id, nodes }) => [id, nodes.slice(0, 3).map((n) => n.html)]);
}"""


def visit_at(browser: Browser, static: Path, size: str, **how: Any) -> Visit:
    width, height = SIZES[size]
    viewport = {"width": width, "height": height}
    return Visit(browser, static.as_uri() + "/index.html", offline=True, viewport=viewport, **how)


@pytest.mark.parametrize("size", SIZES)
def test_nothing_scrolls_sideways_and_no_text_is_small(
    browser: Browser, static_page: Path, size: str
) -> None:
    with visit_at(browser, static_page, size) as visit:
        visit.open()
        for place in one_place_a_step():
            for numbers in ("decimals", "fractions"):
                visit.go(**place, numbers=numbers)
                assert visit.page.evaluate(TOO_WIDE) == [0, 0], place
                assert visit.page.evaluate(SMALL_PRINT) == [], place


def test_a_wide_table_scrolls_in_a_box_that_takes_the_focus(
    browser: Browser, static_page: Path
) -> None:
    with visit_at(browser, static_page, "phone") as visit:
        visit.open("#worksheet=river-and-cheque&step=rows")
        box = visit.page.locator(".scroll").first
        box.focus()
        visit.page.keyboard.press("ArrowRight")
        visit.page.wait_for_timeout(200)
        assert box.evaluate("(box) => box.scrollLeft") > 0
        assert visit.step() == "The rows X"


@pytest.fixture(scope="module")
def axe(root: Path) -> str:
    path = root / "web" / "node_modules" / "axe-core" / "axe.min.js"
    if not path.is_file():
        pytest.skip(f"no {path}: run `make page` or `npm ci` in web/")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_axe_finds_no_violation(
    browser: Browser, static_page: Path, axe: str, size: str, theme: Any
) -> None:
    places = [p for p in one_place_a_step() if p["worksheet"] == "river-and-cheque"]
    others = [p for p in one_place_a_step() if p["worksheet"] == "three-heads"]
    with visit_at(browser, static_page, size, color_scheme=theme, reduced_motion="reduce") as visit:
        visit.open()
        visit.page.evaluate(axe)
        for place in places + others[1::4]:
            visit.go(**place, numbers="fractions")
            assert visit.page.evaluate(AXE) == [], place


def test_axe_finds_a_planted_violation(visit: Visit, axe: str) -> None:
    visit.open()
    visit.page.evaluate(axe)
    visit.page.evaluate("document.querySelector('select').parentElement.firstChild.remove()")
    assert "select-name" in [rule for rule, _ in visit.page.evaluate(AXE)]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_weights_can_be_read_on_their_colour(visit: Visit, theme: Any) -> None:
    visit.page.emulate_media(color_scheme=theme)
    visit.open()
    for name in worksheet_names():
        for head in range(opened(name).num_heads):
            visit.go(worksheet=name, head=head + 1, step="weights")
            contrasts = visit.page.evaluate(CELL_CONTRAST)
            assert len(contrasts) >= 6
            assert min(contrasts) >= 4.5, (name, head)


def test_reduced_motion_stops_transitions(browser: Browser, static_page: Path) -> None:
    moving = "getComputedStyle(document.querySelector('.token')).transitionDuration"
    for wish, expected in (("reduce", "0s"), ("no-preference", "0.12s, 0.12s")):
        with visit_at(browser, static_page, "desktop", reduced_motion=wish) as visit:
            visit.open()
            assert visit.page.evaluate(moving) == expected
