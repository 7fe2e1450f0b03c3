"""The story: every number is worked out again, every frame fits its stage, in every build."""

import math
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from manyheads.worksheets.arithmetic import float_of
from tests.web.browsing import GO, Shown, Visit, opened
from tests.web.reckoning import (
    SOLVED,
    answers,
    check_close,
    check_exact,
    expected,
    indices_of,
    measured,
    measured_number,
)

SHAPE = re.compile(r"shape:([\w-]+):([\w-]+)\.(\w+)\[(\d)\]")
COMPUTED = re.compile(r"([a-z-]+:[a-z-]+)((?:\[\d+\])*)")
VALUES, WEIGHTS = np.array([[10, 1], [2, 8]]), np.array([[0.8, 0.2], [0.2, 0.8]])
MESSAGES = WEIGHTS @ VALUES
CLS = np.array([2, 0, 1, -1])
CLASSES = np.array([[1, 0, 0], [0, 1, 0], [0.5, 0, 1], [0, 1, 0.5]])
WIDTH, CONTEXT = 64, 64
"""Of the study's models."""
PLAIN: dict[str, Any] = {
    "two-source:values": VALUES,
    "two-source:weights": WEIGHTS,
    "two-source:one-head": MESSAGES,
    "two-source:message": np.diagonal(MESSAGES),
    "layer:weights": 4 * 4 * 4,
    "layer:biases": 4 * 4,
    "layer:parameters": 80,
    "layer:in-proj-weight": 12 * 4,
    "layer:in-proj-bias": 12,
    "layer:out-proj-weight": 4 * 4,
    "layer:out-proj-bias": 4,
    "mask:allowed": sum(range(1, 11)),
    "mask:blocked": 100 - sum(range(1, 11)),
    "accounting:width": WIDTH,
    "accounting:context": CONTEXT,
    "accounting:parameters": 4 * WIDTH * WIDTH,
    "patches:pixels": 64,
    "patches:count": 4,
    "patches:numbers": 16,
    "patches:rows": 5,
    "patches:width": 4,
    "patches:embedding": 64,
    "patches:scores": 50,
    "one:row": 1,
    "window:size": 6,
    "model:inputs": CONTEXT * WIDTH,
    "model:hidden": 256,
    "model:mlp-weights": CONTEXT * WIDTH * 256,
    "model:hidden-weights": WIDTH * 256,
    "rgb:side": 32,
    "rgb:patch": 8,
    "rgb:channels": 3,
    "rgb:numbers": 8 * 8 * 3,
    "rgb:count": 4 * 4,
    "rgb:rows": 17,
    "rgb:total": 3 * 1024,
    "classifier:row": CLS,
    "classifier:weights": CLASSES,
    "classifier:scores": CLS @ CLASSES,
    "classifier:shares": np.exp(CLS @ CLASSES) / np.exp(CLS @ CLASSES).sum(),
    "cross:receivers": 3,
    "cross:sources": 5,
    "cross:scores": 15,
}
OF_HEADS = {
    "layer:scores": lambda heads: heads * 10 * 10,
    "accounting:head-width": lambda heads: WIDTH / heads,
    "accounting:scores": lambda heads: heads * CONTEXT**2,
    "choices:probability": lambda count: 1 / count,
    "choices:loss": lambda count: math.log(count),
    "choices:perplexity": lambda count: count,
    "accounting:bytes": lambda heads: 4 * heads * CONTEXT**2,
}
OVERFLOW = """() => {
  const frame = document.querySelector(".frame");
  const edge = frame.getBoundingClientRect();
  const folio = frame.querySelector(".folio").getBoundingClientRect();
  const scale = edge.width / frame.offsetWidth;
  const found = [];
  const walker = document.createTreeWalker(frame, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  const sizeOf = ({ a, b, c, d }) => Math.sqrt(Math.abs(a * d - b * c));
  const meets = (a, b) =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const at = node.parentElement;
    if (!node.data.trim() || !at.checkVisibility({ visibilityProperty: true })) continue;
    if (at.closest(".hidden, title, desc")) continue;
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) {
      const isOut = box.left < edge.left - 1 || box.right > edge.right + 1 ||
        box.top < edge.top - 1 || box.bottom > edge.bottom + 1;
      const isUnder = !at.closest(".folio") && meets(box, folio);
      if (isOut || isUnder) found.push(`${isOut ? "outside" : "under the folio"}: ${node.data}`);
    }
    const size = at.ownerSVGElement
      ? parseFloat(getComputedStyle(at).fontSize) * sizeOf(at.getScreenCTM())
      : parseFloat(getComputedStyle(at).fontSize) * scale;
    if (size < 11.9) found.push(`${size.toFixed(1)} px: ${node.data}`);
  }
  for (const box of frame.querySelectorAll("*")) {
    const style = getComputedStyle(box);
    if (style.overflow === "visible" || box.closest("svg, .hidden")) continue;
    if (box.scrollHeight > box.clientHeight + 1 || box.scrollWidth > box.clientWidth + 1) {
      found.push(`cut off: ${box.className} ${box.scrollWidth}x${box.scrollHeight}`);
    }
  }
  if (frame.scrollHeight > frame.clientHeight || frame.scrollWidth > frame.clientWidth) {
    found.push(`the frame is ${frame.scrollWidth}x${frame.scrollHeight}`);
  }
  return found;
}"""
OVERFLOWS = f"""async (stops) => {{
  const go = {GO};
  const overflow = {OVERFLOW};
  const found = [];
  for (const stop of stops) {{
    await go(stop);
    found.push(overflow());
  }}
  return found;
}}"""
BUILDS = f"""async (ids) => {{
  const go = {GO};
  const counts = [];
  for (const id of ids) {{
    await go(`#story/${{id}}/0/stage`);
    const text = document.querySelector(".stage-count small")?.textContent ?? "0";
    counts.push(Number(/\\d+(?=\\D*$)/.exec(text)[0]));
  }}
  return counts;
}}"""


