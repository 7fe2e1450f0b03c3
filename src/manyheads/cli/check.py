"""`manyheads check`: is this attention sound and, if not, which mistake is it?"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from manyheads.core.errors import SubjectError
from manyheads.verify.batch import examine_subjects
from manyheads.verify.declared import subject_from_declared
from manyheads.verify.examine import Examined
from manyheads.verify.isolation import Limits, can_isolate
from manyheads.verify.report import VerifyReport
from manyheads.verify.report_html import write_page
from manyheads.verify.report_json import plain
from manyheads.verify.report_text import clean, text_from_report, text_from_reports
from manyheads.verify.subject import (
    FORMS,
    LAYOUTS,
    RETURNS,
    Subject,
    read_manifest,
    read_subject,
)

_COUNT = click.IntRange(1, 1 << 16)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def _count(name: str, text: str) -> Callable[[Any], Any]:
    return click.option(name, type=_COUNT, metavar="N", help=text)


def _choice(name: str, options: Sequence[str], text: str) -> Callable[[Any], Any]:
    return click.option(name, type=click.Choice(list(options)), help=text)


_DECLARATIONS = (
    _count("--embed-dim", "Width D of the input."),
    _count("--num-heads", "Query heads H."),
    _count("--num-kv-heads", "Key/value heads G; H unless given."),
    _count("--head-dim", "Width of one head; D / H unless given."),
    _count("--v-head-dim", "Width of one value head."),
    _count("--kdim", "Width of the key input."),
    _count("--vdim", "Width of the value input."),
    click.option(
        "--scale", type=float, help="Factor of the scores; 1/sqrt(head width) unless given."
    ),
    _choice("--causal", ["always"], "Causal without being asked."),
    _count("--window", "Keys a query sees, itself included."),
    _choice("--rope", ["half", "interleaved"], "Rotary positions with this pairing."),
    click.option("--rope-base", type=float, metavar="X", help="Base of the rotary angles; 10000."),
    click.option("--alibi", is_flag=True, help="Linear position bias on the scores."),
    click.option(
        "--dropout", type=click.FloatRange(0, 1), help="Share of weights dropped in training."
    ),
    _choice("--fully-masked", ["zero", "unspecified"], "What a row without allowed keys gives."),
    _choice("--form", FORMS, "Call form: f(x), f(x, context), f(query, key, value), ..."),
    _choice("--layout", LAYOUTS, "Order of the input's axes."),
    click.option(
        "--mask",
        "masks",
        multiple=True,
        metavar="ARG:AXES:CONVENTION",
        help="A mask argument. AXES: BS, TS, BTS, B1TS, (BH)TS or B; CONVENTION: allowed, blocked, "
        "additive, one_zero or lengths.",
    ),
    click.option("--causal-arg", metavar="NAME", help="Keyword that asks for causality."),
    _choice("--returns", RETURNS, "What the call returns."),
    _choice("--weights-axes", ["BHTS", "BTS"], "Axes of the returned weights."),
    click.option(
        "--arg", "arguments", multiple=True, metavar="NAME=VALUE", help="Constructor argument."
    ),
    click.option("--params", metavar="JSON", help="Where the weights are, as in a subject file."),
    click.option("--submodule", metavar="PATH", help="The attention inside what is built."),
)
_SAME_NAME = (
    *("embed_dim", "num_heads", "num_kv_heads", "head_dim", "v_head_dim", "kdim", "vdim", "scale"),
    *("causal", "window", "dropout", "fully_masked", "form", "layout", "causal_arg", "returns"),
    *("weights_axes", "submodule"),
)


def _declarations(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(_DECLARATIONS):
        command = option(command)
    return command


def _not_nan(_context: click.Context, _option: click.Parameter, value: float) -> float:
    """NaN passes every range."""
    if value != value:
        raise click.BadParameter("nan is not in the range 0.001<=x<=86400.0.")
    return value


@click.command()
@click.argument("target", required=False, metavar="FILE.py:NAME")
@_declarations
@click.option("--subject", "subject_file", type=_FILE, help="A subject file (JSON).")
@click.option("--subjects", "manifest", type=_FILE, help="A manifest of many subjects (JSON).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "--html", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write a page."
)
@click.option("--allow-undetermined", is_flag=True, help="Exit 0 where nothing faulty was found.")
@click.option(
    "--time-limit",
    type=click.FloatRange(0.001, 86400.0),
    callback=_not_nan,
    default=60.0,
    show_default=True,
    metavar="S",
    help="Seconds that one subject may take.",
)
@click.option("--jobs", type=click.IntRange(1, 64), metavar="N", help="Subjects at a time; 2.")
def check(
    target: str | None,
    subject_file: Path | None,
    manifest: Path | None,
    as_json: bool,
    page: Path | None,
    allow_undetermined: bool,
    **options: Any,  # noqa: ANN401 - the declarations above
) -> None:
    r"""Judge an attention module or function, and name the fault if it has one.

    What is not declared is inferred and said. Checking a subject RUNS ITS CODE, in a process of its
    own: check only code that you would run. Exit status 1: faulty or undetermined.

    \b
    Examples:
      manyheads check my_file.py:MyAttention --embed-dim 32 --num-heads 4
      manyheads check models.py:make_model --submodule encoder.layers.0.attn --num-heads 4
      manyheads check --subjects manifest.json --json
    """
    subjects = _subjects(target, subject_file, manifest, options)
    _warn(subjects)
    _check_page(page)
    examined = _examined(subjects, options["time_limit"], options["jobs"])
    if manifest is None and examined[0].refused is not None:
        raise SubjectError(examined[0].refused)
    reports = [one.report for one in examined]
    click.echo(_json(reports, manifest) if as_json else _text(reports, manifest))
    if page is not None:
        write_page(page, reports)
    accepted = {"sound", "undetermined"} if allow_undetermined else {"sound"}
    if any(report.verdict not in accepted for report in reports):
        raise click.exceptions.Exit(1)


def _subjects(
    target: str | None,
    subject_file: Path | None,
    manifest: Path | None,
    options: Mapping[str, Any],
) -> list[Subject | SubjectError]:
    if [target, subject_file, manifest].count(None) != 2:
        raise click.UsageError("give one of FILE.py:NAME, --subject FILE or --subjects FILE")
    declared = _declared(options)
    if target is not None:
        return [subject_from_declared(target, declared, folder=Path.cwd())]
    if declared:
        names = ", ".join(declared)
        raise click.UsageError(f"{names} cannot be declared beside a file: write it in the file")
    return [read_subject(subject_file)] if subject_file else read_manifest(manifest or Path())


def _declared(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that declare something, by the names of a subject's fields."""
    found = {name: options[name] for name in _SAME_NAME if options[name] is not None}
    position = _position(options)
    if position is not None:
        found["position"] = position
    if options["masks"]:
        found["masks"] = [_mask(text) for text in options["masks"]]
    if options["arguments"]:
        found["kwargs"] = dict(_argument(text) for text in options["arguments"])
    if options["params"] is not None:
        found["params"] = _json_of(options["params"], "--params")
    return found


