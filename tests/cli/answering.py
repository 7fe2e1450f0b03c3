"""Answers typed on standard input, and the records that they leave."""

import io
import json
import sys
from pathlib import Path

import pytest


def typed(monkeypatch: pytest.MonkeyPatch, *lines: str | bytes) -> None:
    """Let standard input hold these lines."""
    content = b"".join((x.encode() if isinstance(x, str) else x) + b"\n" for x in lines)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def records(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
