"""The words of a report, for its text and its page alike."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manyheads.core.text import printable, quoted
from manyheads.verify.findings import (
    READING,
    STATUSES,
    VERDICTS,
    CheckResult,
    Finding,
    Result,
    Step,
    Where,
)
from manyheads.verify.place import shown_path
from manyheads.verify.report_picture import Picture, picture_from_evidence

MEANINGS = {
    "sound": "",
    "nonstandard": "It equals attention only under another reading than the standard one. "
    "Declare that reading if you mean it.",
    "faulty": "",
    "undetermined": "It could not be compared with the formula of attention.",
}
"""What a verdict says of the subject, where the findings alone do not tell."""
_OUTPUT_LINES = 4
_SHOWN_ELSEWHERE = {
    *("influence", "rows", "columns", "output", "entry", "expected", "found", "problems"),
}
_RELATIONS = {
    "arrangement": "the same numbers in another arrangement",
    "part": "equal except for some entries",
    "factor": "a multiple of the right numbers",
    "missing": "the step is left out",
    "other": "other numbers",
}
_LABELS = {
    "build.kwargs": "built with",
    "call.form": "called as",
    "call.layout": "axes of the input",
    "call.filled": "also passed",
    "call.left_out": "not passed",
    "call.returns": "returns",
    "call.causal_arg": "causal if asked by",
    "call.masks": "masks",
    "call.flags": "flags",
    "call.weights_axes": "axes of weights",
    "params": "weights",
    "spec": "settings",
    "spec.position": "positions",
    "spec.rotary_start": "rotary start",
    "spec.scale": "scale",
    "spec.order": "keys that are seen",
    "spec.softcap": "soft cap of scores",
    "spec.sinks": "sinks",
    "spec.bias": "bias",
    "spec.norms": "norms",
}
"""The name that readers see of each field that was inferred."""
_VALUES = {
    "call.layout": {
        "BTE": "batch, positions, channels",
        "TBE": "positions, batch, channels",
        "BET": "batch, channels, positions",
    },
    "call.returns": {
        "out": "the output",
        "out,weights": "the output and the weights",
        "out,cache": "the output and the cache",
    },
    "call.weights_axes": {
        "BHTS": "batch, heads, queries, keys",
        "BTS": "batch, queries, keys (mean over heads)",
    },
}
_CONVENTIONS = {
    "allowed": "True = visible",
    "blocked": "True = hidden",
    "additive": "added to the scores",
    "one_zero": "1 = visible",
    "lengths": "number of keys",
}


def clean(text: str) -> str:
    """The text on one line, with control characters escaped."""
    return printable(" ".join(str(text).split()))


def heading(result: Result) -> str:
    """The verdict and the subject, in one line."""
    name = f"{result.id}: {result.target}" if result.id else result.target
    return clean(f"{result.verdict.upper()}: {name}".rstrip(": "))


def last_words(result: Result) -> str:
    """The verdict once more, and the time that it took."""
    return f"Verdict: {result.verdict}, in {result.seconds:.2f} s."


def summary(results: Sequence[Result]) -> str:
    """Number of subjects with each verdict, and their total time."""
    verdicts = [result.verdict for result in results]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in VERDICTS)
    noun = "subject" if len(results) == 1 else "subjects"
    return f"{len(results)} {noun}: {counts}; {sum(r.seconds for r in results):.1f} s of work."


def first_fault(result: Result) -> str:
    """A word or two on the first finding, for a table."""
    if not result.findings:
        return ""
    first = result.findings[0]
    name = first.says if result.verdict == "undetermined" else first.check
    line = ""
    if first.where is not None:
        name = f"step {first.where.step}"
        line = f", line {first.where.line}" if first.where.line else ""
    text = f"{first.fault or name}{line}"
    return clean(text if first.severity != "note" else f"note: {text}")


def finding_title(number: int, finding: Finding) -> str:
    """The name of a finding and how bad it is."""
    kind = "nonstandard" if finding.check == READING else finding.severity
    step = "" if finding.where is None else f"step {finding.where.step} departs"
    return clean(f"{number}. {finding.fault or step or finding.check} ({kind})")


def relation_words(relation: str | None, factor: float | None = None) -> str:
    """How the numbers of a step differ."""
    if relation == "factor" and factor is not None:
        return f"the right numbers times {factor:.6g}"
    return clean(_RELATIONS.get(relation or "", relation or ""))


def place_words(where: Where) -> str:
    """The step that departs, and how."""
    return f"At step {clean(where.step)}: {relation_words(where.relation, where.factor)}."


def path_and_line(where: Where) -> str:
    """`file:line`, which terminals and editors open; empty where it is not known."""
    return f"{shown_path(where.file)}:{where.line}" if where.file and where.line else ""


def entry_words(finding: Finding) -> str:
    """One entry of the step that departs: what was expected and what was found."""
    evidence = finding.evidence
    if not isinstance(evidence.get("entry"), Sequence) or "expected" not in evidence:
        return ""
    step = "" if finding.where is None else finding.where.step
    place = ", ".join(map(str, evidence["entry"]))
    pair = [evidence["expected"], evidence.get("found")]
    expected, found = (number_words(value, step, _digits(pair)) for value in pair)
    return clean(f"entry [{place}]: expected {expected}, found {found}")


def _digits(pair: Sequence[Any]) -> int:
    """Significant digits that tell two numbers apart."""
    numbers = [value for value in pair if isinstance(value, int | float)]
    is_pair = len(numbers) == 2
    return next((n for n in (5, 8, 11) if len({f"{x:.{n}g}" for x in numbers}) > is_pair), 17)


def number_words(
    value: Any,  # noqa: ANN401 - evidence may hold anything
    step: str,
    digits: int = 5,
) -> str:
    """One number of a step."""
    if value is None:  # JSON has no number that is not finite
        return "-inf (hidden)" if step == "masked_scores" else "a number that is not finite"
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def evidence_words(evidence: Mapping[str, Any]) -> str:
    """The numbers of a finding in one phrase, without those that are shown in another way."""
    items = [(k, v) for k, v in evidence.items() if k not in _SHOWN_ELSEWHERE and _is_short(v)]
    return clean("; ".join(f"{_words(key)} {_value(item)}" for key, item in items))


def problem_words(evidence: Mapping[str, Any]) -> str:
    """The kinds of inputs that show the fault."""
    problems = evidence.get("problems")
    is_list = isinstance(problems, list | tuple) and _is_short(problems)
    return clean(", ".join(map(str, problems or ()))) if is_list else ""


def _is_short(value: Any) -> bool:  # noqa: ANN401 - evidence may hold anything
    return value not in (None, "", [], {}) and len(str(value)) <= 160


def output_lines(evidence: Mapping[str, Any]) -> list[str]:
    """First and last lines of the subject's output, which may explain a missing verdict."""
    printed = str(evidence.get("output") or "").splitlines()
    lines = [printable(line.expandtabs(4)) for line in printed if line.strip()]
    if len(lines) > 2 * _OUTPUT_LINES:
        lines = [*lines[:_OUTPUT_LINES], "...", *lines[-_OUTPUT_LINES:]]
    return lines


