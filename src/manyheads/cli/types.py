"""Types of options and arguments, the same for all commands.

Numbers are written with the digits 0 to 9: Python also reads `1_0`, `nan` and the digits of other
scripts, which in an option are more likely mistakes. A path may not name a device, because reading
one can wait forever, and a pipe only where `core/files.py: read_file` reads it.
"""

import errno
import math
import os
import re
import stat
from pathlib import Path
from typing import Any, NoReturn

import click

from manyheads.core.files import reason_of
from manyheads.core.text import brief, quoted

_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*")
_DECIMAL = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")


class Integer(click.types.IntParamType):
    """An integer."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 - a text or a default
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> int:
        """Read the integer of an option."""
        if isinstance(value, str) and not _INTEGER.fullmatch(value):
            _refuse(value, "integer", "12", param, ctx)
        return super().convert(value, param, ctx)


class IntRange(Integer, click.IntRange):
    """An integer between two limits, both allowed."""


class Number(click.types.FloatParamType):
    """A finite number."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 - a text or a default
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Read the number of an option."""
        is_number = not isinstance(value, str) or _DECIMAL.fullmatch(value)
        if not is_number or not math.isfinite(float(value)):
            _refuse(value, "number", "0.5", param, ctx)
        return super().convert(value, param, ctx)


class FloatRange(Number, click.FloatRange):
    """A finite number between two limits, both allowed."""


class FilePath(click.Path):
    """The path of a file that exists or is to be written; neither a pipe nor a device."""

    def __init__(
        self, *, exists: bool = False, file_okay: bool = True, dir_okay: bool = True
    ) -> None:
        super().__init__(exists=exists, file_okay=file_okay, dir_okay=dir_okay, path_type=Path)

    def convert(
        self,
        value: Any,  # noqa: ANN401 - a text or a default
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401 - a Path, which click's annotation does not express
        """Read the path of an option."""
        mode = _mode_of(self, value, param, ctx)
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or self.takes(mode)):
            shown = repr(brief(str(path)))
            self.fail(f"{shown} is a pipe or a device: give a regular file.", param, ctx)
        return path

    def takes(self, mode: int) -> bool:
        """Whether what is neither a file nor a folder may be named; a mode of 0 is nothing yet."""
        return mode == 0


class InputPath(FilePath):
    """The path of a small file to read; `-` is standard input, and a pipe may be read."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 - a text or a default
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401 - as above
        """Read the path of an option."""
        return super().convert(STANDARD_INPUT if value == "-" else value, param, ctx)

    def takes(self, mode: int) -> bool:
        """A pipe that no program writes to is refused when it is read."""
        return mode == 0 or stat.S_ISFIFO(mode)


class NameOrPath(click.types.StringParamType):
    """The name of something that comes with the package, or the path of a file; it stays text."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 - a text or a default
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str:
        """Read the name or path."""
        _mode_of(self, value, param, ctx)
        return str(value)


STANDARD_INPUT = "/dev/stdin"
INTEGER = Integer()
NUMBER = Number()
NAME_OR_PATH = NameOrPath()


def _mode_of(
    kind: "click.ParamType[Any]",
    path: str | Path,
    param: click.Parameter | None,
    ctx: click.Context | None,
) -> int:
    """The file mode of what a path names, 0 if there is nothing; an impossible path is refused."""
    if not os.fspath(path):  # as an unset variable of a shell gives it; Path("") is this folder
        kind.fail("it is empty: give a path, or . for the current folder.", param, ctx)
    try:
        return os.stat(path).st_mode
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            kind.fail(f"{brief(str(path))!r}: {reason_of(error)}: give another path.", param, ctx)
        return 0


def _refuse(
    value: object, kind: str, example: str, param: click.Parameter | None, ctx: click.Context | None
) -> NoReturn:
    raise click.BadParameter(
        f"{quoted(value)} is not a valid {kind}: use the digits 0 to 9, such as {example}.",
        ctx=ctx,
        param=param,
    )
