"""How fast the page loads, repaints and generates stories: `python -m benchmarks.page`.

A headless Chromium opens the page that `manyheads serve` serves; build it before (`make page`).
"""

import argparse
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, sync_playwright

from manyheads.web.site import STATIC

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
WORKSHEET = "#worksheet/river-and-cheque/river/projections?head=1&receiver=10"
GIVEN = "river-and-cheque:heads.0.W_Q[3][1]"
FIRST_VIEW = """() => new Promise((done) => {
  const watch = () => {
    const isThere = document.querySelector("main h2") && document.readyState === "complete";
    const paint = performance.getEntriesByName("first-contentful-paint")[0];
    if (!isThere || !paint) return requestAnimationFrame(watch);
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => done([paint.startTime, performance.now()]);
    port2.postMessage(0);
  };
  watch();
})"""
"""Milliseconds from the navigation to the first paint with content, and until the page is whole and
its thread is free, so that an event is answered."""
EDITS = """async ([selector, count]) => {
  const field = document.querySelector(selector);
  field.focus();
  const free = () => new Promise((done) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = done;
    port2.postMessage(0);
  });
  const found = [];
  for (let at = 0; at < count + 5; at += 1) {
    await new Promise((done) => setTimeout(done, 40));
    await new Promise(requestAnimationFrame);
    field.value = String(1 + at / 8);
    const begun = performance.now();
    field.dispatchEvent(new InputEvent("input", { bubbles: true }));
    await free();
    await new Promise(requestAnimationFrame);
    const frame = performance.now() - begun;
    if (at >= 5) found.push(frame);
  }
  return found;
}"""
WORK = """async ([selector, count]) => {
  const field = document.querySelector(selector);
  field.focus();
  const found = [];
  for (let at = 0; at < count + 5; at += 1) {
    await new Promise((done) => setTimeout(done, 40));
    field.value = String(1 + at / 8);
    const begun = performance.now();
    field.dispatchEvent(new InputEvent("input", { bubbles: true }));
    await Promise.resolve();
    document.body.getBoundingClientRect();
    if (at >= 5) found.push(performance.now() - begun);
  }
  return found;
}"""

TRANSFERRED = """() => [
  ...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource"),
].map(({ encodedBodySize }) => encodedBodySize)"""
SWITCH = """async (states) => {
  const select = document.querySelector('article[data-head="2"] select');
  const found = [];
  for (const state of states) {
    await new Promise((done) => setTimeout(done, 500));
    const begun = performance.now();
    select.value = state;
    select.dispatchEvent(new Event("change", { bubbles: true }));
    const wanted = `.heads [data-heads="own,own,${state},own"]`;
    while (!document.querySelector(wanted)) await new Promise((done) => setTimeout(done, 1));
    await new Promise(requestAnimationFrame);
    const { port1, port2 } = new MessageChannel();
    const free = new Promise((done) => { port1.onmessage = done; });
    port2.postMessage(0);
    await free;
    found.push(performance.now() - begun);
  }
  return found;
}"""
TEXT = (
    "Once upon a time there was a little girl named Lily. She liked to play in the park. One day, "
    "she saw a big dog near the tree. The dog was sad and did not have a home. Lily said, hello! "
    "Do you want to be my friend? The dog wagged its tail and they went to her house."
)
"""More words and marks than a window holds."""


