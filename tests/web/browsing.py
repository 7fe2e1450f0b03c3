"""Opens the page, blocks and counts what leaves its origin, and goes from place to place."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode

from playwright.sync_api import Browser, Route

from manyheads.worksheets.library import Worksheet, worksheet, worksheet_names

BROWSER_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SIZES = {"desktop": (1280, 720), "phone": (390, 844)}
SOURCE = Path(__file__).parents[2] / "web" / "src"
VIEWS = tuple(re.findall(r'{ name: "(\w+)"', (SOURCE / "app/views.ts").read_text("utf-8")))
STEPS = tuple(
    re.findall(r'^    id: "(\w+)"', (SOURCE / "worksheet/steps/index.ts").read_text("utf-8"), re.M)
)

GO = """async (fragment) => {
  if (location.hash !== fragment) {
    const arrived = new Promise((done) => addEventListener("hashchange", done, { once: true }));
    location.hash = fragment;
    await arrived;
  }
  const pause = () => new Promise((done) => setTimeout(done));
  await pause();
  while (document.querySelector("main .loading")) await pause();
}"""
COLLECT = (
    """async (fragments) => {
  const go = """
    + GO
    + """;
  const engine = "[data-quantity]";
  const words = "code, pre, kbd, option, textarea, noscript, .legend, .limits, .words"
    + ", .setting-text, .tick, .own, details > .note, [data-text]";
  const prose = "p, caption, .badge, th small, .keys .meaning, .chart .name";
  const isShown = (node) => node.checkVisibility({ visibilityProperty: true });
  const bare = () => {
    const main = document.querySelector("main");
    const walker = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) {
      const { data, parentElement: at } = walker.currentNode;
      if (at.closest(engine) || at.closest(words) || !isShown(at)) continue;
      const alone = /^\\s*[\\u2212+-]?\\d+\\s*%?\\s*$/.test(data);
      const isCell = at.closest("td, .cell, .n") && !at.closest("th, .axis, .index, .label");
      const said = data.replace(/[\\d.]+ [kM]B\\b|arXiv:[\\d.]+|CDLA-[\\w.-]+/g, "")
        .replace(/\\b0\\/1 mask|else 0\\.0\\b/g, "");
      const isCounted = main.dataset.view === "study" && !at.closest(prose)
        && /(?<![\\w.-])\\d[\\d.,]*(?![\\w-])/.test(data);
      if (/\\d[.\\/]\\d/.test(said) || (alone && isCell) || isCounted) found.push(data.trim());
    }
    return found;
  };
  const textOf = (node) => (node instanceof HTMLInputElement ? node.value : node.textContent);
  const found = [];
  for (const fragment of fragments) {
    await go(fragment);
    for (const details of document.querySelectorAll("main details")) details.open = true;
    await new Promise((done) => setTimeout(done));
    const shown = [...document.querySelectorAll(`main ${engine}`)].map((node) => [
      node.dataset.quantity, node.dataset.value, textOf(node), "former" in node.dataset,
    ]);
    found.push([location.hash, shown, bare()]);
  }
  return found;
}"""
)
"""Goes to places; for each: the address, all named numbers, and numbers without a name.

