"""Opens the page, blocks and counts what leaves its origin, and goes from place to place."""

from functools import cache
from types import TracebackType
from typing import Any, Self
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
STEPS = (
    *("rows", "projections", "dots", "scale", "mask", "softmax", "weights", "message"),
    *("concat", "output", "contributions", "residual", "prediction"),
)

GO = """async (fragment) => {
  if (location.hash !== fragment) {
    const arrived = new Promise((done) => addEventListener("hashchange", done, { once: true }));
    location.hash = fragment;
    await arrived;
  }
  await new Promise((done) => setTimeout(done));
}"""


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


def all_places() -> list[dict[str, Any]]:
    """Every sequence, head, receiver and step of every worksheet, as fragments name them."""
    return [
        {
            "worksheet": name,
            "sequence": sequence.name,
            "head": head + 1,
            "receiver": receiver + 1,
            "step": step,
        }
        for name in worksheet_names()
        for sequence in opened(name).sequences
        for head in range(opened(name).num_heads)
        for receiver in range(len(sequence.tokens))
        for step in steps_of(name)
    ]


def one_place_a_step() -> list[dict[str, Any]]:
    """Every step of every worksheet once: the last sequence, head and receiver."""
    return list({(place["worksheet"], place["step"]): place for place in all_places()}.values())


class Visit:
    """One tab; on leaving, it must have had no error and no request to another origin."""

    def __init__(
        self, browser: Browser, address: str, *, offline: bool = False, **how: Any
    ) -> None:
        self.address = address
        self.origin = address.rsplit("/", 1)[0] + "/"
        self.errors: list[str] = []
        self.strangers: list[str] = []
        self.context = browser.new_context(**({"viewport": {"width": 1280, "height": 720}} | how))
        self.context.route("**/*", self._watch)
        self.context.set_offline(offline)
        self.page = self.context.new_page()
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _watch(self, route: Route) -> None:
        if route.request.url.startswith(self.origin):
            route.continue_()
        else:
            self.strangers.append(route.request.url)
            route.abort()

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def open(self, fragment: str = "") -> Self:
        """Load the page anew at a fragment."""
        self.page.goto("about:blank")
        self.page.goto(self.address + fragment)
        self.page.wait_for_selector("h2")
        return self

    def go(self, **place: Any) -> None:
        """Move to a place without loading the page again."""
        self.page.evaluate(GO, "#" + urlencode(place))

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
            assert not self.errors, self.errors
            assert not self.strangers, self.strangers
