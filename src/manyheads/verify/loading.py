"""Loads and builds the code of a subject. Loading it runs it."""

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
from manyheads.core.text import brief, quoted
from manyheads.verify.findings import short
from manyheads.verify.subject import NoSubjectError, Subject


def load_target(target: str, folder: Path) -> object:
    """The object that `file.py:name` or `module.path:name` refers to.

    Args:
        target: what was declared.
        folder: folder of the file.

    Raises:
        SubjectError: there is no such file, module or object, or its code raises.
    """
    if target.partition(":")[0].lower().endswith(".onnx"):
        raise NoSubjectError(
            f"target ({brief(target)}) is an ONNX file, and only Python code can be checked: give "
            "the PyTorch module that it was exported from, or a function that runs it"
        )
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise NoSubjectError(
            f"target ({brief(target)}) must be file.py:object or module.path:object: name an object"
        )
    module = (
        _from_file(folder / place, target)
        if place.endswith(".py")
        else _from_module(place, folder, target)
    )
    here: object = module
    for step in name.split("."):
        if not hasattr(here, step):
            names = [n for n in vars(module) if not n.startswith("_")]
            raise NoSubjectError(
                f"target ({brief(target)}) has no {brief(step)}: use one of {', '.join(names[:12])}"
            )
        here = getattr(here, step)
    return here


def _from_file(path: Path, target: str) -> ModuleType:
    if not path.is_file():
        raise NoSubjectError(f"target ({brief(target)}): there is no file {path}: check the path")
    name = f"manyheads_subject_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise NoSubjectError(
            f"target ({brief(target)}): {path} is not a Python file: give a .py file"
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise SubjectError(f"target ({brief(target)}): loading it raises {short(error)}") from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def _from_module(name: str, folder: Path, target: str) -> ModuleType:
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        # `a` or `a.b` of `a.b` does not exist; where it is found, its own imports may be missing
        is_absent = missing is not None and f"{name}.".startswith(f"{missing}.")
        raise (NoSubjectError if is_absent else SubjectError)(
            f"target ({brief(target)}): importing {name} raises {short(error)}"
        ) from error
    finally:
        sys.path.remove(str(folder))


def build(target: object, subject: Subject) -> nn.Module | Callable[..., Any]:
    """Build the object that is called: an instance of a class, a module as it is, or a function.

    Args:
        target: result of `load_target`, or a module or function.
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
                f"build ({quoted(dict(subject.kwargs or {}))}): {subject.target} cannot be built: "
                f"{short(error)}"
            ) from error
    for step in [s for s in (subject.submodule or "").split(".") if s]:
        try:
            made = made[int(step)] if step.isdigit() else getattr(made, step)
        except (AttributeError, IndexError, TypeError) as error:
            raise NoSubjectError(
                f"submodule ({brief(subject.submodule or '')}): {type(made).__name__} has no "
                f"{brief(step)}: check the path"
            ) from error
    if not callable(made):
        raise SubjectError(
            f"target ({brief(subject.target)}) is a {type(made).__name__}, which cannot be called: "
            "give a class, a module or a function"
        )
    return made  # type: ignore[no-any-return]  # callable, checked just above