def frames_of(root: Path) -> list[str]:
    """The names of all frames, in order, as the story's files have them."""
    files = sorted((root / "web" / "src" / "story" / "text").glob("*.md"))
    texts = [path.read_text(encoding="utf-8") for path in files]
    return [name for text in texts for name in re.findall(r"^## .*\{#([\w-]+)\}$", text, re.M)]


@pytest.fixture(scope="module")
def stops(root: Path, tab: Visit) -> list[str]:
    """The address of every build of every frame."""
    names = frames_of(root)
    assert len(names) > 20
    tab.renew()
    builds = tab.open("#story").page.evaluate(BUILDS, names)
    assert sum(builds) > 20
    return [
        f"#story/{name}/{build}/stage"
        for name, count in zip(names, builds, strict=True)
        for build in range(count + 1)
    ]


def bias_of_value(head: int, i: int) -> float:
    """A bias of the values of three-heads."""
    bias = opened("three-heads").heads[head].b_v
    assert bias is not None
    return float_of(bias[i])


def shifted(a: dict[str, Any], head: int, receiver: int) -> Any:
    """The scores that a receiver may see, less the largest of them."""
    scores = a["scores"][head, receiver, : receiver + 1]
    return scores - scores.max()


def moved(a: dict[str, Any], field: str, receiver: int) -> float:
    """How far a row is from its value before the row of the last token was changed."""
    before = answers("river-and-cheque", "river")[field][receiver]
    return float(np.abs(a[field][receiver] - before).max())


