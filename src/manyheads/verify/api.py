"""Checks or compares modules and functions of this process; `assert_sound` is for tests."""

import contextlib
import copy
import inspect
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from manyheads.core.errors import SubjectError
from manyheads.verify.comparing import compare_targets
from manyheads.verify.comparison_report import Comparison
from manyheads.verify.findings import short
from manyheads.verify.isolation import judged
from manyheads.verify.place import raise_at
from manyheads.verify.report import VerifyReport, undetermined
from manyheads.verify.report_words import first_fault
from manyheads.verify.settings import Setting
from manyheads.verify.subject import Subject
from manyheads.verify.subject_files import subject_from_declared
from manyheads.verify.watch import tensors_in

Attention = nn.Module | Callable[..., Any]


def check(
    module_or_function: Attention,
    subject: Subject | Mapping[str, Any] | None = None,
    **declared: Any,  # noqa: ANN401 - the fields of a subject
) -> VerifyReport:
    """Check an attention module or function in this process, on a copy of it.

    Args:
        module_or_function: the module, the class of one (it is built), or a function.
        subject: what is declared of it, as a whole: a `Subject`, or the object of a subject file.
        **declared: fields of a subject's `spec` and `call` by name, such as `embed_dim=32`,
            `num_heads=4`, `causal="always"`, `masks=[...]`; `params={...}`, `kwargs={...}` of the
            constructor, `submodule="encoder.attn"`. They go before `subject`. What is not declared
            is inferred.

    Returns:
        the report; `undetermined` with the reason if the module raises or cannot be copied.

    Raises:
        SubjectError: a declaration that is not known, or a value of the wrong type.
    """
    known = subject_from_declared(_name(module_or_function), declared, subject)
    begun = time.perf_counter()
    with _one_thread(), warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        try:
            report = judged(_copied(module_or_function), known)
        except SubjectError as error:
            report = undetermined(known, str(error))
        except (Exception, SystemExit) as error:
            report = undetermined(known, f"verifying it raises {short(error)}")
    return replace(report, seconds=time.perf_counter() - begun)


def compare(
    a: Attention,
    b: Attention | None = None,
    *,
    subject_a: Subject | Mapping[str, Any] | None = None,
    subject_b: Subject | Mapping[str, Any] | None = None,
    dtype: str | None = None,
    device: str | None = None,
    **declared: Any,  # noqa: ANN401 - the fields of a subject
) -> Comparison:
    """Compare two attention modules or functions in this process, on copies of them.

    Both get the same weights, matched by what each does with them, and the same inputs.

    Args:
        a: a module, the class of one (it is built), or a function.
        b: the same; a result of `torch.compile` is compared eagerly and compiled. Unless given, `a`
            is compared with itself in another type or on another device.
        subject_a: what is declared of `a` alone: a `Subject`, or the object of a subject file.
        subject_b: what is declared of `b` alone.
        dtype: type in which `b` is run too: float64, float32, bfloat16 or float16.
        device: device of torch on which `b` is run too, such as "cuda".
        **declared: what is declared of both, as for `check`. It goes before the subjects.

    Returns:
        the comparison; `undetermined` with the reason if one of them cannot be read.

    Raises:
        SubjectError: a declaration that is not known, or a value of the wrong type.
    """
    second = a if b is None else b
    pair = (_eager(a), _eager(second))
    setting = Setting(
        dtype=dtype,
        device=device,
        is_compiled=any(x is not y for x, y in zip(pair, (a, second), strict=True)),
    )
    known = (
        subject_from_declared(_name(pair[0]), declared, subject_a),
        subject_from_declared(_name(pair[1]), declared, subject_b),
    )
    if b is None and setting.is_plain:
        raise SubjectError("b is not given: give it, or a dtype or a device to compare a in")
    with _one_thread(), warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        return compare_targets((_copied(pair[0]), _copied(pair[1])), known, setting)


def _eager(made: Attention) -> Attention:
    """The module or function that `torch.compile` was given."""
    inner = getattr(made, "_orig_mod", None) or getattr(made, "_torchdynamo_orig_callable", None)
    return made if inner is None else inner


def assert_sound(module_or_function: Attention, **declared: Any) -> None:  # noqa: ANN401 - as check
    """Raise unless an attention module or function is sound; for tests.

    Args:
        module_or_function: as for `check`.
        **declared: as for `check`, `subject` included.

    Raises:
        AssertionError: it is not sound; the message is the report, and the traceback ends at the
            line of the module's own source where it departs from attention, if that was found.
        SubjectError: as for `check`.
    """
    __tracebackhide__ = True
    report = check(module_or_function, **declared)
    if not report.is_sound:
        said = f"this attention is {report.verdict}: {first_fault(report)}"
        raise_at(AssertionError(f"{said}\n{report}"), report.place)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: the sums are too small to gain from several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _name(made: Attention) -> str:
    if not callable(made):
        raise SubjectError(
            f"module_or_function ({type(made).__name__}) cannot be called: pass a module"
        )
    named = made if inspect.isclass(made) or inspect.isroutine(made) else type(made)
    return f"{named.__module__}:{named.__qualname__}"


def _copied(made: Attention) -> Attention:
    """A copy on the CPU that shares nothing with the caller's module.

    Tensors that an earlier call has left there are copied without their history.
    """
    if not isinstance(made, nn.Module):
        return made
    kept = (x for m in made.modules() for held in vars(m).values() for x in tensors_in(held))
    try:
        known = {id(x): x.detach().clone() for x in kept if not x.is_leaf}
        return copy.deepcopy(made, known).cpu()
    except Exception as error:
        raise SubjectError(f"the module cannot be copied: {short(error)}") from error
