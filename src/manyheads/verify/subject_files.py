"""Subjects from files, manifests and keywords: one form, read by pydantic, and its errors."""

import difflib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from manyheads.core.config import Rotary
from manyheads.core.errors import SubjectError
from manyheads.core.text import brief, quoted
from manyheads.core.variants import QKNorm, RotaryScaling
from manyheads.verify.subject import (
    ARRANGEMENTS,
    BiasForm,
    CallSpec,
    MaskSpec,
    Name,
    NormForm,
    ParamSpec,
    Rule,
    Spec,
    Subject,
    one_of,
)

_PATH = 'must be the path of an attribute: write text such as "layers.0.q"'
_Path = Annotated[str, Rule(_PATH, {"min_length": 1})]
_Order = Annotated[
    str,
    Rule(
        'must have each of q, k and v (or k and v) once: write "qkv" or "kv"',
        {"pattern": "^(qkv|qvk|kqv|kvq|vqk|vkq|kv|vk)$"},
    ),
]
_Target = Annotated[
    str,
    Rule('must be text: write "file.py:Name" or "package.module:Name"', {"min_length": 1}),
]


@dataclass(frozen=True, kw_only=True)
class BuildForm:
    """The part of a file that declares how the subject is built."""

    kwargs: dict[str, Any] = field(default_factory=dict)
    """Constructor arguments."""


PATHS = (
    *("q", "k", "v", "o", "qkv", "kv", "module"),
    *("q_norm", "k_norm", "sinks", "bias_table", "gate"),
)
"""Fields of `params` that are paths of attributes."""


@dataclass(frozen=True, kw_only=True)
class ParamForm:
    """The part of a file that declares where the weights are."""

    layout: Annotated[str, one_of(*ARRANGEMENTS)]
    """Arrangement of the weights."""
    q: _Path | None = None
    """Query projection."""
    k: _Path | None = None
    """Key projection."""
    v: _Path | None = None
    """Value projection."""
    o: _Path | None = None
    """Output projection."""
    qkv: _Path | None = None
    """Packed projections of q, k and v."""
    kv: _Path | None = None
    """Packed projections of k and v."""
    q_norm: _Path | None = None
    """Norm of queries: a module, or its scale."""
    k_norm: _Path | None = None
    """Norm of keys."""
    sinks: _Path | None = None
    """One score per head."""
    bias_table: _Path | None = None
    """Table of biases: (buckets, H) for T5, else (H, N, N)."""
    gate: _Path | None = None
    """Projection of the gate."""
    module: Annotated[str, Rule(_PATH)] | None = None
    """An nn.MultiheadAttention; empty for the subject itself."""
    biases: dict[str, Name] = field(default_factory=dict)
    """Biases that are tensors of their own."""
    order: _Order = "qkv"
    """Order of the blocks of a packed matrix."""

    def read(self) -> ParamSpec:
        """What a `Subject` holds."""
        paths = {name: path for name in PATHS if (path := getattr(self, name)) is not None}
        return ParamSpec(layout=self.layout, names=paths, biases=self.biases, order=self.order)


@dataclass(frozen=True, kw_only=True)
class SubjectForm:
    """A subject file."""

    target: _Target
    """Where the code is."""
    id: Any = None
    """Free text, copied to the report."""
    build: BuildForm | None = None
    """How it is built."""
    spec: Spec = field(default_factory=Spec)
    """What it computes."""
    call: CallSpec = field(default_factory=CallSpec)
    """How it is called."""
    params: ParamForm | None = None
    """Where the weights are."""
    submodule: Name | None = None
    """Attribute path of the attention inside the built object."""


_NEVER_READ = {"fault", "diagnosis", "style"}
_PARTS: dict[str, type] = {"build": BuildForm, "spec": Spec, "call": CallSpec, "params": ParamForm}
_OBJECT = "must be an object: use {...}"
_RULES = {
    "dataclass_type": _OBJECT,
    "dict_type": _OBJECT,
    "mapping_type": _OBJECT,
    "tuple_type": "must be a list: use [] for none",
    "bool_type": "must be true or false: use one of them",
    "bool_parsing": "must be true or false: use one of them",
}
"""What must hold and what to do, for the types of pydantic's errors that no field names."""


_READER = TypeAdapter(SubjectForm)


def subject_schema() -> dict[str, Any]:
    """The JSON Schema of a subject file, for editors."""
    return _READER.json_schema()


def _known_fields(given: Mapping[str, Any], unknown: list[str]) -> dict[str, Any]:
    """The declared values of known fields, without null and without causality that is off."""
    found = {}
    for name, value in given.items():
        part = _PARTS.get(name)
        if name not in (field.name for field in fields(SubjectForm)):
            unknown += [] if name in _NEVER_READ else [name]
        elif part is not None and isinstance(value, Mapping):
            known = {field.name for field in fields(part)}
            unknown += [f"{name}.{inner}" for inner in value if inner not in known]
            found[name] = {
                inner: item
                for inner, item in value.items()
                if inner in known and item is not None and (inner, item) != ("causal", False)
            }
        elif value is not None or name == "target":
            found[name] = value
    return found


