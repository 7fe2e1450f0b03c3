"""What the checks share: the callee, the problems, what was observed, and what was found."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import Answer, Problem
from manyheads.verify.calling import Callee, Outcome
from manyheads.verify.findings import CheckResult, Finding, Severity, Status, Step
from manyheads.verify.parameters import Located
from manyheads.verify.problems import ProblemMaker
from manyheads.verify.subject import Subject
from manyheads.verify.understanding import Understanding

RIGHT = Pipeline()
"""The formula in float64."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One problem that was put to the subject on one path, and the outcome."""

    name: str
    """What is special about the problem."""
    path: str
    """What is special about the call: a flag's value or a mode; empty for the plain call."""
    problem: Problem
    """The problem."""
    outcome: Outcome
    """What came of it."""
    gap: float | None
    """Relative difference from the formula, None where there are no weights to compare with."""
    extra: Mapping[str, object] = field(default_factory=dict)
    """Further keywords of the call."""

    @property
    def has_equal_sizes(self) -> bool:
        """Whether batch, length and heads are equal, which hides exchanged axes."""
        sizes = {self.problem.batch, self.problem.x_q.shape[-2], self.problem.num_heads}
        return len(sizes) == 1 and not self.problem.masks and not self.problem.chunks


@dataclass(kw_only=True)
class Context:
    """The state of one verification."""

    subject: Subject
    """Fully declared or inferred."""
    callee: Callee
    """In the dtype in which values are compared."""
    maker: ProblemMaker
    """Makes problems."""
    located: Located | None
    """The weights, None where unknown."""
    strict: bool
    """Whether the weights were declared, so that a legal but other reading of them is an error."""
    known: Understanding
    """What was seen of the subject at work."""
    limits: list[str] = field(default_factory=list)
    """Limits of correct code."""
    steps: tuple[Step, ...] = ()
    """The steps of the formula in the call that was compared with it."""
    entry: dict[str, Any] = field(default_factory=dict)
    """One entry of the step that departs, expected and found."""
    tolerance: float = 1e-11
    """Largest relative difference that counts as equal."""
    cases: list[Case] = field(default_factory=list)
    """Everything that was observed."""
    findings: list[Finding] = field(default_factory=list)
    """Everything that was found."""
    results: list[CheckResult] = field(default_factory=list)
    """Everything that was checked."""

    @property
    def values_are_wrong(self) -> bool:
        """Whether the output has already been seen to differ from the formula."""
        return any(case.gap is not None and case.gap > self.tolerance for case in self.cases)

    @property
    def against_declared(self) -> Severity:
        """How bad another reading is: an error against a declaration, else to be declared."""
        return "error" if self.strict else "warning"

    def covers(self, problem: Problem) -> bool:
        """Whether a table of biases, if there is one, was seen for as many positions."""
        bias = self.subject.extras.bias
        return bias is None or max(problem.x_q.shape[-2], problem.x_k.shape[-2]) <= bias.shape[-1]

    def passed(self, name: str, why: str = "", figure: float | None = None) -> None:
        """Record that a check passed."""
        self._record(name, "passed", why, figure)

    def skipped(self, name: str, why: str) -> None:
        """Record that a check was not made, and why."""
        self._record(name, "skipped", why, None)

    def failed(self, name: str, finding: Finding, figure: float | None = None) -> None:
        """Record a finding."""
        self.findings.append(finding)
        status: Status = "skipped" if finding.severity == "note" else "failed"
        self._record(name, status, finding.says, figure)

    def _record(self, name: str, status: Status, why: str, figure: float | None) -> None:
        if figure is not None and not math.isfinite(figure):
            figure = None
        self.results.append(CheckResult(name=name, status=status, why=why, figure=figure))

    def put(self, problem: Problem, **extra: object) -> Outcome:
        """Put a problem to the subject without recording gradients."""
        with torch.no_grad():
            return self.callee.call(problem, **extra)

    def answer(self, problem: Problem) -> Answer:
        """The right answer."""
        with torch.no_grad():
            return RIGHT.run(problem)


Check = Callable[[Context], None]


def without_masks(problem: Problem) -> Problem:
    """The same problem with nothing masked."""
    return replace(problem, masks=())


def changed_inputs(problem: Problem, change: Callable[[Tensor], Tensor]) -> Problem:
    """The same problem with each input changed; what was one tensor stays one."""
    x_q = change(problem.x_q)
    x_k = x_q if problem.x_k is problem.x_q else change(problem.x_k)
    if problem.x_v is problem.x_q:
        return replace(problem, x_q=x_q, x_k=x_k, x_v=x_q)
    x_v = x_k if problem.x_v is problem.x_k else change(problem.x_v)
    return replace(problem, x_q=x_q, x_k=x_k, x_v=x_v)
