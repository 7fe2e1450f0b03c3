"""How a target is built, and the sizes that follow from what was built."""

import inspect
import typing
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin

from manyheads.core.errors import SubjectError
from manyheads.verify.arrays import of_tensors
from manyheads.verify.findings import short
from manyheads.verify.infer_form import weight_arguments
from manyheads.verify.infer_names import CONFIGS, GUESSES, SIZES, Target
from manyheads.verify.infer_trial import Argument, arguments_of
from manyheads.verify.loading import build
from manyheads.verify.subject import NoSubjectError, Spec, Subject

_EMBED, _HEADS = 32, 4
_MISSING = 12
_DROPOUT = 0.25  # where none is declared, so that a fault of it can be seen


def is_factory(target: Target) -> bool:
    """Whether a function makes a module rather than being the attention itself."""
    if not inspect.isfunction(target):
        return False
    names = [p.name for p in inspect.signature(target).parameters.values()]
    if not names:
        return True
    first = names[0].lower()
    return (
        (first in SIZES["embed_dim"] and len(first) > 1)
        or first in SIZES["num_heads"][:6]
        or first in CONFIGS
    )


def sizes(spec: Spec) -> dict[str, Any]:
    """The declared sizes by our names, with the two that every constructor needs."""
    known = {name: getattr(spec, name) for name in SIZES if getattr(spec, name, None) is not None}
    known.setdefault("num_heads", _HEADS)
    known.setdefault("embed_dim", _EMBED)
    return known


def _value(name: str, known: dict[str, Any]) -> tuple[bool, Any]:
    """Whether a name is understood, and its value."""
    low = name.lower()
    for size, names in SIZES.items():
        if low in names:
            return True, _size(size, known)
    for names, value in GUESSES.values():
        if low in names:
            return True, value
    return False, None


