"""Finding and building a stranger's code. Loading it runs it."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from manyheads.core.errors import SubjectError
from manyheads.verify.subject import Subject


def load_target(target: str, folder: Path) -> object:
    """The object that `file.py:name` or `module.path:name` means.

    Args:
        target: what was declared.
        folder: where a file is looked for.

    Raises:
        SubjectError: there is no such file, module or object, or its code raises.
    """
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise SubjectError(f"target ({target!r}) must be file.py:object or module.path:object")
    module = (
        _from_file(folder / place, target)
        if place.endswith(".py")
        else _from_module(place, folder, target)
    )
    here: object = module
    for step in name.split("."):
        if not hasattr(here, step):
            names = [n for n in vars(module) if not n.startswith("_")]
            raise SubjectError(
                f"target ({target!r}): no {step!r} there, but {', '.join(names[:12]) or 'nothing'}"
            )
        here = getattr(here, step)
    return here


def _from_file(path: Path, target: str) -> ModuleType:
    if not path.is_file():
        raise SubjectError(f"target ({target!r}): there is no file {path}")
    name = f"manyheads_subject_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SubjectError(f"target ({target!r}): {path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise SubjectError(f"target ({target!r}): loading it raises {_short(error)}") from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def _from_module(name: str, folder: Path, target: str) -> ModuleType:
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise SubjectError(
            f"target ({target!r}): importing {name} raises {_short(error)}"
        ) from error
    finally:
        sys.path.remove(str(folder))


def _short(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"


def build(target: object, subject: Subject) -> nn.Module | Callable[..., Any]:
    """Build the object that is called: an instance of a class, a module as it is, or a function.

    Args:
        target: what `load_target` gave, or a living module or function.
        subject: with constructor arguments and, if meant, the path of a submodule.

    Raises:
        SubjectError: the constructor raises, or the result can't be called.
    """
    made: Any = target
    is_factory = subject.submodule is not None and inspect.isfunction(target)
    if inspect.isclass(target) or is_factory:
        try:
            made = made(**dict(subject.kwargs or {}))
        except (Exception, SystemExit) as error:
            raise SubjectError(
                f"build ({dict(subject.kwargs or {})}): {subject.target} cannot be built: "
                f"{_short(error)}"
            ) from error
    for step in [s for s in (subject.submodule or "").split(".") if s]:
        try:
            made = made[int(step)] if step.isdigit() else getattr(made, step)
        except (AttributeError, IndexError, TypeError) as error:
            raise SubjectError(
                f"submodule ({subject.submodule!r}): no {step!r} in {type(made).__name__}"
            ) from error
    if not callable(made):
        raise SubjectError(
            f"target ({subject.target!r}) is a {type(made).__name__}, which cannot be called"
        )
    return made  # type: ignore[no-any-return]  # callable, checked just above
