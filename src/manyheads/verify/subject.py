"""A subject: somebody's attention, and what they declare of it. Read from JSON, checked, frozen."""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from manyheads.core.config import Rotary
from manyheads.core.errors import ConfigError, SubjectError
from manyheads.verify.specs import (
    ARRANGEMENTS,
    AXES,
    CONVENTIONS,
    COUNTS,
    FORMS,
    LAYOUTS,
    RETURNS,
    CallSpec,
    MaskSpec,
    ParamSpec,
    Spec,
)

__all__ = [
    "ARRANGEMENTS",
    "AXES",
    "CONVENTIONS",
    "FORMS",
    "LAYOUTS",
    "RETURNS",
    "CallSpec",
    "MaskSpec",
    "ParamSpec",
    "Spec",
    "Subject",
    "read_manifest",
    "read_subject",
    "subject_from_dict",
]

Reader = Callable[[object, str], object]
"""Reads one field: its value and its place, for messages."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Somebody's attention plus what they declare of it."""

    target: str
    """file.py:object or module.path:object."""
    id: str | None = None
    """Free text, copied to the report."""
    kwargs: Mapping[str, Any] | None = None
    """Constructor arguments; None is not declared."""
    spec: Spec = field(default_factory=Spec)
    """What it computes."""
    call: CallSpec = field(default_factory=CallSpec)
    """How it is called."""
    params: ParamSpec | None = None
    """Where the weights are; None is not declared."""
    folder: Path = field(default_factory=Path)
    """Folder that a file target is relative to."""
    submodule: str | None = None
    """Attribute path of the attention inside the built object."""
    unknown: tuple[str, ...] = ()
    """Fields that were not understood, for a warning."""

    def with_spec(self, **changes: Any) -> "Subject":  # noqa: ANN401 - any field of Spec
        """The same subject with some of its spec filled in."""
        return replace(self, spec=replace(self.spec, **changes))

    def with_call(self, **changes: Any) -> "Subject":  # noqa: ANN401 - any field of CallSpec
        """The same subject with some of its call filled in."""
        return replace(self, call=replace(self.call, **changes))


_NEVER_READ = {"fault", "diagnosis", "style"}


