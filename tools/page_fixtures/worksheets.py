"""What the page's engine must reproduce: answers, random edits, explanations, number texts.

The exact engine solves them; the same seed gives the same document.
"""

import random
import zlib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from manyheads.core.errors import WorksheetError
from manyheads.worksheets.arithmetic import Number, float_of, multiply
from manyheads.worksheets.display import decimal_text, fraction_text
from manyheads.worksheets.explain import Explainer, Step
from manyheads.worksheets.fields import fields_of
from manyheads.worksheets.interventions import one_wide_head, without_head, zero_query
from manyheads.worksheets.library import Worksheet, worksheet, worksheet_names
from manyheads.worksheets.numbers import exact_text, parse_number
from manyheads.worksheets.solution import Solution
from tools.page_fixtures.python_line import python_line

SEED, EDITS = 20, 300
_SHARES = {"two-routes": 48, "three-heads": 34, "river-and-cheque": 18}
"""How often each worksheet is edited; the longest one takes the longest to solve."""
_LONGEST = 60
NUMBER_TEXTS = (
    *("1/7", "ln 2", "sqrt 2", "0.25", "-3", "2*ln(3)", "ln(12)", "sqrt(8)", "sqrt(2/3)", "1e3"),
    *("1/(1+sqrt(2))", "sqrt(2)*sqrt(6)", "ln(4/9)/2", "-(1/2 - 3*sqrt(5))", ".5", "2.", "1e-30"),
    *("ln(1009*1013)", "sqrt(2) - 1.41421356237309504880168872420", "ln(1)", "sqrt(0)", "+-+4"),
    *("ln(1018081)", "3*ln(2)*ln(2)*sqrt(3)/5", "ln(2) + ln(3)", "0.1 + 0.2", "1000000/3", "7/7"),
    *("", "abc", "log 2", "1/0", "ln(0)", "ln(-1)", "sqrt(-1)", "ln(sqrt(2))", "2 3", "(1", "1)"),
    *("1/ln(2)", "1e31", "0.1234567890123456789012345678901", "2**3", "1,5", "$", "1/", "sqrt"),
    *(
        "nan",
        "9" * 31,
        "1" * 101,
        "(" * 20 + "1" + ")" * 20,
        "(" * 21 + "1" + ")" * 21,
        "1e99",
        "1/(sqrt(2)+sqrt(3))",
    ),
    *("0x10", "'", "--1", "1/3/4", "(1/3)/4", "1 - -1"),
)
"""Texts that are numbers, and texts that are none."""
SHOWN_TEXTS = (
    *("26/7", "1/4", "-1/4", "sqrt(2)", "5", "1/300", "1/9999", "1/10001", "1/20000", "1e9"),
    *(f"{'1' * length}/100000007" for length in range(4, 10)),
    *(f"{limit}00000000000000000001" for limit in ("0.0005", "1000000.", "0.0001", "0.0995")),
    *(f"{whole}.5" for whole in (10**8, 10**9 - 1, 10**9)),
    *(
        f"{sign}{mantissa}0123456789012345e{exponent}"
        for sign, mantissa in (("", "1.0"), ("", "4.9"), ("-", "5.1"), ("", "9.94"), ("", "9.96"))
        for exponent in range(-7, 8)
    ),
)
"""Numbers of all sizes, and exact texts of all lengths, to be shown in both styles."""


def fixture(edits: int = EDITS, seed: int = SEED) -> dict[str, Any]:
    """Everything, as one JSON document."""
    names = worksheet_names()
    return {
        "worksheets": [_answers(worksheet(name)) for name in names],
        "explanations": [_explanations(worksheet(name)) for name in names],
        "numbers": [_number_case(text) for text in NUMBER_TEXTS],
        "shown": [_shown_case(text) for text in SHOWN_TEXTS],
        "edits": list(_edit_cases(edits, random.Random(seed))),
    }


def _answers(sheet: Worksheet) -> dict[str, Any]:
    solutions = (sheet.solve(name, exact=True) for name in sheet.sequence_names)
    return {
        "name": sheet.name,
        "sequences": [
            {"name": solution.sequence, "fields": _fields(_tables(solution))}
            for solution in solutions
        ],
    }


