"""A subject from keywords, as a test or the command line declares it."""

import difflib
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from manyheads.core.config import Rotary
from manyheads.core.errors import SubjectError
from manyheads.verify.subject import CallSpec, MaskSpec, ParamSpec, Spec, Subject, subject_from_dict

SPEC = tuple(field.name for field in fields(Spec))
CALL = tuple(field.name for field in fields(CallSpec))
OTHERS = ("params", "kwargs", "submodule", "id")


def subject_from_declared(
    target: str,
    declared: Mapping[str, Any],
    given: Subject | Mapping[str, Any] | None = None,
    folder: Path = Path(),
) -> Subject:
    """A subject from flat keywords, which go before what is given as a whole.

    Args:
        target: what is examined: file.py:object, module.path:object, or a name for the report.
        declared: fields of a subject's `spec` and `call` by their names, and `params`, `kwargs` (of
            the constructor), `submodule`, `id`.
        given: a subject, or the object that a subject file holds.
        folder: where a file target is looked for.

    Raises:
        SubjectError: a keyword that isn't known, or a value of the wrong kind.
    """
    _check_names(declared)
    document = {
        "target": target,
        "spec": {name: _plain(declared[name]) for name in SPEC if name in declared},
        "call": {name: _plain(declared[name]) for name in CALL if name in declared},
        "params": _plain(declared.get("params")),
        "build": None if declared.get("kwargs") is None else {"kwargs": declared["kwargs"]},
        "submodule": declared.get("submodule"),
        "id": declared.get("id"),
    }
    said = subject_from_dict(document, folder)
    if given is None:
        return said
    base = given if isinstance(given, Subject) else _read(given, target, folder)
    return _merged(base, said, declared)


def _read(given: Any, target: str, folder: Path) -> Subject:  # noqa: ANN401 - checked here
    if not isinstance(given, Mapping):
        raise SubjectError(
            f"subject ({type(given).__name__}) must be a Subject, or a dict as a subject file holds"
        )
    return subject_from_dict({"target": target, **given}, folder)


def _check_names(declared: Mapping[str, Any]) -> None:
    known = (*SPEC, *CALL, *OTHERS)
    for name in declared:
        if name in known:
            continue
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"use one of {', '.join(known)}"
        raise SubjectError(f"{name} ({declared[name]!r}) is nothing to declare: {hint}")


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever was declared
    """What a subject file would hold for it."""
    if isinstance(value, Rotary):
        return {"type": "rope", "style": value.style, "base": value.base, "dim": value.dim}
    if value == "alibi":
        return {"type": "alibi"}
    if isinstance(value, MaskSpec):
        return asdict(value)
    if isinstance(value, ParamSpec):
        biases = {"biases": dict(value.biases)}
        return {"layout": value.layout, "order": value.order, **value.names, **biases}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: list(item) if isinstance(item, tuple) else item for key, item in value.items()}
    return value


def _merged(base: Subject, said: Subject, declared: Mapping[str, Any]) -> Subject:
    spec = {name: getattr(said.spec, name) for name in SPEC if name in declared}
    call = {name: getattr(said.call, name) for name in CALL if name in declared}
    others = {name: getattr(said, name) for name in OTHERS if name in declared}
    merged = replace(
        base, spec=replace(base.spec, **spec), call=replace(base.call, **call), **others
    )
    return replace(merged, unknown=(*base.unknown, *said.unknown))
