"""Options that several commands for learners share."""

import click

from manyheads.cli.types import FilePath

DATA = click.option(
    "--data",
    type=FilePath(file_okay=False),
    metavar="DIR",
    help="Folder of your answers (default: your user data folder).",
)
"""The folder of the learner's own files."""
PAPER = click.option(
    "--paper",
    type=click.Choice(("a4", "letter"), case_sensitive=False),
    default="a4",
    show_default=True,
    help="Paper size of the PDF.",
)
"""The paper of a printed sheet."""
FONT = click.option(
    "--font",
    type=FilePath(),
    metavar="FILE.ttf",
    help="Font file for characters that the default fonts lack, such as Chinese.",
)
"""A font for further characters."""
FORCE = click.option("--force", is_flag=True, help="Replace an existing file.")
"""Whether a file may be replaced."""
