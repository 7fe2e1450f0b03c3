"""Every type of transformers that can be built small is read, and proven or refused.

The types are those of the installed transformers; what cannot be built or run with small sizes and
plain inputs is left out. The limits are numbers of types, not a list.
"""

import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from manyheads.core.errors import LookError
from manyheads.looking.reading import look
from tests.looking.random_models import build, inputs_for, small_config

REFUSED = ("bitnet", "diffllama", "nystromformer", "xlnet")
LONGEST = 15  # seconds for one type


@contextmanager
def limited() -> Iterator[None]:
    """Give up on a type that takes too long to build."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LONGEST)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def model_class(kind: type) -> Any:
    """The class of a type with a head for text, or its base."""
    from transformers.models.auto import modeling_auto as auto

    for mapping in (
        auto.MODEL_FOR_CAUSAL_LM_MAPPING,
        auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
        auto.MODEL_MAPPING,
    ):
        if kind in mapping:
            found = mapping[kind]
            return found[0] if isinstance(found, tuple) else found
    raise LookupError(kind)


def looked_at(name: str) -> Any:
    """A look at a small random model of a type, None if it cannot be built or run."""
    from transformers import CONFIG_MAPPING

    try:
        with limited():
            kind = CONFIG_MAPPING[name]
            config = small_config(kind)
            model = build(model_class(kind), config)
            inputs = inputs_for(model, config)
            model(**inputs)
    except Exception:  # whatever an odd size raises
        return None
    try:
        return look(model, inputs=inputs)
    except LookError:  # no attention that can be read
        return None
    except Exception as error:
        raise AssertionError(f"{name} raises {error!r}") from error


@pytest.mark.slow
def test_types_of_transformers_are_proven_or_refused() -> None:
    auto = pytest.importorskip(
        "transformers.models.auto.configuration_auto",
        reason="transformers is not installed: pip install manyheads[look]",
    )
    proven, unchanged, wrong, refused = 0, 0, [], set()
    for name in sorted(auto.CONFIG_MAPPING_NAMES):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen = looked_at(name)
        if seen is None:
            continue
        unchanged += seen.proof.output_gap == 0.0
        if seen.proof.refused:
            refused.add(name)
            continue
        proven += 1
        if not seen.proof.intervention_error <= 1e-12:
            wrong.append((name, seen.proof.intervention_error))
    assert wrong == []
    assert proven >= 117
    assert unchanged >= 103
    assert set(REFUSED) <= refused
