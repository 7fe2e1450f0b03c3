"""Reads answers from a person or from a file: one line per answer."""

import sys
from collections.abc import Callable
from io import BufferedIOBase
from pathlib import Path
from typing import TypeVar

import click

from manyheads.core.errors import LearnError
from manyheads.core.tables import wrapped
from manyheads.core.text import brief, printable

LONGEST_LINE = 40_000
"""Maximum number of bytes read from a line; the rest of it is ignored."""
_YES, _NO = ("y", "yes"), ("n", "no")
Answer = TypeVar("Answer")


class EndOfAnswers(Exception):  # noqa: N818 - an ending, not an error
    """Standard input has no more lines."""


class Asker:
    """Asks on standard output, or on standard error if standard output is for JSON.

    In a terminal, it asks again after an answer that cannot be read. In a file or a pipe, each line
    answers one prompt, whatever its content.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.is_person = sys.stdin is not None and sys.stdin.isatty()
        self.is_json = as_json
        self._is_silent = as_json and not self.is_person

    def say(self, text: str = "", indent: str = "  ", later: str = "") -> None:
        """Show paragraphs in 80 columns, with an empty line between them."""
        if self._is_silent:
            return
        for number, paragraph in enumerate(text.split("\n\n")):
            lines = wrapped(paragraph, indent, later)
            click.echo("\n".join(["", *lines] if number else lines), err=self.is_json)

    def say_kept(self, path: Path) -> None:
        """Print the path of the saved answers, without breaking it over lines."""
        if not self._is_silent:
            click.echo(f"  {kept_text(path)}", err=self.is_json)

    def line(self, what: str = "") -> str:
        """Ask for one line.

        Args:
            what: the prompt.

        Raises:
            EndOfAnswers: there is none.
            LearnError: it is too long to be an answer.
        """
        if not self._is_silent:
            click.echo(f"  {what}> ", nl=False, err=self.is_json)
        line = _read_line()
        if not self._is_silent and (line is None or not self.is_person):
            click.echo("", err=self.is_json)
        if line is None:
            raise EndOfAnswers
        if len(line) > LONGEST_LINE:
            raise LearnError(f"answer (more than {LONGEST_LINE} bytes) is too long: shorten it")
        return line.decode(errors="replace").strip()

    def ask(self, what: str, read: Callable[[str], Answer]) -> Answer | None:
        """Ask until an answer can be read; from a file or a pipe, once.

        Args:
            what: the prompt.
            read: converts the line, or raises LearnError.

        Returns:
            The answer, or None for an empty line, or where it could not be read.

        Raises:
            EndOfAnswers: there is none.
        """
        while True:
            try:
                line = self.line(what)
                return read(line) if line else None
            except LearnError as error:
                self.warn(str(error))
                if not self.is_person:
                    return None

    def yes(self, what: str) -> bool | None:
        """Ask for yes or no; None for an empty line.

        Raises:
            EndOfAnswers: there is none.
        """
        return self.ask(f"{what} [y/n] ".lstrip(), _yes_or_no)

    def warn(self, text: str) -> None:
        """Print an error on standard error: in 80 columns for a person, else on one line."""
        said = printable(text)
        lines = wrapped(said, "  ") if self.is_person else [f"  {said}"]
        click.echo("\n".join(lines), err=True)


def kept_text(path: Path) -> str:
    """The line that names the file of the answers."""
    return f"Saved in {printable(str(path))}"


def _yes_or_no(line: str) -> bool:
    word = line.lower()
    if word not in (*_YES, *_NO):
        raise LearnError(f"answer ({brief(word, 20)}) must be y or n: type one of them")
    return word in _YES


def _read_line() -> bytes | None:
    """The next line without its end; longer ones are cut a little above the limit."""
    stream = _bytes_of_input()
    line = stream.readline(LONGEST_LINE + 1) if stream else b""
    if not line:
        return None
    rest = line
    while stream and rest and not rest.endswith(b"\n"):
        rest = stream.readline(1 << 16)
    return line.rstrip(b"\r\n")


def _bytes_of_input() -> BufferedIOBase | None:
    stream = getattr(sys.stdin, "buffer", None)
    return stream if isinstance(stream, BufferedIOBase) else None
