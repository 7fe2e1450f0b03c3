"""What the page compares of a file before it uses it."""

import hashlib
from typing import Any


def file_facts(path: str, data: bytes) -> dict[str, Any]:
    """Path, length in bytes and hash of a file, as the page compares them.

    Args:
        path: from the page.
        data: what it holds.
    """
    return {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
