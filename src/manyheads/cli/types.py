"""Types of options and arguments, the same for all commands.

Numbers are written with the digits 0 to 9: Python also reads `1_0`, `nan` and the digits of other
scripts, which in an option are more likely mistakes. A path may not name a pipe or a device,
because reading one can wait forever.
"""

import math
import os
import re
from pathlib import Path
from typing import Any, NoReturn

import click

from manyheads.core.text import quoted

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

    def __init__(self, *, exists: bool = False, dir_okay: bool = True) -> None:
        super().__init__(exists=exists, dir_okay=dir_okay, path_type=Path)

    def convert(
        self,
        value: Any,  # noqa: ANN401 - a text or a default
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401 - a Path, which click's annotation does not express
        """Read the path of an option."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if _is_special(path):
            self.fail(f"{str(path)!r} is a pipe or a device: give a regular file.", param, ctx)
        return path


INTEGER = Integer()
NUMBER = Number()


def _is_special(path: Path) -> bool:
    try:
        return path.exists() and not path.is_file() and not path.is_dir()
    except OSError:  # such as a name that is too long, which is reported when the file is opened
        return False


def _refuse(
    value: object, kind: str, example: str, param: click.Parameter | None, ctx: click.Context | None
) -> NoReturn:
    raise click.BadParameter(
        f"{quoted(value)} is not a valid {kind}: use the digits 0 to 9, such as {example}.",
        ctx=ctx,
        param=param,
    )
