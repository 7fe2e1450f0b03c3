"""`manyheads check`: is this attention correct and, if not, which fault does it have?"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from manyheads.cli.types import NUMBER, FilePath, FloatRange, IntRange
from manyheads.core.config import RotaryStyle
from manyheads.core.errors import SubjectError
from manyheads.core.text import brief
from manyheads.verify.findings import Verdict
from manyheads.verify.isolation import Examined, Limits, can_isolate, examine_subjects
from manyheads.verify.report import VerifyReport, plain
from manyheads.verify.report_html import page_from_reports, write_page
from manyheads.verify.report_text import text_from_report, text_from_reports
from manyheads.verify.report_words import clean
from manyheads.verify.subject import (
    AXES,
    CONVENTIONS,
    FORMS,
    FULLY_MASKED,
    LAYOUTS,
    RETURNS,
    WEIGHTS_AXES,
    Subject,
)

_COUNT = IntRange(1, 1 << 16)
_FILE = FilePath(exists=True, dir_okay=False)


def _count(name: str, text: str) -> Callable[[Any], Any]:
    return click.option(name, type=_COUNT, metavar="N", help=text)


def _choice(name: str, options: Sequence[str], text: str) -> Callable[[Any], Any]:
    return click.option(name, type=click.Choice(list(options)), help=text)


_DECLARATIONS = (
    _count("--embed-dim", "Width D of the input."),
    _count("--num-heads", "Number of query heads H."),
    _count("--num-kv-heads", "Number of key/value heads G (default H)."),
    _count("--head-dim", "Width of one head (default D / H)."),
    _count("--v-head-dim", "Width of one value head (default: the head width)."),
    _count("--kdim", "Width of the key input (default D)."),
    _count("--vdim", "Width of the value input (default: that of the key input)."),
    click.option("--scale", type=NUMBER, help="Factor of the scores (default 1/sqrt(head width))."),
    _choice("--causal", ["always"], "The module is causal on every call."),
    _count("--window", "Number of keys that a query sees, including its own position."),
    _choice("--rope", get_args(RotaryStyle), "Rotary positions with this pairing of channels."),
    click.option(
        "--rope-base", type=NUMBER, metavar="X", help="Base of the rotary angles (default 10000)."
    ),
    _count("--rope-dim", "Number of channels of each head that are rotated (default: all)."),
    click.option("--alibi", is_flag=True, help="Linear position bias (ALiBi) on the scores."),
    click.option(
        "--dropout",
        type=FloatRange(0, 1),
        help="Fraction of weights dropped in training, 0 to 1.",
    ),
    _choice("--fully-masked", FULLY_MASKED, "Declared output of a query without any allowed key."),
    _choice(
        "--form",
        FORMS,
        "How the module is called: self f(x), cross f(x, context), qkv f(query, key, value), "
        "heads f(q, k, v), cache f(x, cache), static_cache f(x, start).",
    ),
    _choice("--layout", LAYOUTS, "Axes of the input in order: B batch, T positions, E channels."),
    click.option(
        "--mask",
        "masks",
        multiple=True,
        metavar="ARG:AXES:CONVENTION",
        help=f"A mask argument. AXES: {', '.join(AXES)}. CONVENTION: {', '.join(CONVENTIONS)}.",
    ),
    click.option("--causal-arg", metavar="NAME", help="Keyword argument that turns causality on."),
    _choice("--returns", RETURNS, "What a call returns."),
    _choice("--weights-axes", WEIGHTS_AXES, "Axes of the returned weights (default BHTS)."),
    click.option(
        "--arg",
        "arguments",
        multiple=True,
        metavar="NAME=VALUE",
        help="Constructor argument; can be repeated.",
    ),
    click.option(
        "--spec",
        "more",
        metavar="JSON",
        help="More fields of spec, as in a subject file: qk_norm, softcap, sinks, bias, gate, "
        "position (see docs/check.md).",
    ),
    click.option(
        "--params",
        metavar="JSON",
        help="Where the weights are, as in a subject file (see docs/check.md).",
    ),
    click.option(
        "--submodule", metavar="PATH", help="Path of the attention inside the built object."
    ),
)
_SAME_NAME = (
    *("embed_dim", "num_heads", "num_kv_heads", "head_dim", "v_head_dim", "kdim", "vdim", "scale"),
    *("causal", "window", "dropout", "fully_masked", "form", "layout", "causal_arg", "returns"),
    *("weights_axes", "submodule"),
)


def declarations(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that declare what a subject computes."""
    for option in reversed(_DECLARATIONS):
        command = option(command)
    return command


