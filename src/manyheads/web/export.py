"""Writes a JSON document for the page."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manyheads.core.errors import ConfigError
from manyheads.core.files import reason_of, write_whole


def write_json(document: Mapping[str, Any], path: Path) -> None:
    """Write a document as JSON without spaces, whole or not at all.

    Raises:
        ConfigError: the file cannot be written.
    """
    text = json.dumps(document, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, f"{text}\n".encode())
    except OSError as error:
        raise ConfigError(
            f"OUT ({path}) cannot be written ({reason_of(error)}): "
            "choose a file in a folder of yours"
        ) from error