@cache
def training() -> dict[str, Any]:
    """One step on W_O, by automatic differentiation of the worksheet's prediction."""
    sheet, solved = opened("river-and-cheque"), answers("river-and-cheque", "river")
    target, rate = sheet.vocabulary.index("water"), 0.1
    given = {
        name: torch.tensor([[float_of(n) for n in row] for row in rows], dtype=torch.float64)
        for name, rows in (
            ("W_O", sheet.w_o),
            ("W_hidden", sheet.prediction.w_hidden),
            ("W_vocab", sheet.prediction.w_vocab),
            ("b_hidden", [sheet.prediction.b_hidden]),
            ("b_vocab", [sheet.prediction.b_vocab]),
        )
    }
    joined = torch.tensor(solved["concat"][9], requires_grad=True)
    x, w_o = torch.tensor(solved["x"][9]), given["W_O"].requires_grad_()

    def loss_of(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        row = x + joined @ matrix
        hidden = (row @ given["W_hidden"] + given["b_hidden"][0]).relu()
        logits = hidden @ given["W_vocab"] + given["b_vocab"][0]
        return -logits.log_softmax(0)[target], row

    loss, row = loss_of(w_o)
    at_row, at_joined, at_w_o = torch.autograd.grad(loss, (row, joined, w_o))
    after = w_o.detach() - rate * at_w_o
    loss_after = float(loss_of(after)[0].detach())
    return {
        "training:rate": rate,
        "training:loss": float(loss.detach()),
        "training:perplexity": math.exp(float(loss.detach())),
        "training:row-gradient": at_row.numpy(),
        "training:joined-gradient": at_joined.numpy(),
        "training:w-o": after.numpy(),
        "training:probability-after": math.exp(-loss_after),
        "training:loss-after": loss_after,
    }


SUMS: dict[str, Callable[..., Any]] = {
    "query_key_products": lambda a, h, t, s, i: a["q"][h, t, i] * a["k"][h, s, i],
    "running_message": lambda a, h, t, s, i: a["weighted_values"][h, t, : s + 1, i].sum(),
    "weight_sum": lambda a, h, t: a["attn_weights"][h, t].sum(),
    "column_sum": lambda a, h, s: a["attn_weights"][h, :, s].sum(),
    "value_without_bias": lambda a, h, s, i: a["v"][h, s, i] - bias_of_value(h, i),
    "shifted_scores": lambda a, h, t, s: shifted(a, h, t)[s],
    "shifted_exp": lambda a, h, t, s: np.exp(shifted(a, h, t))[s],
    "shifted_exp_sum": lambda a, h, t: np.exp(shifted(a, h, t)).sum(),
    "shifted_weights": lambda a, h, t, s: a["attn_weights"][h, t, s],
    "concat_moved": lambda a, t: moved(a, "concat", t),
    "output_moved": lambda a, t: moved(a, "output", t),
    "head_average": lambda a, t, i: a["head_outputs"][:, t, i].mean(),
    "output_cut": lambda a, t, i: 0.0 if i < a["output"].shape[1] / 2 else a["output"][t, i],
}
"""The plain sums of answers that the story shows beside them."""


@cache
def reckoned(quantity: str) -> float:
    """What a number of the story must be, by its name."""
    if measured(quantity):
        return measured_number(quantity)
    if found := SHAPE.fullmatch(quantity):
        name, sequence, field, axis = found.groups()
        return float(answers(name, sequence)[field].shape[int(axis)])
    found = COMPUTED.fullmatch(quantity)
    if found and found[1] in OF_HEADS:
        return float(OF_HEADS[found[1]](*indices_of(found[2])))
    if found and found[1] in training():
        return float(np.asarray(training()[found[1]])[indices_of(found[2])])
    if found and found[1] in PLAIN:
        return float(np.asarray(PLAIN[found[1]])[indices_of(found[2])])
    solved = SOLVED.fullmatch(quantity)
    if solved and solved[4] in SUMS:
        name, sequence, variant, field, tail = solved.groups()
        return float(SUMS[field](answers(name, sequence, (), variant or ""), *indices_of(tail)))
    return expected(quantity)


def check_story_text(quantity: str, value: str, text: str) -> None:
    """A number stands among other signs of its drawing, such as "× 0.718"."""
    bare = re.sub(r"^[^\d\u2212+\u221a]*[=\u00d7+\u00b7(]\s*|[)\s,;:]+$", "", text.strip())
    check_exact(quantity, value, bare)


@pytest.fixture(scope="module")
def on_stage(tab: Visit, stops: list[str]) -> set[Shown]:
    """Every number of every build."""
    tab.renew()
    seen = tab.open("#story").shown(stops)
    tab.check()
    return seen


def test_every_number_in_every_build_is_worked_out_again(on_stage: set[Shown]) -> None:
    assert len({number.quantity for number in on_stage}) > 300
    for quantity, value, text, _ in on_stage:
        check_close(quantity, value, reckoned(quantity))
        if text:  # a point of a drawing has no text; the table behind it has
            check_story_text(quantity, value, text)


def test_the_article_shows_the_same_numbers(on_stage: set[Shown], visit: Visit) -> None:
    visit.open("#story")
    article = visit.shown(["#story/start/0/read"])
    for quantity, value, text, _ in article:
        check_close(quantity, value, reckoned(quantity))
        if text:  # a point of a drawing has no text; the table behind it has
            check_story_text(quantity, value, text)
    beyond = visit.page.eval_on_selector_all(
        ".companion [data-quantity]", "found => found.map((node) => node.dataset.quantity)"
    )
    names = {number.quantity for number in on_stage}
    assert {number.quantity for number in article} - set(beyond) <= names


def test_every_frame_fits_its_stage_in_every_build(visit: Visit, stops: list[str]) -> None:
    visit.open("#story")
    found = visit.page.evaluate(OVERFLOWS, stops)
    assert [(stop, wrong) for stop, wrong in zip(stops, found, strict=True) if wrong] == []


def test_a_frame_that_does_not_fit_is_found(visit: Visit) -> None:
    visit.open("#story")
    visit.page.evaluate("document.querySelector('.frame .body').append('word '.repeat(400))")
    assert visit.page.evaluate(OVERFLOW) != []


WALK = """async (key) => {
  const said = [document.querySelector(".stage-count").textContent];
  for (;;) {
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    await new Promise((done) => setTimeout(done));
    const now = document.querySelector(".stage-count").textContent;
    if (now === said.at(-1)) return said;
    said.push(now);
  }
}"""


def test_keys_walk_through_every_build_and_back(visit: Visit, stops: list[str]) -> None:
    visit.open("#story")
    there = visit.page.evaluate(WALK, "ArrowRight")
    assert len(there) == len(set(there)) == len(stops)
    assert visit.page.evaluate(WALK, "ArrowLeft") == there[::-1]
    visit.page.keyboard.press("End")
    visit.page.wait_for_timeout(400)
    assert f"#story/{stops[-1].split('/')[1]}/" in visit.page.url


def test_a_second_window_follows_and_leads(visit: Visit) -> None:
    visit.open("#story/start/0/stage")
    with visit.context.expect_page() as opened_page:
        visit.page.keyboard.press("p")
    presenter = opened_page.value
    presenter.wait_for_selector("main h2")
    assert presenter.locator("header.top").count() == 0
    frame = "document.querySelector('.frame').dataset.frame"
    visit.page.keyboard.press("ArrowDown")
    visit.page.wait_for_timeout(300)
    assert presenter.evaluate(frame) == visit.page.evaluate(frame)
    presenter.keyboard.press("ArrowDown")
    visit.page.wait_for_timeout(300)
    assert presenter.evaluate(frame) == visit.page.evaluate(frame) != "start"


def test_paper_holds_every_frame_as_text(visit: Visit, root: Path) -> None:
    visit.open("#story").look(media="print")
    printed = visit.page.locator(".sheet .frame")
    printed.first.wait_for(state="attached")
    names = frames_of(root)
    assert printed.count() == len(names)


@pytest.mark.slow
def test_a_pdf_has_a_page_for_every_frame(visit: Visit, root: Path) -> None:
    visit.open("#story")
    written = visit.page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type /Page\b", written)) == len(frames_of(root))