@click.command()
@click.argument("target", required=False, metavar="FILE.py:NAME")
@declarations
@click.option("--subject", "subject_file", type=_FILE, help="Read the subject from a JSON file.")
@click.option("--subjects", "manifest", type=_FILE, help="Read several subjects from a JSON file.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON document.")
@click.option(
    "--html",
    "page",
    type=FilePath(dir_okay=False),
    help="Also write the report as an HTML page.",
)
@click.option(
    "--allow-undetermined", is_flag=True, help="Exit with 0 if the verdict is undetermined."
)
@click.option(
    "--allow-nonstandard", is_flag=True, help="Exit with 0 if the verdict is nonstandard."
)
@click.option(
    "--time-limit",
    type=FloatRange(0.001, 86400.0),
    default=60.0,
    show_default=True,
    metavar="S",
    help="Processor time for each subject, in seconds.",
)
@click.option(
    "--jobs",
    type=IntRange(1, 64),
    metavar="N",
    help="Number of subjects to run at the same time (default 2).",
)
def check(
    target: str | None,
    subject_file: Path | None,
    manifest: Path | None,
    as_json: bool,
    page: Path | None,
    allow_undetermined: bool,
    allow_nonstandard: bool,
    **options: Any,  # noqa: ANN401 - the declarations above
) -> None:
    r"""Check an attention module or function, and name its fault if it has one.

    Options declare what the module computes. What you do not declare is inferred and listed in the
    report. This command RUNS THE CODE of the module, in a separate process: check only code that
    you trust. Exit status: 0 sound, 1 nonstandard, faulty or undetermined, 2 wrong use.

    \b
    Examples:
      manyheads check my_file.py:MyAttention --embed-dim 32 --num-heads 4
      manyheads check models.py:make_model --submodule encoder.layers.0.attn --num-heads 4
      manyheads check --subjects manifest.json --json
    """
    subjects = _subjects(target, subject_file, manifest, options)
    warn_of_subjects(subjects)
    check_page(page)
    examined = _examined(subjects, options["time_limit"], options["jobs"])
    if manifest is None and examined[0].refused is not None:
        raise SubjectError(examined[0].refused)
    reports = [one.report for one in examined]
    if page is not None:  # first, so that it is written even where nobody reads the text
        write_page(page, page_from_reports(reports))
    click.echo(_json(reports, manifest) if as_json else _text(reports, manifest))
    allowed = {"undetermined": allow_undetermined, "nonstandard": allow_nonstandard}
    accepted = {"sound", *(verdict for verdict, is_allowed in allowed.items() if is_allowed)}
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
    from manyheads.verify.subject_files import read_manifest, read_subject, subject_from_declared

    declared = declared_by(options)
    if target is not None:
        return [subject_from_declared(target, declared, folder=Path.cwd())]
    if declared:
        names = ", ".join(declared)
        raise click.UsageError(f"{names} cannot be declared together with a file: use the file")
    return [read_subject(subject_file)] if subject_file else read_manifest(manifest or Path())


def declared_by(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that declare something, by the names of a subject's fields."""
    found = {name: options[name] for name in _SAME_NAME if options[name] is not None}
    position = _position(options)
    if position is not None:
        found["position"] = position
    if options["masks"]:
        found["masks"] = [_mask(text) for text in options["masks"]]
    if options["arguments"]:
        found["kwargs"] = dict(_argument(text) for text in options["arguments"])
    if options["more"] is not None:
        found |= _more(options["more"], found)
    if options["params"] is not None:
        found["params"] = _json_of(options["params"], "--params")
    return found


def _more(text: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `--spec`, none of which another option gives."""
    from manyheads.verify.subject_files import SPEC

    given = _json_of(text, "--spec")
    if not isinstance(given, dict):
        raise click.UsageError(f"--spec ({brief(text)}) must be a JSON object: use {{...}}")
    for name in given:
        if name not in SPEC:
            raise click.UsageError(f"--spec: {name} is not known: use {', '.join(SPEC)}")
        if name in found:
            raise click.UsageError(f"--spec: {name} has an option of its own: give one of them")
    return given


def _position(options: Mapping[str, Any]) -> dict[str, Any] | None:
    rope, base, dim = options["rope"], options["rope_base"], options["rope_dim"]
    if options["alibi"] and (rope or base is not None):
        raise click.UsageError("--alibi and --rope cannot be used together: give one")
    for option, value in (("--rope-base", base), ("--rope-dim", dim)):
        if value is not None and rope is None:
            raise click.UsageError(f"{option} needs --rope half or --rope interleaved")
    if rope is not None:
        width = {} if dim is None else {"rotary_dim": dim}
        return {"type": "rope", "style": rope, "base": 10000.0 if base is None else base, **width}
    return {"type": "alibi"} if options["alibi"] else None


def _mask(text: str) -> dict[str, str]:
    parts = text.split(":")
    if len(parts) != 3 or not all(parts):
        raise click.UsageError(
            f"--mask ({brief(text)}) must be ARG:AXES:CONVENTION: write pad:BS:blocked, say"
        )
    return dict(zip(("arg", "axes", "convention"), parts, strict=True))


def _argument(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise click.UsageError(f"--arg ({brief(text)}) must be NAME=VALUE: for instance bias=false")
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
        why = brief(str(error))
        raise click.UsageError(f"{where} ({brief(text)}) is not JSON: {why}") from error


def warn_of_subjects(subjects: Sequence[Subject | SubjectError]) -> None:
    """Say which fields are ignored, and what this system cannot do."""
    for subject in subjects:
        unknown = getattr(subject, "unknown", ())
        if unknown:
            name = getattr(subject, "id", None) or getattr(subject, "target", "")
            text = f"{name}: unknown fields are ignored: {', '.join(unknown)}"
            click.echo(f"manyheads: warning: {clean(text)}", err=True)
    if not can_isolate():
        text = "this system has no fork: subjects run in this process, without a time limit"
        click.echo(f"manyheads: warning: {text}", err=True)


def check_page(page: Path | None) -> None:
    """Refuse a page that cannot be written, before anything runs."""
    if page is not None and not page.absolute().parent.is_dir():
        folder = page.absolute().parent
        raise click.UsageError(f"--html ({page}): no folder {folder}: create it first")


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
    if manifest is not None:
        return text_from_reports(reports)
    return _painted(text_from_report(reports[0]), reports[0])


_COLOURS: dict[Verdict, str] = {
    **{"sound": "green", "nonstandard": "magenta", "faulty": "red", "undetermined": "yellow"}
}


def _painted(text: str, report: VerifyReport) -> str:
    """The text with its first word, the verdict, in colour; click removes it outside terminals."""
    length = len(report.verdict)
    return click.style(text[:length], fg=_COLOURS[report.verdict], bold=True) + text[length:]