A number without a name is a decimal or a fraction in the text of the page, or a whole number alone
in a cell of a table or drawing, unless it stands in code or a legend, or names a row or a column;
of a study any number that is not part of a word, outside sentences, badges and ticks of its charts.
Sizes of files, licences, a fault's own words (`0/1 mask`, `else 0.0`) and what learners wrote or
did (`.own`) are no numbers of an engine. Sentences under `data-text` are compared as a whole
elsewhere.
"""


READY = """() => document.querySelector("main h2") !== null
  && document.querySelector("main .loading") === null"""


class Shown(NamedTuple):
    """One number on the page."""

    quantity: str
    value: str
    text: str
    is_former: bool


@cache
def opened(name: str) -> Worksheet:
    """A worksheet, read once."""
    return worksheet(name)


def steps_of(name: str) -> list[str]:
    """The steps of one worksheet, in order."""
    sheet = opened(name)
    left_out = set() if sheet.has_residual else {"residual"}
    left_out |= set() if sheet.prediction else {"prediction"}
    left_out |= set() if sheet.is_causal else {"mask"}
    return [step for step in STEPS if step not in left_out]


def at_step(name: str, step: str = "rows", sequence: str | None = None, **query: Any) -> str:
    """The address of a step of a worksheet; heads and receivers count from 1."""
    sequence = sequence or opened(name).sequence_names[0]
    tail = "?" + urlencode(query) if query else ""
    return f"#worksheet/{name}/{sequence}/{step}{tail}"


def worksheet_places(name: str, *receivers: int, **query: Any) -> Iterator[str]:
    """Every sequence, head and step of a worksheet, at some receivers (0 is the last) or at all."""
    sheet = opened(name)
    for sequence in sheet.sequences:
        last = len(sequence.tokens)
        for receiver in sorted({r % last or last for r in receivers} or range(1, last + 1)):
            for head in range(1, sheet.num_heads + 1):
                for step in steps_of(name):
                    given = {"head": head, "receiver": receiver, **query}
                    yield at_step(name, step, sequence.name, **given)


def one_place_a_step(name: str, sequence: int = -1, **query: Any) -> list[str]:
    """Every step of a worksheet once; the last sequence, head and receiver unless given."""
    sheet = opened(name)
    given = {"head": sheet.num_heads, **query}
    return [at_step(name, step, sheet.sequence_names[sequence], **given) for step in steps_of(name)]


def every_step() -> list[str]:
    """Every step of every worksheet once."""
    return [place for name in worksheet_names() for place in one_place_a_step(name)]


class Visit:
    """One tab; on leaving, it must have had no error and no request to another origin."""

    def __init__(self, browser: Browser, address: str, *, offline: bool = False) -> None:
        self.address = address
        self.origin = address.rsplit("/", 1)[0] + "/"
        self.errors: list[str] = []
        self.strangers: list[str] = []
        width, height = SIZES["desktop"]
        self.context = browser.new_context(viewport={"width": width, "height": height})
        self.is_changed = False
        self.context.route("**/*", self._watch)
        self.context.set_offline(offline)
        self.page = self.context.new_page()
        self.context.on("page", self._listen)
        self._listen(self.page)

    def _listen(self, page: Any) -> None:
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("websocket", lambda socket: self.strangers.append(socket.url))

    def _watch(self, route: Route) -> None:
        if route.request.url.startswith((self.origin, "blob:", "data:")):
            route.continue_()
        else:
            self.strangers.append(route.request.url)
            route.abort()

    def _hear(self, message: Any) -> None:
        # Chromium itself warns of this where the page asks whether there is a graphics adapter.
        if message.type in ("error", "warning") and message.text != "No available adapters.":
            self.errors.append(message.text)

    def renew(self) -> None:
        """Leave the page without records, errors and further windows, for another test."""
        for page in self.context.pages[1:]:
            page.close()
        self.page.mouse.move(0, 0)
        if self.is_changed:
            self.look()
            self.is_changed = False
        self.page.goto(self.origin + "icon.svg")
        self.page.evaluate("localStorage.clear()")
        self.errors.clear()
        self.strangers.clear()

    def check(self) -> None:
        """Fail if the page had an error, or asked for something outside its origin."""
        assert not self.errors, self.errors
        assert not self.strangers, self.strangers

    def open(self, fragment: str = "") -> Self:
        """Load the page again at a fragment."""
        if self.page.url.startswith(self.address):  # a new fragment alone would load nothing
            self.page.goto("about:blank")
        self.page.goto(self.address + fragment)
        self.page.wait_for_function(READY)
        return self

    def look(
        self,
        size: str | tuple[int, int] = "desktop",
        theme: Any = "light",
        motion: Any = "no-preference",
        colours: Any = "none",
        media: Any = "null",
    ) -> Self:
        """Set the size of the window and the user's wishes; `renew` takes them back."""
        width, height = SIZES[size] if isinstance(size, str) else size
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(
            media=media, color_scheme=theme, reduced_motion=motion, forced_colors=colours
        )
        self.is_changed = True
        return self

    def go(self, fragment: str) -> None:
        """Move to a place without loading the page again."""
        self.page.evaluate(GO, fragment)

    def shown(self, fragments: Sequence[str]) -> set[Shown]:
        """Go to places and read all their numbers, each of which must have a name."""
        seen = set()
        for fragment, numbers, bare in self.page.evaluate(COLLECT, list(fragments)):
            assert bare == [], f"{fragment} shows numbers without a name and a value: {bare}"
            seen |= {Shown(*entry) for entry in numbers}
        return seen

    def view(self) -> str:
        """The view that is shown, as the header marks it."""
        return self.page.inner_text("header.top [aria-current=page]").lower()

    def step(self) -> str:
        """The step in focus, as the list of steps marks it."""
        return (
            self.page.inner_text(".steps [aria-current=step]").split("\n")[-1].strip(" 0123456789")
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.context.close()
        if kind is None:
            self.check()
