"""The command `manyheads study`: plans, runs, how they stop and go on, and what is refused."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from manyheads.cli.main import main
from manyheads.study import run as run_module
from manyheads.study.plan import plan, plan_names
from manyheads.study.run import run_study
from tests.study.tiny import ONE_RUN, at, best_files, ctrl_c, measured, tiny


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.toml").write_text(tiny(*ONE_RUN).text)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a refusal."""
    assert main(["study", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1, err
    return err


def interrupt(monkeypatch: pytest.MonkeyPatch, run: str, step: int) -> None:
    """Press Ctrl-C when a run has been validated at a step."""
    press = at(run, step, ctrl_c)
    real = run_module.run_study

    def pressed(*arguments: Any, report: Any, **options: Any) -> Any:
        def both(event: Any) -> None:
            report(event)
            press(event)

        return real(*arguments, report=both, **options)

    monkeypatch.setattr(run_module, "run_study", pressed)


def test_plans_are_listed_with_what_they_take(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "plans"]) == 0
    out, err = capsys.readouterr()
    for name in plan_names():
        assert f"{name}\n  {plan(name).description}\n" in out
    assert "3 models x 3 seeds = 9 runs of at most 6,000 steps; generated stories" in out
    assert re.search(r"after \d+ learning-rate checks of [\d,]+ steps; TinyStories", out)
    assert "generated stories" in out
    assert err == ""


def test_plans_are_one_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "plans", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["plans"]
    assert [(each["name"], each["plan_sha256"]) for each in found] == [
        (name, plan(name).sha256) for name in plan_names()
    ]


def test_a_run_shows_a_table_and_tells_its_news_on_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["study", "run", "tiny.toml", "--out", "s"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"Study tiny, plan {tiny(*ONE_RUN).sha256[:12]}, data ")
    assert out.endswith(f"Results: {Path('s') / 'results.json'}\n")
    assert "mlp-seed3: starts at step 0 of 10\n" in err
    assert re.search(r"mlp-seed3: step 8 of 10: training \d\.\d{4}, validation \d\.\d{4}\n", err)
    assert err.endswith("mlp-seed3: tested\n")


def test_a_run_gives_one_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "run", "tiny.toml", "--out", "s", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(Path("s/results.json").read_text())


def test_the_folder_is_named_for_the_plan_unless_given() -> None:
    assert main(["study", "run", "tiny.toml"]) == 0
    assert Path("study-tiny/results.json").exists()


def test_ctrl_c_saves_says_how_to_go_on_and_that_command_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_study(tiny(*ONE_RUN).with_seeds((8,)), out="straight")
    arguments = ["study", "run", "tiny.toml", "--out", "a b", "--seeds", "8", "--threads", "1"]
    with monkeypatch.context() as patch:
        interrupt(patch, "mlp-seed8", 4)
        assert main(arguments) == 130
    out, err = capsys.readouterr()
    last = err.splitlines()[-1]
    assert last.startswith("manyheads: stopped: run mlp-seed8 is saved at step 5 of 10; ")
    command = shlex.split(last.partition("continue with: ")[2])
    assert command == [
        *("manyheads", "study", "run", "tiny.toml", "--out", "a b", "--seeds", "8"),
        *("--threads", "1", "--resume"),
    ]
    assert out == ""
    assert main(command[1:]) == 0
    assert "mlp-seed8: starts at step 5 of 10\n" in capsys.readouterr().err
    assert measured(Path("a b")) == measured(Path("straight"))


def test_news_that_nobody_can_read_end_no_study() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    argv = [sys.executable, "-m", "manyheads.cli.main", "study", "run", "tiny.toml", "--out", "s"]
    done = subprocess.run([*argv, "--json"], stdout=subprocess.PIPE, stderr=writer, check=False)
    os.close(writer)
    assert done.returncode == 0
    assert json.loads(done.stdout) == json.loads(Path("s/results.json").read_text())


def test_a_part_of_a_study_says_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    Path("tiny.toml").write_text(tiny().text)
    arguments = ["study", "run", "tiny.toml", "--out", "s", "--only", "mlp", "--json"]
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert out == "null\n"
    assert "not done yet: two-heads-seed3, two-heads-seed5\n" in err
    assert err.splitlines()[-1] == (
        "manyheads: to train the other runs: manyheads study run tiny.toml --out s --json --resume"
    )


def test_wrong_use_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert "plan (smok) is not known: use head-count" in refusal(capsys, "run", "smok")
    assert "'3,x' is not a list of numbers" in refusal(capsys, "run", "smoke", "--seeds", "3,x")
    for text in ("1_0", "\N{ARABIC-INDIC DIGIT THREE}", "-3", "3,", "9" * 5000):
        line = refusal(capsys, "run", "smoke", "--seeds", text)
        assert "--seeds" in line and len(line) < 200
    assert "seeds (3, 3) must be" in refusal(capsys, "run", "smoke", "--seeds", "3,3")
    assert "none.txt" in refusal(capsys, "run", "tiny.toml", "--data", "none.txt", "--out", "s")
    assert "only (gru) is no" in refusal(capsys, "run", "tiny.toml", "--only", "gru", "--out", "s")
    assert "No such command 'reprot'" in refusal(capsys, "reprot")
    assert not Path("s").exists()
    main(["study", "run", "tiny.toml", "--out", "s"])
    capsys.readouterr()
    assert "already contains a study: give --resume" in refusal(
        capsys, "run", "tiny.toml", "--out", "s"
    )
    Path("file").write_text("")
    assert "'file' is a file" in refusal(capsys, "run", "tiny.toml", "--out", "file")
    assert "cannot be created (Not a directory)" in refusal(
        capsys, "run", "tiny.toml", "--out", "file/s"
    )


def test_help_shows_all_three_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "--help"]) == 0
    out = capsys.readouterr().out
    for name in ("plans", "report", "run"):
        assert re.search(rf"^  {name}  ", out, re.MULTILINE)


