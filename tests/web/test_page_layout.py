"""The page can be read: no sideways scroll, no small print, enough contrast, no axe violation."""

from io import BytesIO
from unicodedata import normalize

import pytest
from pypdf import PdfReader

from manyheads.worksheets.library import worksheet_names
from tests.web.browsing import SIZES, Visit, at_step, every_step, one_place_a_step, opened

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


RIVER = "river-and-cheque"
WHAT_IF = "&edit=heads.0.W_Q.0.0:1/7&off=1&numbers=symbols"
LEARN = ["#learn", "#learn/quiz", "#learn/quiz/scale", "#learn/explain/one-head", "#learn/cards"]
OTHERS = ["#story", "#story/coat/3/stage", "#models", "#study", *LEARN, "#learn/log", "#teach"]
OPENED = ["#story/coat/0/presenter", at_step(RIVER, "weights") + "?why=river.output[9][0]"]


@pytest.mark.parametrize(
    ("size", "share"),
    [
        ("phone", slice(0, None, 3)),
        ("desktop", slice(1, None, 3)),
        *(pytest.param(size, slice(None), marks=pytest.mark.slow) for size in SIZES),
    ],
)
def test_nothing_scrolls_sideways_and_no_text_is_small(
    visit: Visit, size: str, share: slice
) -> None:
    visit.look(size).open()
    changed = [place + WHAT_IF for place in one_place_a_step("two-routes")]
    for place in [*OTHERS, *OPENED, *[*every_step(), *changed][share]]:
        visit.go(place)
        assert visit.page.evaluate(TOO_WIDE) == [0, 0], place
        assert visit.page.evaluate(SMALL_PRINT) == [], place


def test_a_wide_table_scrolls_in_a_box_that_takes_the_focus(visit: Visit) -> None:
    visit.look("phone").open(at_step(RIVER))
    box = visit.page.locator(".scroll").first
    box.focus()
    visit.page.keyboard.press("ArrowRight")
    visit.page.wait_for_timeout(200)
    assert box.evaluate("(box) => box.scrollLeft") > 0
    assert visit.step() == "The rows X"


@pytest.mark.parametrize(
    ("size", "theme", "share"),
    [
        ("desktop", "dark", slice(0, None, 2)),  # the two together see every place
        ("phone", "light", slice(1, None, 2)),
        *(
            pytest.param(size, theme, slice(None), marks=pytest.mark.slow)
            for size in SIZES
            for theme in ("light", "dark")
        ),
    ],
)
def test_axe_finds_no_violation(
    visit: Visit, axe: str, size: str, theme: str, share: slice
) -> None:
    changed = at_step("two-routes", "projections", head=1) + WHAT_IF
    places = [*OTHERS, *OPENED, changed, *one_place_a_step(RIVER, numbers="fractions")]
    visit.look(size, theme, motion="reduce").open()
    visit.page.evaluate(axe)
    for place in places[share]:
        visit.go(place)
        assert visit.page.evaluate(AXE) == [], place


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_violation_in_any_frame(visit: Visit, axe: str, theme: str) -> None:
    visit.look("desktop", theme).open("#story")
    visit.page.evaluate(axe)
    visit.page.keyboard.press("Escape")
    assert visit.page.evaluate(AXE) == [], "overview"
    visit.page.keyboard.press("Escape")
    before = ""
    while (now := visit.page.inner_text(".stage-count")) != before:
        assert visit.page.evaluate(AXE) == [], now
        before = now
        visit.page.keyboard.press("ArrowRight")


def test_the_open_panel_has_no_violation(visit: Visit, axe: str) -> None:
    for view in (
        "story",
        "study",
    ):  # it is the shell's: over a stage, and over a page
        visit.open(f"#{view}")
        visit.page.evaluate(axe)
        visit.page.click(".display summary")
        assert visit.page.evaluate(AXE.replace("document, {", "'header', {")) == [], view


def test_axe_finds_a_planted_violation(visit: Visit, axe: str) -> None:
    visit.open(at_step(RIVER))
    visit.page.evaluate(axe)
    visit.page.evaluate("document.querySelector('select').parentElement.firstChild.remove()")
    assert "select-name" in [rule for rule, _ in visit.page.evaluate(AXE)]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_weights_can_be_read_on_their_colour(visit: Visit, theme: str) -> None:
    visit.look("desktop", theme).open()
    for name in worksheet_names():
        for head in range(opened(name).num_heads):
            visit.go(at_step(name, "weights", head=head + 1))
            contrasts = visit.page.evaluate(CELL_CONTRAST)
            assert len(contrasts) >= 6
            assert min(contrasts) >= 4.5, (name, head)


def test_reduced_motion_stops_transitions(visit: Visit) -> None:
    moving = "getComputedStyle(document.querySelector('.token')).transitionDuration"
    for wish, expected in (("reduce", "0s"), ("no-preference", "0.12s, 0.12s")):
        visit.look(motion=wish).open(at_step(RIVER))
        assert visit.page.evaluate(moving) == expected


def test_a_page_four_times_as_large_does_not_scroll_sideways(visit: Visit) -> None:
    visit.look((320, 640)).open()
    for place in [*OTHERS, *one_place_a_step(RIVER)[::3]]:
        visit.go(place)
        assert visit.page.evaluate(TOO_WIDE)[0] == 0, place


def test_what_is_chosen_can_be_told_in_forced_colours(visit: Visit) -> None:
    visit.look(colours="active").open(at_step(RIVER, "softmax"))
    grounds = visit.page.evaluate("""() => Object.fromEntries(
      [".token", ".segments label", ".steps ol button", ".top nav a"].map((kind) => [kind,
        new Set([...document.querySelectorAll(kind)]
          .map((node) => getComputedStyle(node).backgroundColor)).size]))""")
    assert set(grounds.values()) == {2}, grounds


def test_a_step_on_paper_is_the_step_alone(visit: Visit) -> None:
    visit.open(at_step(RIVER, "softmax", off="2") + "&edit=W_O[0][0]:1/7")
    pages = PdfReader(BytesIO(visit.page.pdf(format="A4", prefer_css_page_size=True))).pages
    texts = [page.extract_text() for page in pages]
    assert texts[0].startswith("Receiver"), texts
    assert len(texts) <= 2, texts
    assert "183.244" in "".join(texts)
    words = " ".join(normalize("NFKC", " ".join(texts)).split())  # the font joins ff
    assert "changed: W_O[0][0] = 1/7, head 2 off" in words
    assert all(text.strip() for text in texts), texts
    assert all(page.mediabox.width < page.mediabox.height for page in pages)