def _mapping(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SubjectError(f"{where} ({value!r}) must be an object: use {{...}}")
    return value


def _choice(value: object, options: tuple[str, ...], where: str) -> str:
    if value not in options:
        raise SubjectError(f"{where} ({value!r}) is not known: use one of {', '.join(options)}")
    return str(value)


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise SubjectError(f"{where} ({value!r}) must be text")
    return value


def _count(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1 << 16:
        raise SubjectError(f"{where} ({value!r}) must be a whole number from 1 to 65536")
    return value


def _present(given: dict[str, Any], name: str) -> object:
    """What stands under a name; an absent or null one is empty."""
    return {} if given.get(name) is None else given[name]


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SubjectError(f"{where} ({value!r}) must be a number")
    if not 0 <= value <= sys.float_info.max:
        raise SubjectError(f"{where} ({value!r}) must be a finite number that is not negative")
    return float(value)


def _position(value: object, where: str) -> Rotary | str | None:
    if value is None:
        return None
    given = _mapping(value, where)
    if _choice(given.get("type"), ("rope", "alibi"), f"{where}.type") == "alibi":
        return "alibi"
    try:
        dim = given.get("dim")
        return Rotary(base=given.get("base", 10000.0), style=given.get("style", "half"), dim=dim)
    except ConfigError as error:
        raise SubjectError(f"{where}: {error}") from error


def _one_of(*options: str) -> Reader:
    return lambda value, where: _choice(value, options, where)


def _causal(value: object, where: str) -> str | None:
    return None if value is False else _choice(value, ("always",), where)


_SPEC_READERS: dict[str, Reader] = {
    **dict.fromkeys(COUNTS, _count),
    "scale": _number,
    "dropout": _number,
    "position": _position,
    "causal": _causal,
    "fully_masked": _one_of("zero", "unspecified"),
    "compute_dtype": _one_of("float64", "float32", "float16", "bfloat16"),
}


def _fields(
    value: object, where: str, readers: Mapping[str, Reader], unknown: list[str]
) -> dict[str, Any]:
    """What an object declares, read field by field; null is not declared."""
    found = {}
    for name, item in _mapping(value, where).items():
        if item is None:
            continue
        if name in readers:
            found[name] = readers[name](item, f"{where}.{name}")
        else:
            unknown.append(f"{where}.{name}")
    return found


def _checked_spec(spec: Spec) -> Spec:
    if spec.num_heads and spec.num_kv_heads and spec.num_heads % spec.num_kv_heads:
        raise SubjectError(
            f"spec.num_kv_heads ({spec.num_kv_heads}) must divide spec.num_heads ({spec.num_heads})"
        )
    return spec


def _mask(value: object, where: str) -> MaskSpec:
    given = _mapping(value, where)
    return MaskSpec(
        arg=_text(given.get("arg"), f"{where}.arg"),
        axes=_choice(given.get("axes"), AXES, f"{where}.axes"),
        convention=_choice(given.get("convention"), CONVENTIONS, f"{where}.convention"),
    )


def _masks(value: object, where: str) -> tuple[MaskSpec, ...]:
    if not isinstance(value, list):
        raise SubjectError(f"{where} ({value!r}) must be a list: use [] for none")
    return tuple(_mask(item, f"{where}[{i}]") for i, item in enumerate(value))


def _flags(value: object, where: str) -> dict[str, tuple[Any, ...]]:
    given = _mapping(value, where)
    for name, values in given.items():
        if not isinstance(values, list) or not values:
            raise SubjectError(f"{where}.{name} ({values!r}) must be a list of values")
    return {name: tuple(values) for name, values in given.items()}


_CALL_READERS: dict[str, Reader] = {
    "form": _one_of(*FORMS),
    "layout": _one_of(*LAYOUTS),
    "returns": _one_of(*RETURNS),
    "weights_axes": _one_of("BHTS", "BTS"),
    "unbatched": lambda value, where: bool(value),
    "masks": _masks,
    "causal_arg": _text,
    "extra": _mapping,
    "flags": _flags,
}


def _params(value: object, unknown: list[str]) -> ParamSpec:
    given = _mapping(value, "params")
    names = {
        n: given[n] for n in ("q", "k", "v", "o", "qkv", "kv", "module") if given.get(n) is not None
    }
    for name, path in names.items():
        if not isinstance(path, str) or (not path and name != "module"):
            raise SubjectError(f"params.{name} ({path!r}) must be the path of an attribute")
    biases = _mapping(_present(given, "biases"), "params.biases")
    for name, path in biases.items():
        _text(path, f"params.biases.{name}")
    order = _text(given.get("order", "qkv"), "params.order")
    if sorted(order) not in (sorted("qkv"), sorted("kv")):
        raise SubjectError(f"params.order ({order!r}) must hold q, k and v (or k and v) once each")
    known = {"layout", "q", "k", "v", "o", "qkv", "kv", "module", "biases", "order"}
    unknown += [f"params.{name}" for name in given if name not in known]
    layout = _choice(given.get("layout"), ARRANGEMENTS, "params.layout")
    return ParamSpec(layout=layout, names=names, biases=biases, order=order)


def subject_from_dict(value: object, folder: Path = Path()) -> Subject:
    """Read a subject from what a subject file holds; fault, diagnosis and style are never read.

    Args:
        value: one JSON object.
        folder: where a file target is looked for.

    Raises:
        SubjectError: a field of the wrong kind; the message names the place.
    """
    given, unknown = _mapping(value, "subject"), list[str]()
    known = {"id", "target", "build", "spec", "call", "params", "submodule"} | _NEVER_READ
    unknown += [name for name in given if name not in known]
    build = None if given.get("build") is None else _mapping(given["build"], "build")
    kwargs = None if build is None else _mapping(_present(build, "kwargs"), "build.kwargs")
    target = _text(given.get("target"), "target")
    spec_fields = _fields(_present(given, "spec"), "spec", _SPEC_READERS, unknown)
    spec = _checked_spec(Spec(**spec_fields))
    call = _fields(_present(given, "call"), "call", _CALL_READERS, unknown)
    return Subject(
        target=target,
        id=None if given.get("id") is None else str(given["id"]),
        kwargs=kwargs,
        spec=spec,
        call=CallSpec(**call),
        params=None if given.get("params") is None else _params(given["params"], unknown),
        folder=folder,
        submodule=None
        if given.get("submodule") is None
        else _text(given["submodule"], "submodule"),
        unknown=tuple(unknown),
    )


def _read_json(path: Path) -> object:
    if path.exists() and not path.is_file():
        raise SubjectError(f"file ({path}) is no regular file: give the path of a JSON file")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SubjectError(f"file ({path}) cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise SubjectError(f"file ({path}) is no JSON: {error}") from error


def read_subject(path: Path) -> Subject:
    """Read a subject file.

    Raises:
        SubjectError: the file is missing, no JSON, or no subject.
    """
    return subject_from_dict(_read_json(path), path.resolve().parent)


def read_manifest(path: Path) -> list[Subject | SubjectError]:
    """Read a manifest; a case that is no subject stands as its error, so that the others can go on.

    Raises:
        SubjectError: the file is missing, no JSON, or has no list of cases.
    """
    document = _read_json(path)
    cases = document.get("cases") if isinstance(document, dict) else None
    if not isinstance(cases, list) or not cases:
        raise SubjectError(f'file ({path}) has no list of cases: use {{"cases": [subject, ...]}}')
    found: list[Subject | SubjectError] = []
    for i, case in enumerate(cases):
        try:
            found.append(subject_from_dict(case, path.resolve().parent))
        except SubjectError as error:
            found.append(SubjectError(f"cases[{i}]: {error}"))
    return found
