"""`manyheads study`: frozen plans, runs that resume, and their reports."""

import json
import shlex
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from manyheads.cli.types import NAME_OR_PATH, FilePath, IntRange
from manyheads.core.text import quoted

if TYPE_CHECKING:
    from manyheads.study.plan import Plan
    from manyheads.study.results import StudyResult

_FOLDER = FilePath(file_okay=False)
_FILE = FilePath(dir_okay=False)
_COUNT = IntRange(1, 256)


class _StudyGroup(click.Group):
    """The study commands; the report, which needs matplotlib, is loaded when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name all commands, in the order of the help page."""
        return [*super().list_commands(ctx), "report"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Find a command."""
        if cmd_name != "report":
            return super().get_command(ctx, cmd_name)
        command = import_module("manyheads.cli.study_report").report
        assert isinstance(command, click.Command)
        command.help = (command.help or "").replace("\\b", "\b")
        return command


@click.group(cls=_StudyGroup)
def study() -> None:
    r"""Train and compare models by a plan that is fixed before the first step.

    \b
    Example:
      manyheads study run smoke --out my-smoke
    """


@study.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def plans(as_json: bool) -> None:
    r"""List the built-in plans.

    \b
    Example:
      manyheads study plans
    """
    from manyheads.study.plan import plan, plan_names

    known = [plan(name) for name in plan_names()]
    if as_json:
        documents = [{**each.to_dict(), "plan_sha256": each.sha256} for each in known]
        click.echo(json.dumps({"plans": documents}))
        return
    for each in known:
        click.echo(f"{each.name}\n  {each.description}\n  {_takes(each)}")


def _takes(each: "Plan") -> str:
    """Number of runs and steps of a plan, and its data."""
    runs = len(each.models) * len(each.seeds)
    checks = sum(len(model.candidates) for model in each.models if len(model.candidates) > 1)
    data = "generated stories" if each.data.source == "stories" else "TinyStories"
    text = f"{len(each.models)} models x {len(each.seeds)} seeds = {runs} runs"
    most = "at most " if each.protocol.stop_after else ""
    text += f" of {most}{each.protocol.steps:,} steps"
    if checks:
        steps = each.protocol.lr_check_steps or each.protocol.steps
        text += f", after {checks} learning-rate checks of {steps:,} steps"
    return f"{text}; {data}"


def _seeds(_context: click.Context, _option: click.Parameter, text: str | None) -> Any:  # noqa: ANN401 - a tuple or None
    if text is None:
        return None
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise click.BadParameter(f"{quoted(text)} is not a list of numbers: write 11,29,47")
    return tuple(map(int, parts))


_RUN_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--data",
        type=_FILE,
        metavar="FILE",
        help="File of stories: text, JSON lines or Parquet; or tinystories, which downloads 19 MB. "
        "Generated stories unless given.",
    ),
    click.option(
        "--out", type=_FOLDER, metavar="DIR", help="Folder of the study (default study-PLAN)."
    ),
    click.option("--resume", is_flag=True, help="Continue the study in DIR."),
    click.option(
        "--seeds",
        callback=_seeds,
        metavar="11,29",
        help="Random seeds instead of the plan's; this makes another plan.",
    ),
    click.option(
        "--only",
        multiple=True,
        metavar="NAME",
        help="Train only this model or run; can be repeated.",
    ),
    click.option(
        "--jobs", type=_COUNT, default=1, metavar="N", help="Number of runs at a time (default 1)."
    ),
    click.option(
        "--device",
        type=click.Choice(["cpu", "cuda", "mps", "auto"]),
        default="cpu",
        show_default=True,
        help="Device to compute on.",
    ),
    click.option(
        "--devices",
        type=_COUNT,
        default=1,
        metavar="N",
        help="Number of devices that share each run (default 1).",
    ),
    click.option(
        "--precision",
        type=click.Choice(["32-true", "64-true"]),
        default="32-true",
        show_default=True,
        help="Floating-point precision.",
    ),
    click.option(
        "--threads",
        type=_COUNT,
        default=1,
        metavar="N",
        help="Threads of each process (default 1).",
    ),
    click.option("--tensorboard", is_flag=True, help="Also write curves to DIR/tensorboard."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
)


def _run_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(_RUN_OPTIONS):
        command = option(command)
    return command


@study.command()
@click.argument("plan_name", metavar="PLAN", type=NAME_OR_PATH)
@_run_options
def run(
    plan_name: str,
    out: Path | None,
    tensorboard: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - the options above
) -> None:
    r"""Train all models of PLAN, then test once.

    PLAN is the name of a built-in plan, or a TOML or JSON file.

    Ctrl-C finishes the step, saves, and prints the command that continues; exit status 130.

    \b
    Examples:
      manyheads study run smoke --out my-smoke
      manyheads study run own-recipe --out own --jobs 2
      manyheads study run three-models --data stories.jsonl --out three
      manyheads study run three-models --data stories.jsonl --out three --resume
    """
    from manyheads.cli.study_progress import watching
    from manyheads.study.machine import is_first_process
    from manyheads.study.plan import plan
    from manyheads.study.run import run_study
    from manyheads.study.site import Stopped

    chosen = plan(plan_name)
    folder = out or Path(f"study-{chosen.name}")
    try:
        with watching(folder / "tensorboard" if tensorboard else None) as report:
            result = run_study(chosen, out=folder, report=report, **options)
    except Stopped as stopped:
        if is_first_process():
            click.echo(
                f"manyheads: stopped: {stopped}; continue with: {_again(plan_name)}", err=True
            )
        raise click.exceptions.Exit(130) from stopped
    if is_first_process():
        _show(result, plan_name, folder, as_json)


def _show(result: "StudyResult | None", plan_name: str, folder: Path, as_json: bool) -> None:
    if result is None:
        click.echo(f"manyheads: to train the other runs: {_again(plan_name, 'only')}", err=True)
    if as_json:
        click.echo("null" if result is None else result.to_json())
    elif result is not None:
        click.echo(f"{result}\n\nResults: {folder / 'results.json'}")


def _again(plan_name: str, *without: str) -> str:
    """The current command with --resume, and without some of its options."""
    options = _given(click.get_current_context(), ("resume", *without))
    return " ".join(["manyheads study run", shlex.quote(plan_name), *options, "--resume"])


def _given(context: click.Context, without: tuple[str, ...]) -> list[str]:
    """The options that were given, as they would be typed."""
    found: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if not isinstance(parameter, click.Option) or name in without:
            continue
        if source == ParameterSource.COMMANDLINE:
            found += _typed(parameter, context.params[name])
    return found


def _typed(option: click.Option, value: object) -> list[str]:
    """An option as it would be typed."""
    name = option.opts[0]
    if option.is_flag:
        return [name]
    if isinstance(value, tuple) and not option.multiple:
        return [name, ",".join(map(str, value))]
    values = value if isinstance(value, tuple) else (value,)
    return [word for each in values for word in (name, shlex.quote(str(each)))]
