"""The page works from a server, from any folder and from disk, by keyboard and by address."""

import functools
import gzip
import http.server
import random
import threading
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from manyheads.web.site import read_bundle, write_site
from tests.web.browsing import Visit, steps_of

BUDGET = 300_000
RIVER = "#worksheet=river-and-cheque&sequence=river"


def look_at(visit: Visit) -> None:
    """Open the page and see a number of each kind."""
    visit.open(RIVER + "&step=weights&head=1&receiver=10")
    weight = visit.page.locator('[data-quantity="river-and-cheque:river.attn_weights[0][9][5]"]')
    assert weight.first.text_content() == "0.718"
    assert visit.page.title().startswith("manyheads")
    assert visit.page.inner_text("main").count("hand-chosen numbers") == 1


def test_page_from_the_server_keeps_to_its_policy(browser: Browser, served_address: str) -> None:
    with Visit(browser, served_address) as visit:
        look_at(visit)
        visit.go(worksheet="three-heads", step="softmax")
        assert visit.step() == "Softmax"
        widths = visit.page.eval_on_selector_all(
            ".bar .fill", "bars => bars.map((bar) => bar.getBoundingClientRect().width)"
        )
        assert max(widths) > 10


def test_page_from_disk_works_with_the_network_off(visit: Visit) -> None:
    look_at(visit)


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Python's own server of files, without a log."""

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_site_works_from_a_sub_path(browser: Browser, static_page: Path, tmp_path: Path) -> None:
    write_site(tmp_path / "some" / "course", static_page)
    handler = functools.partial(QuietHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}/some/course/index.html"
            with Visit(browser, address) as visit:
                look_at(visit)
        finally:
            server.shutdown()
            thread.join()


def test_bundle_is_one_classic_script_within_its_budget(static_page: Path) -> None:
    bundle = read_bundle(static_page)
    html = bundle["index.html"].decode()
    assert '<script defer src="./assets/page.js">' in html
    assert html.count("<script") == 1
    assert 'type="module"' not in html
    assert "crossorigin" not in html
    assert "<style" not in html
    assert not any(b"fetch(" in content for content in bundle.values())
    assert sum(len(gzip.compress(content)) for content in bundle.values()) < BUDGET


def test_arrow_keys_walk_through_all_steps_and_back(visit: Visit) -> None:
    visit.open(RIVER)
    seen = [visit.step()]
    for _ in range(len(steps_of("river-and-cheque")) + 1):
        visit.page.keyboard.press("ArrowRight")
        seen.append(visit.step())
    listed = visit.page.locator(".steps li button").all_inner_texts()
    assert [name.split("\n")[-1].strip(" 0123456789") for name in listed] == seen[:-2]
    assert seen[-1] == seen[-2] == seen[-3] == "Prediction"
    visit.page.keyboard.press("ArrowLeft")
    assert visit.step() == "Add to the row"
    assert "step=residual" in visit.page.url
    visit.page.go_back()
    assert visit.step() == "Prediction"


def test_tab_reaches_every_control_and_leaves_the_page(visit: Visit) -> None:
    visit.open(RIVER + "&step=weights")
    reached = set()
    for _ in range(60):
        visit.page.keyboard.press("Tab")
        reached.add(
            visit.page.evaluate(
                "(() => { const e = document.activeElement;"
                " return e.name || e.dataset.cell || e.className || e.localName; })()"
            )
        )
        if "body" in reached:
            break
    assert {"skip", "theme", "select", "sequence", "head", "numbers", "receiver"} <= reached
    assert {"next", "9-0", "summary", "body"} <= reached


def test_focus_on_a_weight_lights_its_source_and_enter_takes_its_receiver(visit: Visit) -> None:
    visit.open(RIVER + "&step=weights&receiver=10")
    visit.page.focus('[data-cell="9-0"]')
    for key in ["ArrowRight"] * 5 + ["ArrowUp"] * 2:
        visit.page.keyboard.press(key)
    assert visit.step() == "Weights"
    assert visit.page.locator(".token.pointed").inner_text().split() == ["6", "river"]
    visit.page.keyboard.press("Enter")
    assert "receiver=8" in visit.page.url
    assert visit.page.locator(".token.chosen").inner_text().split() == ["8", "and"]


def test_pointing_at_a_number_lights_its_source(visit: Visit) -> None:
    visit.open(RIVER + "&step=message")
    assert visit.page.locator(".token.pointed").count() == 0
    visit.page.hover("tr[data-source='1'] td:nth-child(3)")
    assert visit.page.locator(".token.pointed").inner_text().split() == ["2", "fisherman"]


def test_choices_are_kept_in_the_address(visit: Visit) -> None:
    visit.open()
    visit.page.select_option("select", "river-and-cheque")
    visit.page.check("input[name=sequence][value=cheque]")
    visit.page.check("input[name=head][value='1']")
    visit.page.check("input[name=receiver][value='6']")
    visit.page.check("input[name=numbers][value=fractions]")
    address = visit.page.url
    shown = visit.page.inner_text("main")
    visit.open(address.removeprefix(visit.address))
    assert visit.page.inner_text("main") == shown
    assert "sequence=cheque&head=2&receiver=7&step=rows&numbers=fractions" in address


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_theme_can_be_chosen_against_the_system(visit: Visit, theme: str) -> None:
    visit.page.emulate_media(color_scheme="dark" if theme == "light" else "light")
    visit.open()
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    before = visit.page.evaluate(ground)
    visit.page.check(f"input[name=theme][value={theme}]")
    assert visit.page.evaluate(ground) != before
    visit.page.check("input[name=theme][value=auto]")
    assert visit.page.evaluate(ground) == before


def bad_fragments(count: int) -> list[str]:
    """Fragments that are damaged in every place, the same on every run."""
    chance = random.Random(20)
    names = ["worksheet", "sequence", "head", "receiver", "step", "numbers", "x", "__proto__", ""]
    values = ["three-heads", "river", "-1", "0", "11", "1e9", "NaN", "weights", "prediction", "%"]
    values += ["%E0%A4%A", "<b>", "\u202e\u0000", "constructor", "9" * 400, "", "=&=", "river.x[0]"]
    return [
        "#"
        + "&".join(
            f"{chance.choice(names)}={chance.choice(values)}" for _ in range(chance.randint(0, 7))
        )
        + chance.choice(["", "&", "#", "%"])
        for _ in range(count)
    ]


def test_no_fragment_breaks_the_page(visit: Visit) -> None:
    visit.open()
    for fragment in bad_fragments(50):
        visit.page.evaluate("(fragment) => { location.hash = fragment; }", fragment)
        visit.page.wait_for_timeout(5)
        assert visit.page.locator("main .figure .num").count() > 0, fragment
    for fragment in bad_fragments(6):
        visit.open(fragment)
        assert visit.page.locator("main .figure .num").count() > 0, fragment
