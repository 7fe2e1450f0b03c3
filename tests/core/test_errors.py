"""Every error of the package is a ManyHeadsError, and of the kind that Python users expect."""

import pytest

from manyheads.core import errors
from manyheads.core.compare import MismatchError

ALL = [kind for kind in vars(errors).values() if isinstance(kind, type)]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_error_can_be_caught_as_the_base_error(kind: type) -> None:
    assert issubclass(kind, errors.ManyHeadsError)
    assert kind is errors.ManyHeadsError or issubclass(
        kind, ValueError | AssertionError | ImportError
    )


def test_seven_kinds_are_named_for_what_is_wrong() -> None:
    names = {kind.__name__ for kind in ALL}
    assert names >= {
        "ConfigError", "ShapeError", "LayoutError", "WorksheetError",
        "CheckpointError", "SubjectError", "TraceError",
    }  # fmt: skip


def test_mismatch_is_a_failed_assertion_too() -> None:
    assert issubclass(MismatchError, errors.ManyHeadsError)
    assert issubclass(MismatchError, AssertionError)
