"""The view of saved looks: a file of `manyheads look --save` opens, an unsafe one does no harm."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import manyheads as mh
from manyheads.looking.saving import saved_json
from tests.web.browsing import Visit

MARKUP = "<img src=x onerror=\"document.title='harmed'\">"


@pytest.fixture(scope="module")
def look() -> dict[str, Any]:
    """Two layers of four heads on seven rows; nothing of it is labelled."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(24, 4, 32, batch_first=True)
    seen = mh.look(nn.TransformerEncoder(layer, 2), inputs=torch.randn(1, 7, 24))
    document: dict[str, Any] = json.loads(saved_json(seen))
    return document


def open_file(visit: Visit, path: Path, document: object) -> None:
    """Choose a file in the view."""
    path.write_text(json.dumps(document))
    visit.page.set_input_files(".look input[type=file]", path)


def test_a_saved_look_opens_and_is_walked_by_keyboard(
    visit: Visit, look: dict[str, Any], tmp_path: Path, axe: str
) -> None:
    null = {"kind": "control sources", "greatest": 0.25, "draws": 9, "p": 0.1}
    look["heads"][6] |= {"label": "induction", "score": 0.75, "null": null}
    visit.open("#look")
    open_file(visit, tmp_path / "look.json", look)
    assert visit.page.locator("#look-head").inner_text() == "Head 1.2"
    assert visit.page.locator(".heads-grid button").count() == 8
    visit.page.locator("[data-name='1.2']").press("ArrowRight")
    visit.page.wait_for_function("() => location.hash === '#look/1.3'")
    visit.page.locator(".picture").press("ArrowUp")
    visit.page.wait_for_function("() => location.hash === '#look/1.3/6'")
    visit.page.locator(".picture").hover(position={"x": 2, "y": 2})
    visit.page.evaluate(axe)
    found = visit.page.evaluate(
        "axe.run('main', { preload: false }).then(({ violations }) => violations)"
    )
    assert found == []
    shown = {one.quantity: one for one in visit.shown(["#look/1.2/6"])}
    assert shown["look:heads.1.2.score"].text == "0.750"
    sums = [float(shown[f"look:weights.1.2[5][{key}]"].value) for key in range(7)]
    assert sum(sums) == pytest.approx(1.0, abs=1e-3)


def test_a_strangers_file_is_text_or_refused(
    visit: Visit, look: dict[str, Any], tmp_path: Path
) -> None:
    visit.open("#look")
    look = look | {"axes": {"7": [MARKUP] * 7}, "model": look["model"] | {"type": MARKUP}}
    open_file(visit, tmp_path / "look.json", look)
    assert visit.page.locator("#look-model").inner_text() == MARKUP
    assert visit.page.locator("main img").count() == 0
    assert visit.page.title() == "Look \u00b7 manyheads"
    open_file(visit, tmp_path / "no.json", {"format": MARKUP})
    assert "not a saved look" in visit.page.locator("[role=alert]").inner_text()
    assert visit.page.locator("#look-model").inner_text() == MARKUP