def _tables(solution: Solution) -> dict[str, npt.NDArray[Any]]:
    return {**solution.numbers, "weighted_values": weighted_values(solution)}


def weighted_values(solution: Solution) -> npt.NDArray[Any]:
    """What each source hands over: weight times value, (H, T, S, v)."""
    weights, values = solution.numbers["attn_weights"], solution.numbers["v"]
    made = np.empty((*weights.shape, values.shape[-1]), dtype=object)
    for h, t, s, i in np.ndindex(made.shape):
        made[h, t, s, i] = multiply(weights[h, t, s], values[h, s, i])
    return made


def _fields(tables: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
    return {name: _flat(table) for name, table in tables.items()}


def _flat(table: npt.NDArray[Any]) -> dict[str, Any]:
    numbers = table.ravel().tolist()
    return {
        "shape": list(table.shape),
        "values": [_value(number) for number in numbers],
        "exact": [_cut(_exact(number)) for number in numbers],
    }


def _value(number: Number) -> float | str:
    value = float_of(number)
    return value if np.isfinite(value) else str(value)


def _exact(number: Number) -> str | None:
    return None if isinstance(number, Decimal) else exact_text(number)


def _cut(text: str | None) -> str | None:
    """A long text as its beginning, its end and its length."""
    if text is None or len(text) <= _LONGEST:
        return text
    return f"{text[:20]}...{text[-20:]} ({len(text)})"


def _number_case(text: str) -> dict[str, Any]:
    try:
        number = parse_number(text)
    except WorksheetError as error:
        return {"text": text, "error": str(error)}
    return {"text": text, "value": _value(number), "exact": _exact(number)}


def _shown_case(text: str) -> dict[str, str]:
    number = parse_number(text)
    return {"text": text, "fraction": fraction_text(number), "decimal": decimal_text(number)}


def _explanations(sheet: Worksheet) -> dict[str, Any]:
    explainer, name = Explainer(sheet), sheet.sequence_names[0]
    receiver = len(sheet.sequence(name).tokens) - 2  # the last but one: it has a blocked source
    steps = {step.quantity: step for step in _steps_of(explainer, name, receiver)}
    pending = list(steps.values())
    while pending:
        for used in pending.pop().uses:
            if used not in steps:
                steps[used] = explainer.step(used)
                pending.append(steps[used])
    return {
        "worksheet": sheet.name,
        "sequence": name,
        "receiver": receiver,
        "steps": [_step(explainer, step) for step in steps.values()],
    }


def _steps_of(explainer: Explainer, name: str, receiver: int) -> Iterator[Step]:
    solution = Worksheet.from_text(explainer.sheet.text).solve(name, exact=True)
    for field in fields_of(explainer.sheet):
        at = field.axes.find("T")
        for index in np.ndindex(solution.numbers[field.name].shape):
            if at < 0 or index[at] == receiver:
                place = "".join(f"[{i}]" for i in index)
                yield explainer.step(f"{name}.{field.name}{place}")


def _step(explainer: Explainer, step: Step) -> dict[str, Any]:
    kept = ("quantity", "label", "kind", "rule", "formula", "terms", "zero_terms", "given")
    line = python_line(step, explainer.value, explainer.sheet.head_dim)
    document = step.document()
    return {key: document[key] for key in kept} | {"value": _value(step.value), "python": line}


def _edit_cases(count: int, rng: random.Random) -> Iterator[dict[str, Any]]:
    for _ in range(count):
        (name,) = rng.choices(list(_SHARES), list(_SHARES.values()))
        yield _edit_case(worksheet(name), rng)


def _edit_case(sheet: Worksheet, rng: random.Random) -> dict[str, Any]:
    chosen = rng.sample(_places(sheet.document), rng.randint(1, 3))
    edits = {place: _number_text(rng, place) for place in chosen}
    options = _options(sheet, rng)
    sequence = rng.choice(sheet.sequence_names)
    solution = changed_sheet(sheet.edit(edits), options).solve(sequence, exact=True)
    receiver = rng.randrange(len(solution.tokens))
    tables = _tables(solution)
    axes = {field.name: field.axes for field in fields_of(solution.sheet)}
    axes["weighted_values"] = "HTSv"
    rows = {
        field: table.take(receiver, axes[field].index("T")) if "T" in axes[field] else table
        for field, table in tables.items()
    }
    return {
        "worksheet": sheet.name,
        "sequence": sequence,
        "edits": edits,
        "options": options,
        "receiver": receiver,
        "row": _fields(rows),
        "sums": {field: weighted_sum(table) for field, table in tables.items()},
        "marks": {field: mark(table) for field, table in tables.items()},
    }


def changed_sheet(sheet: Worksheet, options: Mapping[str, Any]) -> Worksheet:
    """Apply the page's options: heads off first, then zero queries, one wide head, the mask."""
    for head in options.get("headsOff", ()):
        sheet = without_head(sheet, head)
    if options.get("zeroQuery"):
        sheet = zero_query(sheet)
    if options.get("wide"):
        sheet = one_wide_head(sheet)
    return sheet.edit({"is_causal": options["causal"]}) if "causal" in options else sheet


def weighted_sum(table: npt.NDArray[Any]) -> float:
    """All finite numbers of a table in one, each with its own weight, so that none can change."""
    values = [float_of(number) for number in table.ravel()]
    finite = [(i, value) for i, value in enumerate(values) if np.isfinite(value)]
    return sum((i * 37 % 101 + 1) / 101 * value for i, value in finite)


def mark(table: npt.NDArray[Any]) -> int:
    """CRC-32 of the exact texts of a table; a number that is not exact counts as ~."""
    texts = (_exact(number) or "~" for number in table.ravel())
    return zlib.crc32("|".join(texts).encode())


def _places(document: dict[str, Any]) -> list[str]:
    tops = ("heads", "W_O", "b_O", "token_embedding", "position_embedding", "prediction")
    found = [place for top in tops if top in document for place in _below(document[top], top)]
    for name, sequence in document["sequences"].items():
        found += _below(sequence.get("X", []), f"sequences.{name}.X")
    return [*found, "scale"]


def _below(value: Any, place: str) -> list[str]:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        pairs = [(f"{place}.{key}", entry) for key, entry in value.items() if key != "label"]
    elif isinstance(value, list):
        pairs = [(f"{place}[{i}]", entry) for i, entry in enumerate(value)]
    else:
        return [place]
    return [found for inner, entry in pairs for found in _below(entry, inner)]


def _number_text(rng: random.Random, place: str) -> str:
    n, m = rng.randint(2, 12), rng.randint(2, 12)
    size = rng.choice(
        (
            *(str(rng.randint(0, 4)), f"{rng.randint(0, 39) / 10}", f"{rng.randint(1, 999) / 100}"),
            *(f"{n}/{m}", f"ln({n})", f"ln({n}/{m})", f"sqrt({n})", f"{n}*sqrt({m})/{n + 1}"),
            *(
                f"{n % 3 + 1}*ln({m})",
                f"1/{n} + sqrt({m})",
                f"ln({n})*sqrt(2)",
                f"{n}e-1",
                f"{m}e-3",
            ),
        )
    )
    if place == "scale":
        return f"1/{n}" if size.startswith(("0", "ln")) else size
    is_sum = " " in size
    return (
        f"-({size})"
        if rng.random() < 0.4 and is_sum
        else f"-{size}"
        if rng.random() < 0.4
        else size
    )


def _options(sheet: Worksheet, rng: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if rng.random() < 0.3:
        options["causal"] = rng.random() < 0.3
    if rng.random() < 0.25:
        count = rng.randint(1, sheet.num_heads)
        options["headsOff"] = sorted(rng.sample(range(sheet.num_heads), count))
    options |= {name: True for name in ("wide", "zeroQuery") if rng.random() < 0.15}
    return options
