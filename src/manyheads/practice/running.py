"""Loads the code of an answer, builds it and calls it."""

import copy
import linecache
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.core.errors import LearnError
from manyheads.practice.case import Case, draw
from manyheads.practice.task import Task
from manyheads.verify.findings import short

_WORDS = {"query": "q", "key": "k", "value": "v", "out": "o", "output": "o"}
_FILLING = {"w", "proj", "projection", "linear", "lin", "to", "fc", "layer", "weights"}


@dataclass(frozen=True, kw_only=True)
class Raised:
    """An exception of an answer's own code."""

    says: str
    """Its type and its message."""
    file: str | None = None
    """The file of the innermost line of the answer."""
    line: int | None = None
    """That line, counted from 1."""


class UnmatchedError(Exception):
    """The parameters of a learner's module are not those of the file."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Ran:
    """A call and what came of it."""

    values: tuple[object, ...] = ()
    """What it returned, with the parts of tuples and lists in one row."""
    gradients: Mapping[str, Tensor | None] = field(default_factory=dict)
    """Of inputs and parameters by name; empty where they were not asked for."""
    raised: Raised | None = None
    """What it raised."""
    changed: tuple[str, ...] = ()
    """Arguments that it changed."""


def load_code(text: str, entry: str, file: str) -> Any:  # noqa: ANN401 - a function or class
    """Run the text of an answer, and take its function or class.

    Args:
        text: the whole of its code.
        entry: the name to take.
        file: the name under which its lines are known.

    Raises:
        LearnError: the text does not define the name.
    """
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "answer"}
    exec(compile(text, file, "exec"), names)
    if entry not in names:
        raise LearnError(f"file ({file}) does not define {entry}: use this name")
    return names[entry]


def called(task: Task) -> Callable[..., Any]:
    """The function that calls an answer with drawn arguments."""
    if not task.probe:
        return lambda f, *arguments: f(*arguments)
    probe: Callable[..., Any] = load_code(task.imports + task.probe, "probe", f"<{task.name} call>")
    return probe


def raised_by(error: BaseException, files: frozenset[str]) -> Raised:
    """An exception with the innermost line of the answer's own files."""
    frames = traceback.extract_tb(error.__traceback__)
    own = next((frame for frame in reversed(frames) if frame.filename in files), None)
    says = short(error)
    if isinstance(error, SystemExit):
        says = "it calls sys.exit or exit"
    elif isinstance(error, NotImplementedError):
        says = "it still raises NotImplementedError: replace that line by your code"
    elif isinstance(error, RecursionError):
        says = "it calls itself without end"
    if own is None:
        return Raised(says=says)
    return Raised(says=says, file=own.filename, line=own.lineno)


def pair(task: Task, reference: Any, learner: Any, case: Case) -> tuple[Any, Any]:  # noqa: ANN401
    """Build the solution and a learner's answer with the same parameters.

    Raises:
        UnmatchedError: the learner's module has other parameters.
    """
    if not task.is_module:
        made = learner() if isinstance(learner, type) else learner
        return reference, made
    sizes = [case.size(letter) for letter in task.build]
    torch.manual_seed(case.number)
    ours = reference(*sizes)
    _randomise(ours)
    theirs = learner(*sizes)
    if not isinstance(theirs, nn.Module):
        raise UnmatchedError(f"{task.entry} is not an nn.Module: derive it from nn.Module")
    _take_parameters(ours, theirs)
    for module in (ours, theirs):
        module.to(case.dtype).train(case.is_training)
    return ours, theirs


def _randomise(module: nn.Module) -> None:
    """Numbers that make scores and weights differ well."""
    with torch.no_grad():
        for x in module.parameters():
            x.normal_(0.1, 1.3 / x.shape[-1] ** 0.5 if x.dim() > 1 else 0.5)


def _take_parameters(ours: nn.Module, theirs: nn.Module) -> None:
    given = {_normal(name): x for name, x in ours.named_parameters()}
    mine = {_normal(name): (name, x) for name, x in theirs.named_parameters()}
    same = given.keys() == mine.keys()
    if not same or any(x.shape != mine[name][1].shape for name, x in given.items()):
        has = ", ".join(f"{n} {tuple(x.shape)}" for n, x in theirs.named_parameters())
        wants = ", ".join(f"{n} {tuple(x.shape)}" for n, x in ours.named_parameters())
        raise UnmatchedError(
            f"the module has the parameters {has or 'none'}; the task needs {wants}"
        )
    with torch.no_grad():
        for name, x in given.items():
            mine[name][1].copy_(x)


