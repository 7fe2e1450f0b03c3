"""A variant: one way in which a known fault shows, as a pipeline with one step changed."""

from collections.abc import Callable
from dataclasses import dataclass

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import Problem


def always(problem: Problem) -> bool:
    """Applies to every problem."""
    return True


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One reading of a fault that can be computed and compared with a stranger's numbers."""

    fault: str
    """The fault's id in the catalogue."""
    says: str
    """One plain sentence: what the numbers equal."""
    pipeline: Pipeline
    """The changed steps."""
    applies: Callable[[Problem], bool] = always
    """Whether the reading makes sense for a problem."""
    is_legal: bool = False
    """Whether the outputs are those of sound attention with other weights."""
    also: tuple[str, ...] = ()
    """Other ids that this reading cannot be told from."""