def new_parts(findings: Sequence[Finding]) -> Iterator[tuple[Where | None, Picture | None]]:
    """Place and picture of each finding; None where an earlier finding showed the same."""
    places: list[Where] = []
    pictures: list[Picture] = []
    for finding in findings:
        where, picture = finding.where, picture_from_evidence(finding.evidence)
        yield None if where in places else where, None if picture in pictures else picture
        places += [where] if where is not None else []
        pictures += [picture] if picture is not None else []


def step_rows(steps: Sequence[Step]) -> list[tuple[str, str, str, str]]:
    """Name, status, line and remark of each step that was seen."""
    return [_step_row(step) for step in steps if step.status != "not seen"]


def unseen_words(steps: Sequence[Step]) -> str:
    """The steps whose numbers were not seen; empty where there are none."""
    names = ", ".join(clean(step.step) for step in steps if step.status == "not seen")
    why = "no result of the call holds these numbers, as after a step that departs"
    return f"Not seen: {names} ({why})." if names else ""


def _step_row(step: Step) -> tuple[str, str, str, str]:
    line = f"line {step.line}" if step.line else ""
    if step.status != "departs":
        return clean(step.step), step.status, line, ""
    gap = f"largest difference {step.gap:.3g}" if step.gap else ""
    remark = "; ".join(part for part in (relation_words(step.relation), gap) if part)
    return clean(step.step), step.status, line, remark


def understood(inferred: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was inferred because it was not declared, as a name and words."""
    pairs = ((name, item) for name, item in inferred.items() if name != "notes")
    return [(clean(_label(name)), clean(_phrase(name, item))) for name, item in pairs]


def _label(name: str) -> str:
    return _LABELS.get(name) or _words(name)


def _phrase(name: str, item: Any) -> str:  # noqa: ANN401 - whatever was inferred
    if name in _VALUES:
        return _VALUES[name].get(str(item), str(item))
    if name == "call.form":
        return str(item).partition(" ")[2] or str(item)
    if name == "call.masks" and isinstance(item, list | tuple):
        return "; ".join(map(_mask, item)) or "none"
    if name in ("build.kwargs", "call.filled") and isinstance(item, Mapping):
        return ", ".join(f"{key}={quoted(part)}" for key, part in item.items())
    is_joined = isinstance(item, Mapping | list | tuple) and len(item) > 0
    return _value(item)[1:-1] if is_joined else _value(item)


def _mask(mask: Any) -> str:  # noqa: ANN401 - whatever was inferred
    if not isinstance(mask, Mapping):
        return _value(mask)
    convention = str(mask.get("convention"))
    return f"{mask.get('arg')} {mask.get('axes')}, {_CONVENTIONS.get(convention, convention)}"


def _words(name: str) -> str:
    return str(name).replace("_", " ").replace(".", " ")


def _value(item: Any) -> str:  # noqa: ANN401 - whatever was inferred
    if isinstance(item, Mapping):
        return "(" + ", ".join(f"{key} {_value(part)}" for key, part in item.items()) + ")"
    if isinstance(item, list | tuple):
        return "(" + ", ".join(map(_value, item)) + ")" if item else "none"
    if isinstance(item, float):
        return f"{item:.5g}"
    return {"None": "none", "True": "yes", "False": "no"}.get(str(item), str(item))


def check_counts(checks: Sequence[CheckResult]) -> str:
    """How many checks passed, failed and were skipped."""
    counts = [f"{sum(c.status == status for c in checks)} {status}" for status in STATUSES]
    return f"Checked: {', '.join(counts)}."


def check_reason(check: CheckResult, findings: Sequence[Finding]) -> str:
    """Why a check has its status: the number of the finding that says so, or in words."""
    same = (i for i, f in enumerate(findings, start=1) if f.says == check.why)
    number = next(same, None)
    return clean(check.why) if number is None else f"see {number}"
