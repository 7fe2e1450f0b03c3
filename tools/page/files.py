"""Writing what is built into the page, and the facts of files that the page compares."""

import hashlib
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
            f"OUT ({path}) cannot be written ({reason_of(error)}): choose a folder you can write to"
        ) from error


def file_facts(path: str, data: bytes) -> dict[str, Any]:
    """Path, length in bytes and hash of a file, as the page compares them.

    Args:
        path: from the page.
        data: the content.
    """
    return {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
