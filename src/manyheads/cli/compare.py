"""`manyheads compare`: whether two implementations compute the same, and where they depart."""

from pathlib import Path
from typing import Any

import click

from manyheads.cli.check import check_page, declarations, declared_by, warn_of_subjects
from manyheads.cli.types import FilePath, FloatRange
from manyheads.core.errors import ConfigError, SubjectError
from manyheads.core.files import reason_of, write_whole
from manyheads.verify.comparison import AGREEMENTS
from manyheads.verify.comparison_html import page_from_comparison
from manyheads.verify.comparison_report import Comparison
from manyheads.verify.comparison_text import text_from_comparison
from manyheads.verify.isolation import Limits, can_isolate
from manyheads.verify.report_html import write_page
from manyheads.verify.subject import Subject

_DTYPES = ("float64", "float32", "bfloat16", "float16")
_COLOURS = dict(zip(AGREEMENTS, ("green", "red", "yellow"), strict=True))


@click.command()
@click.argument("first", metavar="A.py:NAME")
@click.argument("second", required=False, metavar="B.py:NAME")
@declarations
@click.option("--dtype", type=click.Choice(_DTYPES), help="Run the second in this type too.")
@click.option("--device", metavar="D", help="Run the second on this device too: cuda or cpu.")
@click.option("--compile", "is_compiled", is_flag=True, help="Run the second compiled too.")
@click.option("--map", "with_map", is_flag=True, help="Show which parameter is which.")
@click.option(
    "--conversion",
    type=FilePath(dir_okay=False),
    help="Write Python code that converts a state dict of the first into one of the second.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON document.")
@click.option(
    "--html",
    "page",
    type=FilePath(dir_okay=False),
    help="Also write the result as an HTML page with both sources.",
)
@click.option(
    "--allow-undetermined", is_flag=True, help="Exit with 0 if the verdict is undetermined."
)
@click.option(
    "--time-limit",
    type=FloatRange(0.001, 86400.0),
    default=120.0,
    show_default=True,
    metavar="S",
    help="Processor time for both, in seconds.",
)
def compare(
    first: str,
    second: str | None,
    with_map: bool,
    conversion: Path | None,
    as_json: bool,
    page: Path | None,
    allow_undetermined: bool,
    **options: Any,  # noqa: ANN401 - the declarations of `check`, and the setting
) -> None:
    r"""Compare two attention modules or functions, and show where they depart.

    Both get the same weights, matched by what each does with them, and the same inputs. The result
    is the largest difference of their outputs, or the first step at which they depart with the line
    of each. The options declare what both compute, as for `check`; in place of A.py:NAME you can
    give a subject file (SUBJECT.json), which declares one of them. Without the second, the first is
    compared with itself by --dtype, --device or --compile.

    This command RUNS THE CODE of both, in a separate process: compare only code that you trust.
    Exit status: 0 equal, 1 different or undetermined, 2 wrong use.

    \b
    Examples:
      manyheads compare mine.py:Attention theirs.py:Attention
      manyheads compare mine.py:Attention theirs.py:make --submodule layers.0.attn --map
      manyheads compare mine.py:Attention --dtype bfloat16
    """
    setting = {name: options[name] for name in ("dtype", "device", "is_compiled")}
    if second is None and not any(setting.values()):
        raise click.UsageError("give a second B.py:NAME, or --dtype, --device or --compile")
    declared = declared_by(options)
    subjects = (_subject(first, declared), _subject(second or first, declared))
    warn_of_subjects(subjects)
    check_page(page)
    made = _compared(subjects, setting, Limits(seconds=options["time_limit"]))
    if page is not None:
        write_page(page, page_from_comparison(made))
    if conversion is not None:
        _write_conversion(conversion, made)
    click.echo(made.to_json() if as_json else _text(made, with_map))
    if made.verdict == "different" or (made.verdict != "equal" and not allow_undetermined):
        raise click.exceptions.Exit(1)


def _subject(target: str, declared: dict[str, Any]) -> Subject:
    from manyheads.verify.subject_files import read_subject, subject_from_declared

    if not target.lower().endswith(".json"):
        return subject_from_declared(target, declared, folder=Path.cwd())
    read = read_subject(Path(target))
    return subject_from_declared(read.target, declared, read, folder=read.folder)


def _compared(
    subjects: tuple[Subject, Subject], setting: dict[str, Any], limits: Limits
) -> Comparison:
    """The comparison, made in a process of its own where the system can fork."""
    from manyheads.verify.compare_files import compare_subjects

    return compare_subjects(subjects, limits if can_isolate() else None, **setting)


def _write_conversion(path: Path, made: Comparison) -> None:
    if not made.map:
        raise SubjectError(f"--conversion ({path}): the weights were not matched: {made.says}")
    try:
        write_whole(path, made.conversion.encode())
    except OSError as error:
        raise ConfigError(
            f"--conversion ({path}) cannot be written: {reason_of(error)}: choose another place"
        ) from error


def _text(made: Comparison, with_map: bool) -> str:
    text, length = text_from_comparison(made, with_map=with_map), len(made.verdict)
    return click.style(text[:length], fg=_COLOURS[made.verdict], bold=True) + text[length:]
