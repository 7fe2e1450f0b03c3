"""Subjects written in NumPy, made callable with tensors so that they are watched like any other.

While such a subject runs, the name `np` in its own files means `torch._numpy`, torch's own form of
NumPy, with which `torch.compile` runs NumPy code: each operation is then one of torch, and is seen
with its line. Every call is made once more with NumPy itself; numbers that differ are an error. So
what is judged is what NumPy gives.
"""

import contextlib
import copy
import functools
import importlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from manyheads.core.errors import SubjectError
from manyheads.verify.gaps import relative_gap
from manyheads.verify.watch import LIBRARIES

_NOT_OWN = (*LIBRARIES, str(Path(__file__).parents[1]))
_SAME = {torch.float64: 1e-9, torch.float32: 1e-4}
"""Largest relative difference from NumPy's own numbers that is rounding."""


def is_of_arrays(made: object) -> bool:
    """Whether a function or object is written in NumPy, without torch."""
    if isinstance(made, nn.Module) or inspect.isclass(made):
        return False
    if inspect.isroutine(made):
        names = [getattr(inspect.unwrap(made), "__globals__", {})]
    else:
        kinds = type(made).__mro__[:-1]
        names = [vars(sys.modules[k.__module__]) for k in kinds if k.__module__ in sys.modules]
    return any(_holds(n, np) for n in names) and not any(_holds(n, torch) for n in names)


def runs_numpy(made: object) -> bool:
    """Whether something was made by `of_tensors` from a NumPy subject."""
    return isinstance(getattr(made, "twin", None), _Twin)


def _holds(names: Mapping[str, object], library: ModuleType) -> bool:
    root = library.__name__
    return any(_root_of(value) == root for value in names.values())


def _root_of(value: object) -> str:
    """The library that a module or function belongs to."""
    is_named = isinstance(value, ModuleType | FunctionType | np.ufunc | type)
    if not is_named and not callable(value):
        return ""
    owner = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return "numpy" if isinstance(value, np.ufunc) else str(owner or "").partition(".")[0]


class _NumpyOfTorch(ModuleType):
    """What `np` means while a subject is watched; what torch lacks is NumPy's own."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any name of NumPy
        ours = importlib.import_module("torch._numpy")
        return getattr(ours, name) if hasattr(ours, name) else getattr(np, name)


_STAND_IN = _NumpyOfTorch("numpy")


@contextlib.contextmanager
def _watched_numpy() -> Iterator[None]:
    """Let NumPy mean torch's form of it in every module outside of libraries."""
    changed: list[tuple[dict[str, Any], str, object]] = []
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not file or file.startswith(_NOT_OWN):
            continue
        for name, value in list(vars(module).items()):
            other = _stand_in_for(value)
            if other is not value:
                changed.append((vars(module), name, value))
                vars(module)[name] = other
    try:
        yield
    finally:
        for names, name, value in changed:
            names[name] = value


def _stand_in_for(value: Any) -> Any:  # noqa: ANN401 - any value of a module
    if value is np:
        return _STAND_IN
    if _root_of(value) != "numpy":
        return value
    name = str(getattr(value, "__name__", "")).rpartition(".")[2]
    return getattr(_STAND_IN, name) if getattr(np, name, None) is value else value


@dataclass(frozen=True, kw_only=True, eq=False)
class _Slot:
    """A place in an object where an array is kept."""

    holder: Any
    """An object, a list or a dict."""
    key: Any
    """The name of the attribute, the index or the key."""
    path: tuple[str, ...]
    """Names that lead there from the subject."""

    def get(self) -> Any:  # noqa: ANN401 - an array of either library
        """The array there."""
        if isinstance(self.holder, list | dict):
            return self.holder[self.key]
        return getattr(self.holder, self.key)

    def put(self, value: object) -> None:
        """Put an array there."""
        if isinstance(self.holder, list | dict):
            self.holder[self.key] = value
        else:
            setattr(self.holder, self.key, value)


def _slots(made: object, path: tuple[str, ...] = (), seen: set[int] | None = None) -> list[_Slot]:
    """The places of all arrays of floating-point numbers that an object holds."""
    known = set[int]() if seen is None else seen
    if id(made) in known or isinstance(made, type | ModuleType):
        return []
    known.add(id(made))
    items: list[tuple[Any, Any]] = []
    if isinstance(made, dict):
        items = list(made.items())
    elif isinstance(made, list):
        items = list(enumerate(made))
    elif hasattr(made, "__dict__") and not inspect.isroutine(made):
        items = list(vars(made).items())
    found = []
    for key, value in items:
        here = (*path, str(key))
        if isinstance(value, np.ndarray) and np.issubdtype(value.dtype, np.floating):
            found.append(_Slot(holder=made, key=key, path=here))
        elif not isinstance(value, np.ndarray):
            found += _slots(value, here, known)
    return found