def _size(size: str, known: dict[str, Any]) -> Target:
    if size in known:
        return known[size]
    defaults: dict[str, Any] = {
        "num_kv_heads": known["num_heads"],
        "head_dim": max(known["embed_dim"] // known["num_heads"], 1),
        "v_head_dim": known.get("head_dim") or max(known["embed_dim"] // known["num_heads"], 1),
        "kdim": known["embed_dim"],
        "vdim": known.get("kdim", known["embed_dim"]),
        "dropout": _DROPOUT,
        "window": None,
    }
    return defaults[size]


def config_of(known: dict[str, Any]) -> dict[str, Any]:
    """Every size by every name that people give it, for a configuration object."""
    found: dict[str, Any] = {}
    for size, names in SIZES.items():
        found |= {name: _size(size, known) for name in names if len(name) > 1}
    for names, value in GUESSES.values():
        found |= {name: value for name in names}
    found["num_key_value_groups"] = known["num_heads"] // found["num_kv_heads"]
    return found


def guess_kwargs(target: Callable[..., Any], spec: Spec) -> dict[str, Any]:
    """Constructor arguments by their names: those that must be given, and those that are declared.

    Args:
        target: the class or factory.
        spec: what is declared.

    Raises:
        SubjectError: a required argument is not understood; the message names it.
    """
    known, found = sizes(spec), dict[str, Any]()
    parameters = _parameters(target)
    unnamed = [p for p in parameters if p.default is p.empty and not _value(p.name, known)[0]]
    unnamed = [p for p in unnamed if p.name.lower() not in CONFIGS]
    for parameter in parameters:
        name, low = parameter.name, parameter.name.lower()
        understood, value = _value(name, known)
        if parameter.default is not parameter.empty:
            if any(low in SIZES[size] and size in known for size in SIZES) and not _keeps_default(
                parameter
            ):
                found[name] = value
            elif low in SIZES["dropout"] and parameter.default == 0:
                found[name] = _DROPOUT
        elif low in CONFIGS:
            found[name] = _config(target, parameter, known)
        elif understood:
            found[name] = value
        else:
            found[name] = _by_place(parameter, unnamed, known, target)
    return found


def _keeps_default(parameter: inspect.Parameter) -> bool:
    """One-letter names with defaults are mostly something else."""
    return len(parameter.name) == 1 and parameter.name != "h"


def _parameters(target: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        every = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError) as error:
        raise SubjectError(
            f"build: the arguments of {target!r} cannot be read: declare build.kwargs"
        ) from error
    return [p for p in every if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def _by_place(
    parameter: inspect.Parameter,
    unnamed: list[inspect.Parameter],
    known: dict[str, Any],
    target: Target,
) -> Target:
    """The first two arguments that no name explains are the width and the number of heads."""
    simple = {"bool": False, bool: False, "float": 0.0, float: 0.0}
    if parameter.annotation in simple:
        return simple[parameter.annotation]
    place = unnamed.index(parameter)
    order = [size for size in ("embed_dim", "num_heads") if not _is_named(size, target)]
    if place < len(order):
        return known[order[place]]
    name = getattr(target, "__name__", target)
    raise SubjectError(
        f"build: the constructor argument {parameter.name!r} of {name} is not understood: "
        f'declare build.kwargs, such as {{"{parameter.name}": ...}}'
    )


def _is_named(size: str, target: Target) -> bool:
    return any(p.name.lower() in SIZES[size] for p in _parameters(target))


def _config(target: Target, parameter: inspect.Parameter, known: dict[str, Any]) -> Target:
    """A configuration object: of the annotated class where there is one, else a plain namespace."""
    every = config_of(known)
    annotation = _annotation(target, parameter)
    if inspect.isclass(annotation) and annotation is not dict:
        try:
            names = inspect.signature(annotation).parameters
            return annotation(**{name: value for name, value in every.items() if name in names})
        except Exception:
            return SimpleNamespace(**every)
    return dict(every) if annotation is dict else SimpleNamespace(**every)


def _annotation(target: Target, parameter: inspect.Parameter) -> Target:
    maker = target.__init__ if inspect.isclass(target) else target
    try:
        return typing.get_type_hints(maker).get(parameter.name)
    except Exception:
        return parameter.annotation if inspect.isclass(parameter.annotation) else None


def built(target: Target, subject: Subject) -> tuple[Any, Subject, dict[str, Any]]:
    """Build the target, with guessed arguments where none are declared.

    Returns:
        what was built, the subject with its arguments, and the guessed arguments.

    Raises:
        SubjectError: it cannot be built; the message says what was tried.
    """
    makes = inspect.isclass(target) or is_factory(target)
    if not makes or subject.kwargs is not None:
        return _made(target, subject), subject, {}
    kwargs = guess_kwargs(target, subject.spec)
    guessed = replace(subject, kwargs=kwargs)
    for _ in range(_MISSING):
        try:
            return _made(target, guessed), guessed, kwargs
        except NoSubjectError:
            raise
        except SubjectError as error:
            if not _add_missing(error.__cause__, kwargs):
                raise SubjectError(
                    f"{error}; these arguments were guessed: declare build.kwargs"
                ) from error
    raise SubjectError(
        f"build ({_plain(kwargs)}): too many settings are missing: declare build.kwargs"
    )


def _made(target: Target, subject: Subject) -> Target:
    return of_tensors(_as_it_is(target, subject))


def _as_it_is(target: Target, subject: Subject) -> Target:
    if inspect.isfunction(target) and subject.submodule is None and is_factory(target):
        subject_of_factory = Subject(target=subject.target, kwargs=subject.kwargs, submodule="")
        return build(target, subject_of_factory)
    return build(target, subject)


def _add_missing(error: BaseException | None, kwargs: dict[str, Any]) -> bool:
    """Give a namespace the setting that was asked of it; whether there was one to give."""
    if not isinstance(error, AttributeError | KeyError):
        return False
    name = error.name if isinstance(error, AttributeError) else str(error.args[0])
    for value in kwargs.values():
        if isinstance(value, SimpleNamespace) and name and not hasattr(value, name):
            setattr(value, name, _guess(name))
            return True
        if isinstance(value, dict) and name and name not in value:
            value[name] = _guess(name)
            return True
    return False


def _guess(name: str) -> Target:
    low = name.lower()
    if "drop" in low or "prob" in low:
        return 0.0
    if low.startswith(("use", "is_", "has", "do_")) or "bias" in low or "flash" in low:
        return False
    return 64 if "len" in low or "size" in low else None


def read_sizes(made: Target, spec: Spec) -> dict[str, int]:
    """Width, heads and key/value heads off attributes, where they are not declared."""
    found: dict[str, int] = {}
    holders = [
        made,
        getattr(made, "config", None),
        getattr(made, "cfg", None),
        getattr(made, "args", None),
    ]
    if isinstance(made, nn.Module):
        holders += [m for m in made.modules() if isinstance(m, nn.MultiheadAttention)]
    for size in ("embed_dim", "num_heads", "num_kv_heads"):
        if getattr(spec, size) is not None:
            continue
        values = (getattr(h, name, None) for h in holders if h is not None for name in SIZES[size])
        value = next((v for v in values if _is_count(v)), None)
        if value is not None:
            found[size] = value
    return found


def dropout_rates(made: nn.Module) -> set[float]:
    """Rates of dropout between 0 and 1 that a module or its parts hold."""
    found: set[float] = set()
    for module in made.modules():
        names = (
            ("p", *SIZES["dropout"]) if "Dropout" in type(module).__name__ else SIZES["dropout"][:1]
        )
        names = (
            names
            if isinstance(module, nn.MultiheadAttention) or len(names) > 1
            else SIZES["dropout"]
        )
        values = [getattr(module, name, None) for name in names]
        found |= {float(v) for v in values if isinstance(v, float) and 0.0 < v < 1.0}
    return found


def _plain(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments as words that JSON can hold."""
    return {
        n: v if isinstance(v, int | float | str | bool | None) else _words(v)
        for n, v in kwargs.items()
    }


def _words(value: Target) -> str:
    kind = type(value).__name__
    return (
        f"a tensor {tuple(value.shape)}"
        if isinstance(value, Tensor)
        else f"a {kind} with the sizes by every usual name"
    )


plain_kwargs = _plain
"""Arguments as words that JSON can hold."""


def check_divides(subject: Subject) -> None:
    """Refuse heads that do not divide the width where no head width is known.

    Raises:
        NoSubjectError: they do not.
    """
    spec = subject.spec
    if spec.embed_dim and spec.num_heads and not spec.head_dim and spec.embed_dim % spec.num_heads:
        raise NoSubjectError(
            f"spec.num_heads ({spec.num_heads}) must divide spec.embed_dim ({spec.embed_dim}): "
            "declare head_dim"
        )


_HEADS_IF_UNKNOWN, _WIDTH_IF_UNKNOWN = 3, 24


def with_sizes(made: Target, subject: Subject, inferred: dict[str, Any]) -> Subject:
    """Width and heads: off the built object, off the arguments it was built with, or assumed.

    A module whose number of heads nothing says is taken to have one until it is watched.
    """
    spec = subject.spec
    known = read_sizes(made, spec)
    given = {**inferred.get("build.kwargs", {}), **dict(subject.kwargs or {})}
    for size in ("embed_dim", "num_heads", "num_kv_heads", "head_dim"):
        if size not in known and getattr(spec, size) is None:
            value = next((given[n] for n in SIZES[size] if _is_count(given.get(n))), None)
            known |= {} if value is None else {size: value}
    heads = known.get("num_heads") or spec.num_heads
    if (
        heads is not None
        and known.get("num_kv_heads", heads)
        and heads % known.get("num_kv_heads", heads)
    ):
        del known["num_kv_heads"]
    if known:
        inferred["spec"] = dict(known)
    subject = subject.with_spec(**known)
    spec = subject.spec
    is_module = isinstance(made, nn.Module)
    if spec.num_heads is None:
        subject = subject.with_spec(num_heads=1 if is_module else _HEADS_IF_UNKNOWN)
    if spec.embed_dim is None and spec.head_dim is None:
        widths = widths_of(made)
        subject = subject.with_spec(embed_dim=widths[0] if widths else _WIDTH_IF_UNKNOWN)
    return subject


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def materialised(made: Target) -> Target:
    """A module whose lazy layers have been given their sizes by a call."""
    if not isinstance(made, nn.Module):
        return made
    lazy = [m for m in made.modules() if isinstance(m, LazyModuleMixin)]
    if not any(m.has_uninitialized_params() for m in lazy):
        return made
    width = max(int(getattr(m, "out_features", 0) or 0) for m in lazy) or _WIDTH_IF_UNKNOWN
    arguments = [a for a in arguments_of(made) if a.required]
    inputs = [None if a.role == "mask" else torch.randn(2, 3, width) for a in arguments]
    try:
        with torch.no_grad():
            made(*inputs)
    except Exception as error:
        raise SubjectError(
            f"target: its lazy layers cannot be given their sizes: {short(error)}: call it once"
        ) from error
    return made


def widths_of(made: Target) -> list[int]:
    """Widths that the input of a module may have: the sizes of its weights, the commonest first."""
    if not isinstance(made, nn.Module):
        return []
    sizes = [n for p in made.parameters() if p.dim() >= 2 for n in p.shape[:2]]
    return sorted(set(sizes), key=lambda n: (-sizes.count(n), n))


def with_weight_arguments(
    made: Target, subject: Subject, arguments: list[Argument], inferred: dict[str, Any]
) -> Subject:
    """Names of the weights where a function takes them as arguments."""
    if isinstance(made, nn.Module) or subject.params is not None:
        return subject
    params = weight_arguments(arguments)
    if params is None:
        return subject
    inferred["params"] = {**params.names, **params.biases}
    return replace(subject, params=params)


def with_context_width(made: Target, subject: Subject) -> Subject:
    """The widths of keys and values of a layer of torch, where they are others."""
    spec = subject.spec
    if spec.kdim is not None or not isinstance(made, nn.Module):
        return subject
    inner = next((m for m in made.modules() if isinstance(m, nn.MultiheadAttention)), None)
    if inner is None:
        return subject
    kdim = inner.kdim if inner.kdim != spec.width else None
    vdim = inner.vdim if inner.vdim != inner.kdim else None
    return subject.with_spec(kdim=kdim, vdim=spec.vdim or vdim)