def _normal(name: str) -> str:
    """One name for a parameter that people name in different ways: q_proj, W_q, query."""
    *path, last = name.lower().split(".")
    words = [w for part in path for w in re.findall(r"[a-z]+|\d+", part)]
    words = [re.sub(r"^w(?=(q|k|v|o|qkv)$)", "", w) for w in words]
    return " ".join([*(_WORDS.get(w, w) for w in words if w not in _FILLING), last])


def run(task: Task, made: Any, case: Case, files: frozenset[str]) -> Ran:  # noqa: ANN401
    """Call an answer that is built.

    Args:
        task: the task.
        made: the function or module.
        case: the call.
        files: source files whose lines are the answer's.
    """
    arguments = draw(task.arguments, case)
    is_tracked = case.has_gradients and task.has_gradients
    kept = {n: x.clone() for n, x in arguments.items() if isinstance(x, Tensor)}
    for x in arguments.values():
        if isinstance(x, Tensor) and x.is_floating_point():
            x.requires_grad_(is_tracked)
    torch.manual_seed(case.number)
    try:
        with torch.set_grad_enabled(is_tracked):
            values = tuple(_flat(called(task)(made, *arguments.values())))
            changed = tuple(n for n, x in kept.items() if not _same(x, arguments[n]))
            gradients = _gradients(made, arguments, values) if is_tracked else {}
    except (Exception, SystemExit) as error:
        return Ran(raised=raised_by(error, files))
    return Ran(values=values, gradients=gradients, changed=changed)


def _flat(value: object) -> Iterator[object]:
    if isinstance(value, tuple | list):
        for part in value:
            yield from _flat(part)
    else:
        if isinstance(value, Tensor) and not value.requires_grad:
            value = value.clone()  # a later call may change it in place
        yield value


def _same(a: Tensor, b: object) -> bool:
    return isinstance(b, Tensor) and torch.equal(a.detach(), b.detach())


def _gradients(
    made: object, arguments: Mapping[str, object], values: tuple[object, ...]
) -> dict[str, Tensor | None]:
    """Gradients of a weighted sum of all results."""
    inputs = {n: x for n, x in arguments.items() if isinstance(x, Tensor) and x.requires_grad}
    if isinstance(made, nn.Module):
        inputs |= {_normal(n): x for n, x in made.named_parameters()}
    results = [y for y in values if isinstance(y, Tensor) and y.requires_grad]
    if not inputs or not results:
        return dict.fromkeys(inputs)
    generator = torch.Generator().manual_seed(7)
    total = sum(
        (y * torch.randn(y.shape, generator=generator, dtype=torch.float64)).sum() for y in results
    )
    found = torch.autograd.grad(total, list(inputs.values()), allow_unused=True)  # type: ignore[arg-type]
    return dict(zip(inputs, found, strict=True))


def named_steps(task: Task, made: Any, case: Case, file: str) -> dict[str, Tensor]:  # noqa: ANN401
    """The local variables of an answer that hold tensors, in order, and what it returns.

    Args:
        task: the task.
        made: the function or module of the answer.
        case: the call.
        file: the name under which its code was loaded.
    """
    found: dict[str, Tensor] = {}

    def look(frame: Any, event: str, value: object) -> None:  # noqa: ANN401 - a frame
        code: CodeType = frame.f_code
        if event != "return" or code.co_filename != file:
            return
        if code.co_name not in ("forward", task.entry):
            return
        given = code.co_varnames[: code.co_argcount]
        names = [n for n in code.co_varnames if n not in given or n in ("q", "k", "v")]
        for name in names:
            x = frame.f_locals.get(name)
            if isinstance(x, Tensor) and x.is_floating_point():
                found[name] = x.detach().clone()
        if isinstance(value, Tensor):
            found.pop("output", None)
            found["output"] = value.detach().clone()

    before = sys.getprofile()
    arguments = copy.deepcopy(draw(task.arguments, case))
    torch.manual_seed(case.number)
    probe = called(task)
    sys.setprofile(look)
    try:
        with torch.no_grad():
            probe(made, *arguments.values())
    except Exception:
        return found
    finally:
        sys.setprofile(before)
    return found
