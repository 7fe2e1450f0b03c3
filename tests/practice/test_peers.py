"""Published answers to standard exercises, right and wrong, get the right verdict."""

import json
from pathlib import Path

import pytest

from manyheads.practice.judging import judged_here
from manyheads.practice.running import load_code
from manyheads.practice.task import task

TASKS = {
    "mha": "multi-head",
    "causal": "causal-attention",
    "gqa": "grouped",
    "cross": "cross",
    "kv": "cache",
    "window": "sliding-window",
}


QUICK = ("causal", "window")
KINDS = [k if k in QUICK else pytest.param(k, marks=pytest.mark.slow) for k in TASKS]


@pytest.mark.parametrize("kind", KINDS)
def test_peer_answers_are_judged(kind: str, shared: Path) -> None:
    folder = shared / "subjects" / "peer"
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    one, judged = task(TASKS[kind]), {}
    for case in manifest["cases"]:
        name = case["target"].partition(":")[0]
        if name.startswith(f"{kind}_"):
            file = str(folder / name)
            answer = load_code((folder / name).read_text(encoding="utf-8"), one.entry, file)
            judged[name] = judged_here(one, answer, frozenset({file})).solved
    assert judged and judged == {name: name == f"{kind}_sound.py" for name in judged}
