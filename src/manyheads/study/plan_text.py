"""Plans read from TOML text, with every key checked; writing them is for `plan_toml`."""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

from manyheads.core.errors import PlanError
from manyheads.study.plan import Plan
from manyheads.study.plan_parts import (
    Comparison,
    DataPlan,
    ModelPlan,
    Protocol,
    TokenizerPlan,
)

_LARGEST = 2**53  # more digits than any count here needs, and every language can hold them
_MAX_SHOWN = 60

Part = TypeVar("Part", DataPlan, TokenizerPlan, Protocol, ModelPlan, Comparison)


def plan_from_text(text: str) -> Plan:
    """Read a plan.

    Raises:
        PlanError: no TOML, a key that no plan has, one that is missing, or a value out of range.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"plan is no TOML ({error}): mend it there") from error
    except ValueError as error:  # a number of thousands of digits
        raise PlanError(f"plan is no TOML ({error}): shorten that number") from error
    except RecursionError as error:
        raise PlanError("plan is nested too deeply: use the form in docs/studies.md") from error
    _check_keys(document, fields(Plan), "")
    return Plan(
        name=_typed(document["name"], str, "name"),
        description=_typed(document["description"], str, "description"),
        data=_part(DataPlan, document["data"], "data"),
        tokenizer=_part(TokenizerPlan, document["tokenizer"], "tokenizer"),
        protocol=_part(Protocol, document["protocol"], "protocol"),
        models=tuple(_parts(ModelPlan, document["models"], "models")),
        seeds=_typed(document["seeds"], tuple[int, ...], "seeds"),
        comparisons=tuple(_parts(Comparison, document.get("comparisons", []), "comparisons")),
    )


def _check_keys(table: Mapping[str, Any], known: tuple[Field[Any], ...], where: str) -> None:
    names = [field.name for field in known]
    for key in table:
        if key not in names:
            raise PlanError(f"{where}{key} is no key of a plan: use one of {', '.join(names)}")
    for field in known:
        if field.default is MISSING and field.name not in table:
            raise PlanError(f"{where}{field.name} is missing: add it")


def _parts(kind: type[Part], tables: object, where: str) -> list[Part]:
    if not isinstance(tables, list):
        raise PlanError(f"{where} must be a list of tables: write [[{where}]] above each")
    return [_part(kind, table, f"{where}[{index}]") for index, table in enumerate(tables)]


def _part(kind: type[Part], table: object, where: str) -> Part:
    if not isinstance(table, dict):
        raise PlanError(f"{where} must be a table: write [{where}] above it")
    _check_keys(table, fields(kind), f"{where}.")
    types = {field.name: field.type for field in fields(kind)}
    values = {key: _typed(value, types[key], f"{where}.{key}") for key, value in table.items()}
    try:
        return kind(**values)
    except PlanError as error:
        raise PlanError(f"{where}: {error}") from error


def _typed(value: Any, wanted: Any, where: str) -> Any:  # noqa: ANN401 - by the field's type
    if wanted in (tuple[int, ...], tuple[float, ...]):
        inner = int if wanted == tuple[int, ...] else float
        if not isinstance(value, list):
            raise PlanError(f"{where} ({value!r}) must be a list: write [...]")
        return tuple(_typed(entry, inner, f"{where}[{i}]") for i, entry in enumerate(value))
    if wanted in (str, str | None):
        is_right, what = isinstance(value, str), "a text"
    elif wanted in (int, int | None):
        is_right = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST
        what = f"a whole number of at most {_LARGEST}"
    else:
        return _real(value, where)
    return value if is_right else _wrong(value, where, what)


def _real(value: object, where: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            pass
    return float(_wrong(value, where, "a number"))


def _wrong(value: object, where: str, what: str) -> Any:  # noqa: ANN401 - never returns
    shown = repr(value)
    shown = shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}..."
    raise PlanError(f"{where} ({shown}) must be {what}: write one")
