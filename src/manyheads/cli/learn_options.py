"""The option of commands that keep the learner's own files."""

from pathlib import Path

import click

DATA = click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of your own files; your user data folder unless given.",
)
"""Where they lie."""
