"""`manyheads look ablate` and `look corpus`: heads over many sequences."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from manyheads.cli.look_model import json_option, model_options, open_named, seed_option
from manyheads.cli.types import FilePath, InputPath, IntRange

if TYPE_CHECKING:
    from torch import Tensor

    from manyheads.looking.opening import Opened

NUM_STORIES, STORY_TOKENS = 16, 48


@click.command()
@model_options
@click.option(
    "--heads",
    "names",
    required=True,
    metavar="L.H,...",
    help="Heads to remove together, such as 18.6,3.0; both numbers count from 0.",
)
@click.option(
    "--data",
    type=InputPath(dir_okay=False),
    metavar="FILE",
    help="Texts to predict, one per line; generated stories unless given.",
)
@click.option(
    "--by",
    type=click.Choice(["zero", "mean"]),
    default="zero",
    show_default=True,
    help="Message that takes the place of a head's own: zero, or its mean over the data.",
)
@click.option(
    "--controls",
    type=IntRange(0, 10_000),
    default=12,
    show_default=True,
    metavar="N",
    help="Draws of as many other heads in the same layers.",
)
@seed_option
@json_option
def ablate(
    model: str,
    download: bool,
    names: str,
    data: Path | None,
    as_json: bool,
    **settings: Any,  # noqa: ANN401 - by, controls and seed
) -> None:
    r"""Remove heads of MODEL and measure the change of the loss.

    \b
    Example:
      manyheads look ablate four-heads --heads 0.1 --controls 3
    """
    from manyheads.core.tables import text_from_table
    from manyheads.looking.ablation import ablate as remove
    from manyheads.looking.terminal import ablation_table

    opened = open_named(model, download)
    heads = [name.strip() for name in names.split(",")]
    ids = _rows(opened, _lines(data, settings["seed"]))
    found = remove(opened.model, ids, heads, **settings)
    click.echo(json.dumps(found.to_dict()) if as_json else text_from_table(ablation_table(found)))


@click.command()
@model_options
@click.option(
    "--data",
    type=InputPath(dir_okay=False),
    metavar="FILE",
    help="Texts to read, one per line; generated stories unless given.",
)
@click.option(
    "--block",
    type=IntRange(1, 1 << 20),
    default=256,
    show_default=True,
    metavar="N",
    help="Queries at a time.",
)
@click.option(
    "--resume",
    type=FilePath(dir_okay=False),
    metavar="FILE",
    help="State of the run; a run that was stopped continues from it.",
)
@click.option(
    "--merge",
    "parts",
    type=FilePath(exists=True, dir_okay=False),
    multiple=True,
    metavar="FILE",
    help="State of a process to join, in place of reading texts. May be repeated.",
)
@json_option
def corpus(
    model: str,
    download: bool,
    data: Path | None,
    block: int,
    resume: Path | None,
    parts: Sequence[Path],
    as_json: bool,
) -> None:
    r"""Measure every head of MODEL over many texts, in blocks of queries.

    Under torchrun each process reads its share; join their states with --merge.

    \b
    Example:
      manyheads look corpus four-heads --block 16
    """
    from manyheads.core.tables import text_from_table
    from manyheads.looking.streaming import load_statistics, merged
    from manyheads.looking.terminal import corpus_table

    if parts:
        found = merged([load_statistics(path) for path in parts])
    else:
        found = _measured(open_named(model, download), _lines(data, 0), block, resume)
    click.echo(json.dumps(found.to_dict()) if as_json else text_from_table(corpus_table(found)))


def _measured(opened: "Opened", texts: Sequence[str], block: int, resume: Path | None) -> Any:  # noqa: ANN401
    from rich.console import Console
    from rich.progress import Progress

    from manyheads.looking.streaming import corpus_statistics

    batches = [_ids(opened, text) for text in texts]
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("texts", total=len(batches))
        return corpus_statistics(
            opened.model,
            batches,
            block,
            resume,
            on_batch=lambda found: progress.update(task, completed=found.num_batches),
        )


def _lines(data: Path | None, seed: int) -> list[str]:
    """Texts of a file, or generated stories."""
    from manyheads.core.errors import LookError
    from manyheads.core.files import read_file
    from manyheads.data.stories import generate_stories

    if data is None:
        return list(generate_stories(NUM_STORIES, seed=seed))
    try:
        texts = [line for line in read_file(data).decode().splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise LookError(f"data ({data}) is not UTF-8 text: convert it") from error
    if not texts:
        raise LookError(f"data ({data}) has no text: write one per line")
    return texts


def _rows(opened: "Opened", texts: Sequence[str]) -> "Tensor":
    """Token ids of one length: the shortest text sets it, up to a limit."""
    import torch

    rows = [_ids(opened, text)[0] for text in texts]
    length = min(*(len(row) for row in rows), _context(opened), STORY_TOKENS)
    return torch.stack([row[:length] for row in rows])


def _ids(opened: "Opened", text: str) -> "Tensor":
    import torch

    from manyheads.core.errors import LookError

    if opened.tokenizer is None:
        raise LookError("model has no tokenizer: texts need one")
    ids = torch.tensor([opened.tokenizer.encode(text)])[:, : _context(opened)]
    if not ids.numel():
        raise LookError("a text gives no tokens: leave its line out")
    return ids


def _context(opened: "Opened") -> int:
    """Tokens that a model of the package can read; others are not cut."""
    found = getattr(getattr(opened.model, "config", None), "context", None)
    return found if isinstance(found, int) else 1 << 30
