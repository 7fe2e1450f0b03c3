"""Plans by name or path: the built-in ones are TOML files beside this one."""

from importlib.resources import files
from pathlib import Path

from manyheads.core.errors import PlanError
from manyheads.study.plan import Plan
from manyheads.study.plan_text import plan_from_text

MAX_BYTES = 1_000_000
_ENDING = ".toml"


def plan_names() -> tuple[str, ...]:
    """Names of the built-in plans, in alphabetical order."""
    folder = files("manyheads.study") / "plans"
    names = (entry.name for entry in folder.iterdir())
    return tuple(sorted(name.removesuffix(_ENDING) for name in names if name.endswith(_ENDING)))


def plan(name_or_path: str | Path) -> Plan:
    """Read a plan.

    Args:
        name_or_path: a built-in name (see `plan_names`), or the path of a TOML file.

    Raises:
        PlanError: no such plan, or one that breaks the form; the message names the file and key.
    """
    text = str(name_or_path)
    if text in plan_names():
        return plan_from_text((files("manyheads.study") / "plans" / f"{text}{_ENDING}").read_text())
    path = Path(name_or_path)
    if not text.endswith(_ENDING) and not path.is_file():
        known = ", ".join(plan_names())
        raise PlanError(
            f"plan ({text}) is not known: use one of {known}, or a path of a .toml file"
        )
    content = _read(path)
    try:
        return plan_from_text(content)
    except PlanError as error:
        raise PlanError(f"file ({path}): {error}") from error


def _read(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise PlanError(f"file ({path}) cannot be opened ({reason}): check its name") from error
    if len(data) > MAX_BYTES:
        raise PlanError(f"file ({path}) is larger than {MAX_BYTES:,} bytes: this is no plan")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PlanError(f"file ({path}) is not UTF-8: save it as UTF-8") from error
