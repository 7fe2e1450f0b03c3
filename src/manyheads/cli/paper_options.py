"""Options of commands that print on paper."""

from pathlib import Path

import click

PAPER = click.option(
    "--paper",
    type=click.Choice(("a4", "letter"), case_sensitive=False),
    default="a4",
    show_default=True,
    help="The paper of a PDF.",
)
"""How large the paper is."""
FONT = click.option(
    "--font",
    type=click.Path(path_type=Path),
    metavar="FILE.ttf",
    help="A font with the characters that DejaVu Sans lacks, such as Chinese ones.",
)
"""What prints further characters."""
FORCE = click.option("--force", is_flag=True, help="Replace a file that is there.")
"""Whether a file may be replaced."""
