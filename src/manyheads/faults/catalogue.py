"""Every known fault by its id, as `catalogue.toml` declares it, and its variants.

The steps that they change are in the families.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import Problem
from manyheads.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class FaultKind:
    """One known mistake."""

    id: str
    """Its name in findings."""
    what: str
    """What the code does, in one sentence."""
    fix: str
    """The remedy, in one line."""
    wrong: str
    """The lines of code that people write."""
    right: str
    """The right lines of code."""
    example: str
    """Declaration of the example that tools/museum builds."""
    variant: str | None = None
    """Key of the variant that the example computes; None if the example has its own code."""


def _read_table() -> dict[str, FaultKind]:
    text = Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8")
    return {name: FaultKind(id=name, **row) for name, row in tomllib.loads(text).items()}


FAULT_KINDS: dict[str, FaultKind] = _read_table()
"""All kinds by id, in alphabetical order."""


def fault_kind(fault_id: str) -> FaultKind:
    """The kind of this id.

    Raises:
        ConfigError: there is no such fault.
    """
    if fault_id not in FAULT_KINDS:
        raise ConfigError(
            f"fault_id ({fault_id!r}) is not known: use one of {', '.join(FAULT_KINDS)}"
        )
    return FAULT_KINDS[fault_id]


def always(problem: Problem) -> bool:
    """Applies to every problem."""
    return True


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One variant of a fault that can be computed and compared with the output of a subject."""

    fault: str
    """The fault's id in the catalogue."""
    key: str
    """Unique name among the variants of the fault."""
    says: str
    """One sentence on what the numbers equal."""
    pipeline: Pipeline
    """The changed steps."""
    applies: Callable[[Problem], bool] = always
    """Whether the variant applies to a problem."""
    is_legal: bool = False
    """Whether the outputs equal those of correct attention with other weights."""
    also: tuple[str, ...] = ()
    """Other ids that cannot be distinguished from this variant."""
