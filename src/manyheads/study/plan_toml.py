"""Plans written as TOML text, in one canonical form: the hash of that text is the plan's hash."""

import json
from collections.abc import Mapping
from typing import Any

_TABLES = ("data", "tokenizer", "protocol")
_LISTS = ("models", "comparisons")
_PLAIN = ("name", "description", "seeds")


def text_from_document(document: Mapping[str, Any]) -> str:
    """Write a plan in its canonical form.

    Args:
        document: what `Plan.to_dict` gives.
    """
    lines = [f"{key} = {_value(document[key])}" for key in _PLAIN]
    for key in _TABLES:
        lines += ["", f"[{key}]", *_entries(document[key])]
    for key in _LISTS:
        for table in document.get(key, []):
            lines += ["", f"[[{key}]]", *_entries(table)]
    return "\n".join(lines) + "\n"


def _entries(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in table.items()]


def _value(value: Any) -> str:  # noqa: ANN401 - a text, a number or a list of numbers
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return _text(value) if isinstance(value, str) else repr(value)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