def test_tensorboard_gets_a_curve_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tensorboard", reason="install the extra: manyheads[tensorboard]")
    assert main(["study", "run", "tiny.toml", "--out", "s", "--tensorboard"]) == 0
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    curves = EventAccumulator("s/tensorboard/mlp-seed3")
    curves.Reload()
    trace = measured(Path("s"))[0]["trace"]
    for name in ("train_loss", "validation_loss", "learning_rate"):
        points = [(point.step, point.value) for point in curves.Scalars(name)]
        assert points == [(entry["step"], pytest.approx(entry[name], rel=1e-6)) for entry in trace]


def test_kill_9_loses_at_most_an_interval_and_goes_on_to_the_same_bits() -> None:
    longer = (*ONE_RUN, ("steps = 10", "steps = 160"), ("every = 4", "every = 40"))
    Path("long.toml").write_text(tiny(*longer).text)
    state = Path("killed/runs/mlp-seed3/state.safetensors")
    argv = [sys.executable, "-m", "manyheads.cli.main", "study", "run", "long.toml"]
    with subprocess.Popen(
        [*argv, "--out", "killed"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        until = time.monotonic() + 120
        while not state.exists() and time.monotonic() < until:
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert state.exists()
    assert not Path("killed/runs/mlp-seed3/run.json").exists()
    begun: list[int] = []
    run_study(
        plan("long.toml"),
        out="killed",
        resume=True,
        report=lambda event: begun.append(event.step) if event.kind == "begin" else None,
    )
    assert begun[0] > 0
    run_study(plan("long.toml"), out="straight")
    assert measured(Path("killed")) == measured(Path("straight"))
    assert best_files(Path("killed")) == best_files(Path("straight"))


def test_running_a_study_loads_no_plotting_and_plans_load_no_torch() -> None:
    code = (
        "import sys, manyheads.study\n"
        "from manyheads.cli.main import main\n"
        "main(['study', '--help'])\n"
        "assert 'pydantic' not in sys.modules\n"
        "main(['study', 'plans'])\n"
        "assert 'torch' not in sys.modules\n"
        "import manyheads.study.run, manyheads.cli.study_progress\n"
        "loaded = {'matplotlib', 'lightning_fabric', 'scipy', 'tensorboard'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