@dataclass(kw_only=True, eq=False)
class _Twin:
    """A NumPy subject in two copies: one that is watched, one that NumPy itself runs."""

    watched: Any
    """Holds arrays of torch's form of NumPy over the parameters."""
    own: Any
    """Holds arrays of NumPy."""
    pairs: list[tuple[_Slot, Tensor]] = field(default_factory=list)
    """Where the second copy keeps each parameter."""

    def __call__(self, *args: Any, **keywords: Any) -> Any:  # noqa: ANN401 - the subject's own
        """The answer as tensors.

        Raises:
            SubjectError: NumPy itself gives other numbers.
        """
        with _disable_current_modes():
            given, named = _plain(args), _plain(keywords)
        with _watched_numpy():
            made = _tensors(self.watched(*_arrays(args), **_arrays(keywords)))
        with _disable_current_modes():
            for slot, parameter in self.pairs:
                slot.put(_array_of(parameter))
            with np.errstate(all="ignore"):
                _compare(made, self.own(*given, **named))
        return made


def _array_of(x: Any) -> Any:  # noqa: ANN401 - any argument
    return x.detach().clone().numpy() if isinstance(x, Tensor) else x


def _arrays(value: Any) -> Any:  # noqa: ANN401 - any arguments
    ndarray = _STAND_IN.ndarray
    return tree_map(lambda x: ndarray(x) if isinstance(x, Tensor) else x, value)


def _plain(value: Any) -> Any:  # noqa: ANN401 - any arguments
    return tree_map(_array_of, value)


def _tensors(value: Any) -> Any:  # noqa: ANN401 - any answer
    ndarray = _STAND_IN.ndarray
    return tree_map(lambda x: x.tensor if isinstance(x, ndarray) else x, value)


def _numbers(value: object) -> list[Tensor]:
    leaves = tree_leaves(value)
    return [torch.as_tensor(x).detach() for x in leaves if isinstance(x, Tensor | np.ndarray)]


def _compare(watched: object, own: object) -> None:
    """Compare what was watched with what NumPy gave.

    Raises:
        SubjectError: they differ.
    """
    one, two = _numbers(watched), _numbers(own)
    same = [x.shape for x in one] == [x.shape for x in two]
    gaps = [
        relative_gap(x.double(), y.double()) / _SAME.get(x.dtype, 1e-2)
        for x, y in zip(one, two, strict=False)
        if same and x.dtype.is_floating_point and torch.isfinite(y).all()
    ]
    if not same or any(not gap <= 1 for gap in gaps):
        raise SubjectError(
            "target: watched operation by operation, its NumPy code gives other numbers than "
            "NumPy: it draws random numbers, keeps a state, or leaves NumPy"
        )


class _ArrayModule(nn.Module):
    """A NumPy object with its arrays as parameters."""

    def __init__(self, made: object) -> None:
        super().__init__()
        own = copy.deepcopy(made)
        watched = copy.deepcopy(made)
        self.twin = _Twin(watched=watched, own=own)
        ndarray = _STAND_IN.ndarray
        for slot, other in zip(_slots(watched), _slots(own), strict=True):
            parameter = nn.Parameter(torch.from_numpy(slot.get().copy()))
            slot.put(ndarray(parameter))
            self._register(slot.path, parameter)
            self.twin.pairs.append((other, parameter))
        for name, value in vars(made).items():
            if isinstance(value, int | float | str) and not hasattr(self, name):
                setattr(self, name, value)

    def _register(self, path: tuple[str, ...], parameter: nn.Parameter) -> None:
        owner: nn.Module = self
        for step in path[:-1]:
            if not isinstance(getattr(owner, step, None), nn.Module):
                owner.add_module(step, nn.Module())
            owner = owner.get_submodule(step)
        owner.register_parameter(path[-1], parameter)


def of_tensors(made: Any) -> Any:  # noqa: ANN401 - a module or function
    """A NumPy subject as a module or function of tensors; any other as it is."""
    if not is_of_arrays(made):
        return made
    if inspect.isroutine(made):
        twin = _Twin(watched=made, own=made)

        @functools.wraps(made)
        def called(*args: Any, **keywords: Any) -> Any:  # noqa: ANN401 - the subject's own
            return twin(*args, **keywords)

        called.twin = twin  # type: ignore[attr-defined]
        return called

    def forward(self: _ArrayModule, *args: Any, **keywords: Any) -> Any:  # noqa: ANN401
        return self.twin(*args, **keywords)

    own = inspect.signature(made)
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    forward.__signature__ = own.replace(parameters=[first, *own.parameters.values()])  # type: ignore[attr-defined]
    kind = type(type(made).__name__, (_ArrayModule,), {"forward": forward})
    return kind(made)