@contextmanager
def served() -> Iterator[str]:
    """`manyheads serve` on a free port; its address."""
    command = [sys.executable, "-m", "manyheads.cli.main", "serve", "--port", "0", "--no-open"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+/", process.stdout.readline())
            if not found:
                raise SystemExit("manyheads serve did not say where it serves: run it by hand")
            yield found.group()
        finally:
            process.terminate()


@contextmanager
def page_at(browser: Browser, address: str) -> Iterator[Page]:
    """A page in a new context with an empty cache."""
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    page = context.new_page()
    page.goto(address)
    try:
        yield page
    finally:
        context.close()


def print_line(name: str, values: list[float], unit: str, bar: str) -> None:
    """Print a median with its range and the limit."""
    low, middle, high = min(values), statistics.median(values), max(values)
    digits = 0 if middle >= 100 else 1
    print(
        f"  {name:<34} {middle:8.{digits}f} {unit}  [{low:.{digits}f}, {high:.{digits}f}]"
        f"  n = {len(values)}  limit {bar}"
    )


def first_view(browser: Browser, address: str, repeats: int) -> None:
    """Print how long a visitor with an empty cache waits."""
    found = []
    for _ in range(repeats):
        with page_at(browser, address) as page:
            found.append(page.evaluate(FIRST_VIEW))
    print_line("first contentful paint", [paint for paint, _ in found], "ms", "1000 ms")
    print_line("interactive", [ready for _, ready in found], "ms", "1000 ms")


def repaint(browser: Browser, address: str, repeats: int) -> None:
    """Print how long an edit of the ten-token worksheet takes."""
    with page_at(browser, address + WORKSHEET) as page:
        selector = f'input[data-quantity="{GIVEN}"]'
        page.wait_for_selector(selector)
        work = page.evaluate(WORK, [selector, repeats])
        frames = page.evaluate(EDITS, [selector, repeats])
    print_line("edit: update and layout", work, "ms", "16 ms")
    print_line("edit: input event to next frame", frames, "ms", "16 ms and a frame's wait")


def words_a_second(page: Page, button: str, names: list[str]) -> list[float]:
    """Press a button and read the speed of each named model; none for a short story."""
    page.get_by_role("button", name=button, exact=True).click()
    page.wait_for_timeout(50)
    page.wait_for_function("() => !document.querySelector('.written[aria-busy=true]')")
    found = []
    for name in names:
        rate = page.locator(f'[data-quantity="{name}:tokens_per_second"]')
        if rate.count():
            found.append(float(rate.get_attribute("data-value") or "nan"))
    return found


def stories(browser: Browser, address: str, repeats: int) -> None:
    """Print words per second of each model alone, and of all at once."""
    with page_at(browser, address + "#models/length=200") as page:
        page.get_by_role("button", name="Load all models").click()
        page.wait_for_function("() => document.querySelectorAll('.card table.next').length === 3")
        rates = page.locator('[data-quantity$=":parameters"]').evaluate_all(
            "(nodes) => nodes.map(({ dataset }) => dataset.quantity.split(':')[0])"
        )
        names = list(dict.fromkeys(rates))
        alone: dict[str, list[float]] = {name: [] for name in names}
        together: dict[str, list[float]] = {name: [] for name in names}
        for seed in range(repeats):
            page.evaluate(f"location.hash = '#models/length=200&seed={seed}'")
            page.wait_for_timeout(100)
            for name in names:
                alone[name] += words_a_second(page, f"Continue with {name}", [name])
            found = words_a_second(page, "Continue with all models", names)
            for name, rate in zip(names, found, strict=False):
                together[name].append(rate)
    for name in names:
        print_line(f"{name}, alone", alone[name], "words/s", "200")
        print_line(f"{name}, all three at once", together[name], "words/s", "200")


def grids(browser: Browser, address: str, repeats: int) -> None:
    """Print how long four grids of 64 words take to redraw when a head is switched."""
    place = f"#models/{urlencode({'text': TEXT, 'look': 'four-heads'})}"
    with page_at(browser, address + place) as page:
        page.get_by_role("button", name="Load all models").click()
        whole = "() => document.querySelectorAll('svg.weights [data-quantity]').length === 4 * 2080"
        page.wait_for_function(whole)
        states = [("off", "uniform")[turn % 2] for turn in range(repeats)]
        found = page.evaluate(SWITCH, states)
    print_line("switch a head, 4 grids of 64 words", found, "ms", "-")


def weight(browser: Browser, address: str) -> None:
    """Print the bytes of the first view, compressed as the server sends them."""
    with page_at(browser, address) as page:
        page.wait_for_load_state("networkidle")
        sizes = page.evaluate(TRANSFERRED)
    print(
        f"  {'first view, sent':<34} {sum(sizes) / 1000:8.1f} kB  {len(sizes)} files  limit 300 kB"
    )


def main() -> None:
    """Print medians, ranges and what they depend on."""
    parser = argparse.ArgumentParser(description="the page's speed in headless Chromium")
    parser.add_argument("--repeats", type=int, default=30, help="edits; a third of it elsewhere")
    parser.add_argument("--quick", action="store_true", help="a few of each: does it work at all?")
    given = parser.parse_args()
    edits, visits, told = (5, 2, 1) if given.quick else (given.repeats,) + 2 * (given.repeats // 3,)
    if not (STATIC / "index.html").is_file():
        raise SystemExit(f"no page in {STATIC}: run `make page`")
    found = [os.environ.get("MANYHEADS_CHROMIUM"), *map(shutil.which, BROWSERS)]
    chromium = next(filter(None, found), None)
    if chromium is None:
        raise SystemExit("no Chromium found: run scripts/chromium, or set MANYHEADS_CHROMIUM")
    with served() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
        print(
            f"headless Chromium {browser.version}, Python {platform.python_version()}, "
            f"{platform.machine()}, {os.cpu_count()} cores, load {load}; 1280x720; medians [range]"
        )
        weight(browser, address)
        first_view(browser, address, visits)
        repaint(browser, address, edits)
        grids(browser, address, told)
        stories(browser, address, told)
        browser.close()


if __name__ == "__main__":
    main()
