"""The words of a comparison, for its text and its page alike."""

import math

from manyheads.verify.comparison import Compared, ComparedStep, Source
from manyheads.verify.place import shown_path
from manyheads.verify.report_words import clean, number_words, relation_words


def heading(c: Compared) -> str:
    """The verdict and the two implementations, in one line."""
    return clean(f"{c.verdict.upper()}: {c.a} and {c.b}")


def summary(c: Compared) -> str:
    """The result in a sentence or two."""
    step = c.departure
    if step is None:
        return clean(c.says)
    how = relation_words(step.relation) if step.relation else ""
    if step.factor is not None:
        how = f"b has {step.factor:.6g} times the numbers of a"
    return clean(f"{c.says} They depart at step {step.step}{': ' if how else ''}{how}.")


def place_words(source: Source | None) -> str:
    """Path and line."""
    if source is None or source.file is None:
        return ""
    return f"{shown_path(source.file)}:{source.line}"


def entry_words(step: ComparedStep) -> str:
    """One number of both."""
    if step.entry is None:
        return ""
    index = ", ".join(map(str, step.entry.index))
    pair = (step.entry.a, step.entry.b)
    a, b = (number_words(x if math.isfinite(x) else None, step.step) for x in pair)
    return f"entry [{index}] of {step.step}: a {a}, b {b}"


def step_rows(c: Compared) -> list[tuple[str, str, str, str, str]]:
    """Name, status, gap and both lines of each step."""
    return [
        (
            clean(step.step),
            step.status,
            "" if step.gap is None else f"{step.gap:.2g}",
            _line(step.a),
            _line(step.b),
        )
        for step in c.steps
        if step.status != "not seen" or step.a or step.b
    ]


def _line(source: Source | None) -> str:
    return "" if source is None or source.line is None else str(source.line)


def map_rows(c: Compared) -> list[tuple[str, str, str, str]]:
    """Weight, parameter of both, and what is done between them."""
    rows = []
    for row in c.map:
        head = "" if row.head is None else f" of head {row.head + 1}"
        turned = "transposed" if row.is_transposed else ""
        rows.append((clean(f"{row.weight}{head}"), clean(row.a), clean(row.b), turned))
    for side in ("a", "b"):
        for name in c.unmatched.get(side, ()):
            pair = (clean(name), "-") if side == "a" else ("-", clean(name))
            rows.append(("-", *pair, "no counterpart"))
    return rows


def weights_words(c: Compared) -> str:
    """How the weights were matched."""
    if c.matched_by is None:
        return ""
    if not c.map:
        return "Weights: neither has any."
    parts = f"{len(c.map)} part" + "s" * (len(c.map) != 1)
    if c.matched_by == "name":
        return (
            f"Weights: {parts}, matched by name, because what one of them does with its weights "
            "could not be read."
        )
    return f"Weights: {parts}, matched by what each implementation does with them."


def problem_rows(c: Compared) -> list[tuple[str, str]]:
    """Name and gap of each problem."""
    return [
        (clean(p.name), f"{p.gap:.2g}" if p.gap is not None else clean(f"not compared: {p.says}"))
        for p in c.problems
    ]


def left_out_words(c: Compared) -> str:
    """What was not compared."""
    return clean(f"Not compared: {'; '.join(c.left_out)}.") if c.left_out else ""


def rounding_words(c: Compared) -> str:
    """The largest gap, and what counts as equal."""
    if c.gap is None or c.tolerance is None:
        return ""
    return (
        f"Largest difference: {c.gap:.2g} of the largest output; up to {c.tolerance:.2g} counts as "
        "rounding."
    )


def last_words(c: Compared) -> str:
    """The verdict once more, and the time that it took."""
    return f"Verdict: {c.verdict}, in {c.seconds:.2f} s."
