"""Every option and argument of every command, taken from click's own tree, with bad values."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

import manyheads as mh
from manyheads.cli import types
from manyheads.cli.main import COMMANDS, cli, main
from tests.factories import mostly_slow

LONGEST_MESSAGE = 500
NOT_NUMBERS = ["1_0", "\N{ARABIC-INDIC DIGIT THREE}", "", "0x10", "1e", "nan", "inf", "x" * 5000]
TEXTS = ["x" * 5000, "caf\N{LATIN SMALL LETTER E WITH ACUTE} \x1b[2J\n\x07" * 500]


class Parameter(NamedTuple):
    """One parameter of one command, and the command's words and required arguments."""

    words: list[str]
    parameter: click.Parameter
    required: list[click.Parameter]

    def called_with(self, value: str, others: Callable[[click.Parameter], str]) -> list[str]:
        """A command line that gives this value to the parameter."""
        arguments = [value if p is self.parameter else others(p) for p in self.required]
        if isinstance(self.parameter, click.Option):
            option = f"{max(self.parameter.opts, key=len)}={value}"
            return [*self.words, option, "--", *arguments]
        return [*self.words, "--", *arguments]


def commands() -> Iterator[tuple[list[str], click.Command]]:
    """Every command that is not a group, with its words."""
    context = click.Context(cli)
    found = [([c.name], cli.get_command(context, c.name)) for c in COMMANDS]
    for words, command in found:
        assert command is not None
        if isinstance(command, click.Group):
            names = command.list_commands(context)
            found += [([*words, name], command.get_command(context, name)) for name in names]
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield words, command


def parameters(kind: type | tuple[type, ...]) -> list[Parameter]:
    """Every parameter whose type is of this kind."""
    return [
        Parameter(words, parameter, needed_with(parameter, command))
        for words, command in commands()
        for parameter in command.params
        if isinstance(parameter.type, kind) and not getattr(parameter, "is_flag", False)
    ]


def needed_with(parameter: click.Parameter, command: click.Command) -> list[click.Parameter]:
    """The arguments to give so that a parameter can be: those required, and an argument's own."""
    found = [p for p in command.params if isinstance(p, click.Argument)]
    last = found.index(parameter) if isinstance(parameter, click.Argument) else -1
    return [p for at, p in enumerate(found) if p.required or at <= last]


def refusal(
    arguments: list[str], capsys: pytest.CaptureFixture[str], statuses: tuple[int, ...] = (2,)
) -> str:
    """Run a command line that must be refused; return what is wrong with the way it is, if any."""
    shown = " ".join(argument[:40] for argument in arguments)
    try:
        status = main(arguments)
    except BaseException as error:  # a traceback is what this test looks for
        return f"{shown!r} raised {error!r}"
    errors = capsys.readouterr().err
    if status not in statuses:
        return f"{shown!r} ended with {status}"
    if status == 2 and (errors.count("\n") != 1 or len(errors) > LONGEST_MESSAGE):
        return f"{shown!r} reported {errors.count(chr(10))} lines, {len(errors)} characters"
    return "" if "\x1b" not in errors else f"{shown!r} reported a control character"


def test_every_number_and_path_has_a_type_that_all_commands_share() -> None:
    offenders = [
        (*found.words, found.parameter.name)
        for found in parameters((click.types.IntParamType, click.types.FloatParamType, click.Path))
        if not isinstance(found.parameter.type, (types.Integer, types.Number, types.FilePath))
        and getattr(found.parameter.type, "file_okay", True)
    ]
    assert not offenders


def test_every_number_refuses_what_is_not_written_in_digits(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = parameters((types.Integer, types.Number))
    assert len(found) > 20
    calls = [
        parameter.called_with(value, lambda _: "none")
        for parameter in found
        for value in NOT_NUMBERS
    ]
    assert not list(filter(None, (refusal(call, capsys) for call in calls)))


def test_every_path_refuses_a_pipe_at_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    found = parameters(click.Path)
    assert len(found) > 15
    calls = [parameter.called_with("pipe", lambda _: "none") for parameter in found]
    assert not list(filter(None, (refusal(call, capsys) for call in calls)))


@pytest.mark.parametrize("path", ["", "x" * 5000], ids=["empty", "too long"])
def test_every_path_that_cannot_exist_is_refused_by_the_name_of_its_option(
    path: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    offenders = []
    for found in parameters((click.Path, types.NameOrPath)):
        call = found.called_with(path, lambda _: "none.pdf")
        metavar = found.parameter.metavar
        named = [f"'{name}'" for name in (*found.parameter.opts, metavar) if name]
        status, errors = main(call), capsys.readouterr().err
        if status != 2 or not any(name.lower() in errors.lower() for name in named):
            offenders.append(errors)
    assert not offenders
    assert not list(tmp_path.iterdir())


_ANSWERS = "score/7: 0, 0, 0"


_WAYS = {
    "process substitution": "{run} quiz exercises --answers <(echo '{answers}')",
    "slow pipe": "(sleep 0.2; echo '{answers}') | {run} quiz exercises --answers -",
    "redirected file": "{run} quiz exercises --answers - < answers.txt",
}


@pytest.mark.parametrize("way", mostly_slow(_WAYS, "slow pipe"))
def test_a_file_of_answers_may_be_a_pipe_or_standard_input(way: str, tmp_path: Path) -> None:
    (tmp_path / "answers.txt").write_text(_ANSWERS)
    line = _WAYS[way].format(run=f"{sys.executable} -m manyheads.cli.main", answers=_ANSWERS)
    done = subprocess.run(
        ["bash", "-c", f"{line} --data ."],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "0 of 1 right" in done.stdout


def test_a_worksheet_may_come_from_standard_input() -> None:
    text = mh.worksheet("two-routes").to_json()
    done = subprocess.run(
        [sys.executable, "-m", "manyheads.cli.main", "worksheet", "show", "-"],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("two-routes")


def test_every_text_is_refused_in_one_short_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = parameters((click.types.StringParamType, click.Choice, click.Path))
    assert len(found) > 40
    calls = [
        parameter.called_with(value, lambda _, value=value: value)
        for parameter in found
        for value in TEXTS
    ]
    assert not list(filter(None, (refusal(call, capsys, (0, 1, 2)) for call in calls)))


def test_a_nul_character_is_refused_by_the_number_of_its_argument(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["worksheet", "show", "a\0b"]) == 2
    assert "argument 3 (a\\x00b) contains a NUL character: remove it" in capsys.readouterr().err


@pytest.mark.parametrize(("value", "number"), [("0", 0), ("-3", -3), ("+12", 12), (" 7 ", 7)])
def test_an_integer_is_read_as_written(value: str, number: int) -> None:
    assert types.INTEGER.convert(value, None, None) == number


@pytest.mark.parametrize(("value", "number"), [("0.5", 0.5), (".5", 0.5), ("1e-3", 1e-3), ("2", 2)])
def test_a_number_is_read_as_written(value: str, number: float) -> None:
    assert types.NUMBER.convert(value, None, None) == number


@pytest.mark.parametrize(("value", "is_finite"), [("1e308", True), ("1e309", False)])
def test_a_number_must_be_finite(value: str, is_finite: bool) -> None:
    if is_finite:
        assert types.NUMBER.convert(value, None, None) == 1e308
    else:
        with pytest.raises(click.BadParameter, match="1e309"):
            types.NUMBER.convert(value, None, None)
