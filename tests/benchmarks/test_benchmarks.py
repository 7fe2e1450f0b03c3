"""Each benchmark runs to its end at tiny sizes; no figure is judged here."""

import json
import subprocess
import sys

import pytest

from tests.house.sources import ROOT

# module, and something that its table must hold
PRINTED = {
    "forms": "nn.MultiheadAttention",
    "weights": "manyheads, without weights",
    "cache": "recomputed",
    "startup": "import manyheads",
    "training": "plain recipe",
    "recipes": "own recipe",
    "generation": "full recompute",
    "smoke": "of the limit",
    "misconceptions": "named correctly",
    "look": "look with proof and labels",
}


def run(module: str, *options: str) -> str:
    """What a benchmark prints."""
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *options],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("module", PRINTED)
def test_benchmark_runs_at_tiny_sizes(module: str) -> None:
    assert PRINTED[module] in run(module, "--quick")


@pytest.mark.slow
@pytest.mark.usefixtures("chromium", "static_page")
def test_the_page_is_measured_in_a_browser() -> None:
    lines = run("page", "--quick").splitlines()
    measured = {line[2:36].strip() for line in lines if line.startswith("  ")}
    assert {"first view, sent", "interactive", "edit: input event to next frame"} <= measured
    for model in ("mlp", "one-head", "four-heads"):
        assert {f"{model}, alone", f"{model}, all three at once"} <= measured


@pytest.mark.slow
def test_fused_form_needs_less_than_half_of_the_scores_at_length_4096() -> None:
    found = json.loads(run("memory", "--length", "4096", "--json"))
    assert found["length"] == 4096
    assert found["scores_bytes"] == 8 * 4096 * 4096 * 4
    assert all(0 < peak < found["scores_bytes"] / 2 for peak in found["peak_bytes"].values())
