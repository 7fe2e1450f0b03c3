"""What the subcommands of `manyheads look` share: the model, its default input, common options."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from manyheads.cli.types import IntRange, NameOrPath

if TYPE_CHECKING:
    from manyheads.looking.opening import Opened

TEXT = "When Mary and John went to the store, John gave a drink to Mary. Then Mary and John went"
RANDOM_TOKENS = 32
MODEL = NameOrPath()


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The argument and the option that all subcommands share."""
    download = click.option(
        "--download", is_flag=True, help="Allow the network: MODEL may be an id on the hub."
    )
    return click.argument("model", type=MODEL)(download(command))


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--json`, as everywhere."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def seed_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--seed`, as everywhere."""
    return click.option(
        "--seed",
        type=IntRange(0, 2**31),
        default=0,
        show_default=True,
        metavar="N",
        help="Random seed.",
    )(command)


def open_named(model: str, download: bool) -> "Opened":
    """Open the model that an argument names."""
    from manyheads.looking.opening import open_model

    return open_model(model, download=download)


def read_inputs(path: Path) -> dict[str, Any]:
    """Tensors by name from a safetensors file.

    Raises:
        LookError: the file cannot be read.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    from manyheads.core.errors import LookError
    from manyheads.core.files import read_file

    try:
        return dict(load(read_file(path)))
    except SafetensorError as error:
        raise LookError(
            f"inputs ({path}) is not a safetensors file ({error}): write one"
        ) from error


def default_input(opened: "Opened", seed: int) -> tuple[str | None, Any]:
    """A short text; random token ids for a model without a tokeniser."""
    if opened.tokenizer is not None:
        return TEXT, None
    import torch

    from manyheads.looking.labels import vocabulary_of

    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, vocabulary_of(opened.model), (1, RANDOM_TOKENS), generator=generator)
    click.echo("no tokenizer in the folder: random token ids are read", err=True)
    return None, ids