def _position(options: Mapping[str, Any]) -> dict[str, Any] | None:
    rope, base = options["rope"], options["rope_base"]
    if options["alibi"] and (rope or base is not None):
        raise click.UsageError("--alibi and --rope exclude each other: give one")
    if base is not None and rope is None:
        raise click.UsageError("--rope-base needs --rope half or --rope interleaved")
    if rope is not None:
        return {"type": "rope", "style": rope, "base": 10000.0 if base is None else base}
    return {"type": "alibi"} if options["alibi"] else None


def _mask(text: str) -> dict[str, str]:
    parts = text.split(":")
    if len(parts) != 3 or not all(parts):
        raise click.UsageError(
            f"--mask ({text}) must be ARG:AXES:CONVENTION: for instance key_padding_mask:BS:blocked"
        )
    return dict(zip(("arg", "axes", "convention"), parts, strict=True))


def _argument(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise click.UsageError(f"--arg ({text}) must be NAME=VALUE: for instance bias=false")
    words = {"True": True, "False": False, "None": None}
    if value in words:
        return name, words[value]
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _json_of(text: str, where: str) -> Any:  # noqa: ANN401 - whatever the JSON holds
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{where} ({text}) is no JSON: {error}") from error


def _warn(subjects: Sequence[Subject | SubjectError]) -> None:
    for subject in subjects:
        unknown = getattr(subject, "unknown", ())
        if unknown:
            name = getattr(subject, "id", None) or getattr(subject, "target", "")
            text = f"{name}: unknown fields are ignored: {', '.join(unknown)}"
            click.echo(f"manyheads: warning: {clean(text)}", err=True)
    if not can_isolate():
        text = "this system cannot fork: subjects run in this process, without a time limit"
        click.echo(f"manyheads: warning: {text}", err=True)


def _check_page(page: Path | None) -> None:
    """Before anything runs: can the page be written where it shall be?"""
    if page is not None and not page.absolute().parent.is_dir():
        folder = page.absolute().parent
        raise click.UsageError(f"--html ({page}): there is no folder {folder}: make it first")


def _examined(
    subjects: Sequence[Subject | SubjectError], seconds: float, jobs: int | None
) -> list[Examined]:
    console = Console(stderr=True)
    columns = (TextColumn("checking"), BarColumn(), MofNCompleteColumn())
    # refreshed by hand: a thread that draws would be cut off in the forked processes
    bar = Progress(*columns, console=console, auto_refresh=False, transient=True)
    bar.disable = not console.is_terminal or len(subjects) < 2
    with bar:
        task = bar.add_task("", total=len(subjects))

        def advance(index: int, examined: Examined) -> None:
            bar.update(task, advance=1, refresh=True)

        return examine_subjects(
            subjects, jobs=jobs, limits=Limits(seconds=seconds), on_done=advance
        )


def _json(reports: Sequence[VerifyReport], manifest: Path | None) -> str:
    documents = [plain(report.to_dict()) for report in reports]
    return json.dumps(documents[0] if manifest is None else {"reports": documents})


def _text(reports: Sequence[VerifyReport], manifest: Path | None) -> str:
    return text_from_report(reports[0]) if manifest is None else text_from_reports(reports)
