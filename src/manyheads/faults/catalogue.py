"""Every known fault by its id: what it is and how to mend it, as `catalogue.toml` says.

The steps that they change are in the families.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from manyheads.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class FaultKind:
    """One known mistake."""

    id: str
    """Its name in findings."""
    what: str
    """What the code does, in one sentence."""
    fix: str
    """The line of remedy."""


def _read_table() -> dict[str, FaultKind]:
    text = Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8")
    return {name: FaultKind(id=name, **row) for name, row in tomllib.loads(text).items()}


FAULT_KINDS: dict[str, FaultKind] = _read_table()
"""All kinds by id, in alphabetical order."""


def fault_kind(fault_id: str) -> FaultKind:
    """The kind of that id.

    Raises:
        ConfigError: no such fault.
    """
    if fault_id not in FAULT_KINDS:
        raise ConfigError(
            f"fault_id ({fault_id!r}) is not known: use one of {', '.join(FAULT_KINDS)}"
        )
    return FAULT_KINDS[fault_id]
