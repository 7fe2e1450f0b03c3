"""One small module for each known fault: real parameters, and one step of attention changed.

The grid puts every check to them, the museum shows them, and tests see that each is found.
"""

from dataclasses import dataclass
from functools import cache

from manyheads.attention.pipeline import Pipeline
from manyheads.faults import FAULT_KINDS
from manyheads.verify.subject import Subject
from manyheads.verify.variants import all_variants
from tools.museum.module import FaultyAttention, Maker, subject_named
from tools.museum.own import OWN


@dataclass(frozen=True, kw_only=True)
class FaultExample:
    """One fault as a module that can be built in any size."""

    fault: str
    """Id in the catalogue."""
    kind: str
    """Name of its declaration in SUBJECTS."""
    make: Maker
    """Builds the module for a declaration."""

    @property
    def subject(self) -> Subject:
        """Its declaration."""
        return subject_named(self.kind)


def _with_pipeline(pipeline: Pipeline) -> Maker:
    return lambda subject: FaultyAttention(subject, pipeline)


@cache
def fault_examples() -> dict[str, FaultExample]:
    """An example of every kind in the catalogue, by its id, in alphabetical order."""
    pipelines = {(v.fault, v.key): v.pipeline for v in all_variants()}
    found = {}
    for fault, kind in FAULT_KINDS.items():
        make = (
            OWN[fault] if kind.variant is None else _with_pipeline(pipelines[fault, kind.variant])
        )
        found[fault] = FaultExample(fault=fault, kind=kind.example, make=make)
    return found
