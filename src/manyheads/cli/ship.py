"""`python -m manyheads.cli.ship`: carry a study's models into the package."""

import sys
from functools import partial
from pathlib import Path

import click

from manyheads.cli.types import INTEGER, FilePath
from manyheads.core.errors import ManyHeadsError

_FOLDER = FilePath(file_okay=False)
_AT_ONCE = 512


@click.command()
@click.argument("study", metavar="STUDY_DIR", type=_FOLDER)
@click.argument("out", metavar="OUT_DIR", type=_FOLDER)
@click.option("--seed", type=INTEGER, default=11, show_default=True, help="Whose runs are taken.")
@click.option(
    "--data",
    type=FilePath(dir_okay=False),
    help="The file of stories that the study was run on; the plan's own source unless given.",
)
def ship(study: Path, out: Path, seed: int, data: Path | None) -> None:
    r"""Write a study's models of one seed as float16, with tokenizer, hashes and model card.

    \b
    Example:
      python -m manyheads.cli.ship runs/own-recipe src/manyheads/checkpoints/data --data FILE
    """
    import torch

    from manyheads.checkpoints.shipping import ship as ship_models
    from manyheads.models.heroes import beginnings_of, measure_heroes
    from manyheads.study.corpus import corpus_for
    from manyheads.study.plan import plan as read_plan
    from manyheads.study.train import validation_slice

    torch.set_num_threads(1)  # as studies do; single words are slower with more
    plan = read_plan(study / "plan.toml")
    corpus = corpus_for(plan, data)
    parts = validation_slice(plan, corpus).split(_AT_ONCE)
    windows = [corpus.validation.windows(part) for part in parts]
    batches = [(tokens, targets[:, 0]) for tokens, targets in windows]
    words = corpus.tokenizer.words
    stories = ([words[index] for index in story] for story in corpus.validation.stories())
    measure = partial(
        measure_heroes, tokenizer=corpus.tokenizer, beginnings=beginnings_of(stories, known=words)
    )
    index = ship_models(
        study, out, seed=seed, batches=batches, heroes=lambda model: measure(model).to_dict()
    )
    for name, entry in index["models"].items():
        gap = entry["validation_loss_float16"] - entry["validation_loss"]
        click.echo(f"{name}: {entry['size']:,} bytes, float16 costs {gap:+.1e} nats")


if __name__ == "__main__":
    try:
        ship.main(standalone_mode=False)
    except (ManyHeadsError, click.ClickException) as error:
        said = error.format_message() if isinstance(error, click.ClickException) else str(error)
        click.echo(f"manyheads: {' '.join(said.split())}", err=True)
        sys.exit(2)
