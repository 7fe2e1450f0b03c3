"""The `manyheads` command: exit statuses, one-line errors, and what it does not load."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from manyheads.cli import main as entry
from manyheads.cli.main import COMMANDS, main
from manyheads.core.errors import ConfigError
from tests.cli.test_hostile import commands


def test_help_names_every_command_and_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and "Example:" in out
    for command in COMMANDS:
        assert f"  {command.name} " in out and command.help in out


def test_every_help_page_prints_its_example_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    lacking = []
    for words, _ in commands():
        assert main([*words, "--help"]) == 0
        examples = capsys.readouterr().out.partition("Example")[2].splitlines()
        start = f"manyheads {' '.join(words)}"
        if not any(
            line.partition(start)[0].strip(" s:") == "" and start in line for line in examples
        ):
            lacking.append(words)
    assert lacking == []


def test_no_command_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "Commands:" in capsys.readouterr().out


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("manyheads, version ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "No such command 'nothing'. (see: manyheads --help)"),
        (["--nothing"], "No such option '--nothing'"),
        (["worksheet", "list", "more"], "Got unexpected extra argument"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert err.startswith("manyheads: ") and message in err


def failing(error: BaseException) -> click.Command:
    @click.command()
    def command() -> None:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (
            ConfigError("num_heads (3) must\ndivide 8: use 4"),
            2,
            "manyheads: num_heads (3) must divide",
        ),
        (ConfigError("name (\x1b[31m) is bad: use another"), 2, r"manyheads: name (\x1b[31m) is"),
        (click.ClickException("no"), 2, "manyheads: no\n"),
        (OSError(98, "Address already in use"), 2, "manyheads: Address already in use: check"),
        (PermissionError(13, "Permission denied", "out"), 2, "manyheads: out: Permission denied"),
        (click.exceptions.Exit(1), 1, ""),
        (KeyboardInterrupt(), 130, "\n"),
        (click.Abort(), 130, "\n"),
    ],
)
def test_error_of_a_command_becomes_a_status_and_a_line(
    error: BaseException,
    status: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(entry.cli, "get_command", lambda ctx, name: failing(error))
    assert main(["any"]) == status
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(text) and err.count("\n") <= 1
    assert bool(err) == bool(text)


def test_our_own_mistakes_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry.cli, "get_command", lambda ctx, name: failing(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        main(["any"])


def command_line(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "manyheads.cli.main", *arguments]


def closed_early(arguments: list[str], folder: Path) -> tuple[int, str]:
    """Exit status and standard error of a command whose reader has closed the pipe."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        command_line(*arguments),
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        timeout=60,
        check=False,
    )
    os.close(writing)
    return done.returncode, done.stderr


def test_a_reader_that_leaves_early_keeps_the_exit_status_and_other_output(tmp_path: Path) -> None:
    solve = ["worksheet", "solve", "river-and-cheque", "--exact"]
    status, errors = closed_early(solve, tmp_path)
    assert (status, "river" in errors, errors.count("\n")) == (0, True, 1)
    (tmp_path / "answers.txt").write_text("score/7: 1000000, 0, 0\n", encoding="utf-8")
    marking = ["quiz", "exercises", "--answers", "answers.txt", "--data", "mine"]
    assert closed_early(marking, tmp_path) == (1, "")
    assert list((tmp_path / "mine").iterdir())


def test_letters_that_a_terminal_lacks_are_escaped(tmp_path: object) -> None:
    command = command_line("worksheet", "solve", "caf\N{LATIN SMALL LETTER E WITH ACUTE}")
    done = subprocess.run(
        command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith(b"manyheads: worksheet (caf\\xe9) is neither")


def test_ctrl_c_ends_with_130_and_no_traceback() -> None:
    code = (
        "import sys, time, click; from manyheads.cli import main as m\n"
        "@click.command()\n"
        "def wait(): print('ready', flush=True); time.sleep(30)\n"
        "m.cli.get_command = lambda ctx, name: wait\n"
        "sys.exit(m.main(['wait']))"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout and running.stderr
        assert running.stdout.readline() == b"ready\n"
        time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=20)
    assert running.returncode == 130 and out == b"" and err == b"\n"


IMPORTED = """
import pathlib, time
pathlib.Path("importing").touch()
try:
    time.sleep({seconds})
except KeyboardInterrupt:  # as PyTorch does while it imports NumPy
    pass
"""


def test_ctrl_c_during_an_import_that_would_swallow_it_ends_the_command(tmp_path: Path) -> None:
    (tmp_path / "heavy.py").write_text(IMPORTED.format(seconds=2))
    code = (
        "import sys, time, click; from manyheads.cli import main as m\n"
        "@click.command()\n"
        "def work():\n    import heavy\n    time.sleep(10)\n    print('worked on')\n"
        "m.cli.get_command = lambda ctx, name: work\n"
        "sys.exit(m.main(['work']))"
    )
    status, out, err = interrupted_during_import([sys.executable, "-c", code], tmp_path)
    assert (status, out, err) == (130, b"", b"\n")


def test_ctrl_c_while_the_command_line_loads_ends_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text(IMPORTED.format(seconds=20).replace("pass", "raise"))
    code = "import sys; from manyheads.cli.start import main; sys.exit(main())"
    status, out, err = interrupted_during_import([sys.executable, "-c", code], tmp_path)
    assert (status, out, err) == (130, b"", b"")


def interrupted_during_import(command: list[str], folder: Path) -> tuple[int, bytes, bytes]:
    """Press Ctrl-C when the module that touches the file `importing` is being imported."""
    places = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": places},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        until = time.monotonic() + 30
        while not (folder / "importing").exists() and time.monotonic() < until:
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    return running.returncode, out, err


def in_shell(redirections: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command with streams as a shell closes or redirects them."""
    line = f'exec "$@" {redirections}'
    command = ["sh", "-c", line, "sh", *command_line(*arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("arguments", "status"), [(["worksheet", "list"], 0), (["worksheet", "show", "none"], 2)]
)
def test_closed_stdout_leaves_the_true_status_and_no_traceback(
    arguments: list[str], status: int
) -> None:
    done = in_shell(">&-", *arguments)
    assert done.returncode == status
    assert done.stderr.count("\n") == (1 if status else 0)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("redirections", ["2>&-", ">&- 2>&-", "2>/dev/full"])
def test_wrong_use_is_status_2_where_nothing_can_be_said(redirections: str) -> None:
    done = in_shell(redirections, "frob")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


def test_full_stdout_is_one_line_and_status_2() -> None:
    done = in_shell(">/dev/full", "worksheet", "list")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "standard output (No space left on device)" in done.stderr
    assert "redirect the output" in done.stderr