def subject_from_dict(value: object, folder: Path = Path()) -> Subject:
    """Read a subject from the content of a subject file; fault, diagnosis and style are ignored.

    Args:
        value: one JSON object.
        folder: folder of a file target.

    Raises:
        SubjectError: fields that are missing or wrong; the message names the place of each.
    """
    if not isinstance(value, Mapping):
        raise SubjectError(f"subject ({quoted(value)}) {_OBJECT}")
    unknown: list[str] = []
    try:
        form = _READER.validate_python(_known_fields(value, unknown))
    except ValidationError as error:
        raise SubjectError("; ".join(map(_in_words, error.errors()))) from None
    spec = form.spec
    if spec.num_heads and spec.num_kv_heads and spec.num_heads % spec.num_kv_heads:
        raise SubjectError(
            f"spec.num_kv_heads ({spec.num_kv_heads}) must divide spec.num_heads "
            f"({spec.num_heads}): use a divisor, or leave it out"
        )
    return Subject(
        target=form.target,
        id=None if form.id is None else str(form.id),
        kwargs=None if form.build is None else form.build.kwargs,
        spec=spec,
        call=form.call,
        params=None if form.params is None else form.params.read(),
        folder=folder,
        submodule=form.submodule,
        unknown=tuple(unknown),
    )


def _in_words(error: ErrorDetails) -> str:
    """The place, the value, the rule and the remedy."""
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error["loc"])
    place, kind = place.removeprefix("."), error["type"]
    if kind == "missing":
        return f"{place} is missing: declare it"
    if kind == "value_error":
        return f"{place}: {error['ctx']['error']}"
    return f"{place} ({quoted(error['input'])}) {_RULES.get(kind, error['msg'])}"


def _read_json(path: Path) -> object:
    if path.exists() and not path.is_file():
        raise SubjectError(f"file ({path}) is not a regular file: give the path of a JSON file")
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SubjectError(
            f"file ({path}) cannot be read: {error.strerror}: check the path and its permissions"
        ) from error
    except (ValueError, RecursionError) as error:
        why = brief(str(error))
        raise SubjectError(f"file ({path}) is not JSON: {why}: correct the file") from error


def read_subject(path: Path) -> Subject:
    """Read a subject file.

    Raises:
        SubjectError: the file is missing, is not JSON, or does not declare a subject.
    """
    return subject_from_dict(_read_json(path), path.resolve().parent)


def read_manifest(path: Path) -> list[Subject | SubjectError]:
    """Read a manifest; an invalid case becomes an error in the list, so that the others still run.

    Raises:
        SubjectError: the file is missing, is not JSON, or has no list of cases.
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


SPEC = tuple(field.name for field in fields(Spec))
CALL = tuple(field.name for field in fields(CallSpec))
OTHERS = ("params", "kwargs", "submodule", "id")


def subject_from_declared(
    target: str,
    declared: Mapping[str, Any],
    given: Subject | Mapping[str, Any] | None = None,
    folder: Path = Path(),
) -> Subject:
    """A subject from keywords, which replace the values of `given`.

    Args:
        target: file.py:object, module.path:object, or a name for the report.
        declared: fields of a subject's `spec` and `call` by their names, and `params`, `kwargs` (of
            the constructor), `submodule`, `id`.
        given: a subject, or the object that a subject file holds.
        folder: folder of a file target.

    Raises:
        SubjectError: a keyword that is not known, or a value of the wrong kind.
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
            f"subject ({type(given).__name__}) must be a Subject, or a dict with the fields of "
            "a subject file"
        )
    return subject_from_dict({"target": target, **given}, folder)


def _check_names(declared: Mapping[str, Any]) -> None:
    known = (*SPEC, *CALL, *OTHERS)
    for name in declared:
        if name in known:
            continue
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"use one of {', '.join(known)}"
        raise SubjectError(f"{name} ({quoted(declared[name])}) cannot be declared: {hint}")


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever was declared
    """What a subject file would hold for it."""
    if isinstance(value, Rotary):
        return {"type": "rope"} | {n: x for n, x in asdict(value).items() if x is not None}
    if value == "alibi":
        return {"type": "alibi"}
    if isinstance(value, MaskSpec | NormForm | BiasForm | QKNorm):
        return asdict(value)
    if isinstance(value, ParamSpec):
        biases = {"biases": dict(value.biases)}
        return {"layout": value.layout, "order": value.order, **value.names, **biases}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        plain = {k: asdict(x) if isinstance(x, RotaryScaling) else x for k, x in value.items()}
        return {key: list(item) if isinstance(item, tuple) else item for key, item in plain.items()}
    return value


def _merged(base: Subject, said: Subject, declared: Mapping[str, Any]) -> Subject:
    spec = {name: getattr(said.spec, name) for name in SPEC if name in declared}
    call = {name: getattr(said.call, name) for name in CALL if name in declared}
    others = {name: getattr(said, name) for name in OTHERS if name in declared}
    merged = replace(
        base, spec=replace(base.spec, **spec), call=replace(base.call, **call), **others
    )
    return replace(merged, unknown=(*base.unknown, *said.unknown))
