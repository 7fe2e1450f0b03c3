"""Runs in processes of their own: what the parent makes of what they tell, and of their silence."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from manyheads.core.errors import PlanError, StudyError
from manyheads.study import pool
from manyheads.study.corpus import corpus_for
from manyheads.study.folder import Folder, RunKey
from manyheads.study.machine import Crew, Machine, join_crew
from manyheads.study.run import run_study
from manyheads.study.site import Event, Site, Stopped, StopSign
from tests.study.tiny import at, best_files, ctrl_c, measured, tiny

RUNS = Folder(path=Path(), plan=tiny()).runs()

# A worker that trains nothing, and does as the name of the model tells it.
ACTOR = """
import json, os, sys
for line in sys.stdin:
    if line.strip() == "end": break
    if line.strip() == "stop": break
    run = json.loads(line)
    say = lambda message: print(json.dumps(message), flush=True)
    say({"event": {"run": run["model"], "kind": "begin", "steps": 4}})
    if run["seed"] == 90: say({"error": "seeds (90) are too old", "type": "PlanError"})
    elif run["seed"] == 91: print("out of memory", file=sys.stderr); os._exit(7)
    elif run["seed"] == 92:
        assert sys.stdin.readline().strip() == "stop"
        say({"stopped": "run old is saved"})
        break
    else: say({"finished": run["model"]})
"""


def run_of(seed: int) -> RunKey:
    return RunKey(model="old", seed=seed)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    crew: Crew = join_crew(Machine())
    return Site(
        folder=Folder(path=tmp_path, plan=tiny()),
        corpus=corpus_for(tiny()),
        crew=crew,
        report=lambda event: None,
        is_stopping=lambda: False,
        environment={},
    )


@pytest.fixture(autouse=True)
def _actors(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Let actors take the place of workers, but for slow tests."""
    if request.node.get_closest_marker("slow"):
        return
    real = pool._Workers._started

    def started(self: Any, argv: Sequence[str], place: dict[str, str], is_first: bool) -> Any:
        return real(self, [sys.executable, "-c", ACTOR], place, is_first)

    monkeypatch.setattr(pool._Workers, "_started", started)


def train(seeds: Sequence[int], site: Site, sign: StopSign | None = None) -> None:
    runs = [run_of(seed) for seed in seeds]
    pool.train_in_workers(runs, Machine(jobs=2), site, sign or StopSign(), None)


def test_every_run_is_trained_and_its_news_passed_on(site: Site) -> None:
    told: list[Event] = []
    train(range(5), replace(site, report=told.append))
    assert [event.kind for event in told] == ["begin"] * 5


def test_an_error_keeps_its_kind_and_stops_the_others(site: Site) -> None:
    with pytest.raises(PlanError, match=r"seeds \(90\) are too old"):
        train([92, 90, 1, 2, 3], site)


def test_a_process_that_dies_is_named_with_its_last_words(site: Site) -> None:
    with pytest.raises(
        StudyError, match=r"run old-seed91: .* status 7 \(out of memory\): continue"
    ):
        train([91], site)


def test_a_request_to_stop_reaches_every_worker(site: Site) -> None:
    sign = StopSign()

    def report(event: Event) -> None:
        sign.ask()

    with pytest.raises(Stopped, match="run old is saved; run old is saved"):
        train([92, 92, 1], replace(site, report=report), sign)


def test_a_crew_of_two_finds_the_place_of_each_in_its_environment() -> None:
    first, second = pool._places(2, 3)
    assert first.pop("LOCAL_RANK") == "0"
    assert second.pop("LOCAL_RANK") == "1"
    assert first == second
    assert (first["WORLD_SIZE"], first["OMP_NUM_THREADS"]) == ("2", "3")
    assert pool._places(1, 3) == [{"OMP_NUM_THREADS": "3"}]


@pytest.mark.slow
def test_runs_side_by_side_give_the_same_bits_as_one_after_another(tmp_path: Path) -> None:
    run_study(tiny(), out=tmp_path / "a")
    run_study(tiny(), out=tmp_path / "b", jobs=2)
    assert measured(tmp_path / "a") == measured(tmp_path / "b")
    assert best_files(tmp_path / "a") == best_files(tmp_path / "b")


@pytest.mark.slow
def test_ctrl_c_stops_runs_side_by_side_and_they_go_on(tmp_path: Path) -> None:
    run_study(tiny(), out=tmp_path / "a")
    with pytest.raises(Stopped):
        run_study(tiny(), out=tmp_path / "b", jobs=2, report=at("mlp-seed3", 4, ctrl_c))
    run_study(tiny(), out=tmp_path / "b", resume=True)
    assert measured(tmp_path / "a") == measured(tmp_path / "b")


@pytest.mark.slow
def test_a_loss_that_is_no_number_in_a_worker_is_told_in_one_line(tmp_path: Path) -> None:
    wild = tiny(("learning_rate = 0.02", "learning_rate = 1e38"))
    with pytest.raises(StudyError, match=r"^run two-heads-seed\d, step \d+: .*not a finite number"):
        run_study(wild, out=tmp_path / "s", jobs=2)
