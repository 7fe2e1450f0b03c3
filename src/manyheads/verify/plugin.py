"""A pytest plugin: attention under test without a line of test code.

`pytest --manyheads FILE.py:NAME` adds one test for each subject to what pytest collects. A run that
does not ask for it loads neither torch nor any check.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from manyheads.core.errors import ManyHeadsError, SubjectError
from manyheads.verify.subject import Subject

if TYPE_CHECKING:
    from manyheads.verify.report import VerifyReport


class NotSoundError(Exception):
    """A subject that is not sound.

    Args:
        report: the report; it is the text of this error.
    """

    def __init__(self, report: "VerifyReport") -> None:
        super().__init__(str(report))
        self.report = report


@dataclass(frozen=True, kw_only=True)
class Crash:
    """What pytest's summary and result files say of a failure."""

    path: str
    """The file."""
    lineno: int
    """The line, counted from 1."""
    message: str
    """What is wrong, in a few words."""


class Failure:
    """The report instead of a traceback, as pytest shows failures.

    Args:
        report: the report of a subject that is not sound.
        path: the place of the test, for a fault without a line.
    """

    def __init__(self, report: "VerifyReport", path: Path) -> None:
        from manyheads.verify.place import shown_path
        from manyheads.verify.report_words import first_fault

        place = report.place
        self.report = report
        self.reprcrash = Crash(
            path=shown_path(str(path) if place is None or not place.file else place.file),
            lineno=1 if place is None or not place.line else place.line,
            message=f"{report.verdict}: {first_fault(report)}",
        )

    def __str__(self) -> str:
        return str(self.report)

    def toterminal(self, terminal: Any) -> None:  # noqa: ANN401 - pytest's own
        """Write the report, then the place where it goes wrong, as after a traceback."""
        terminal.line(str(self.report))
        if self.report.place is not None:
            crash = self.reprcrash
            terminal.line("")
            terminal.write(crash.path, bold=True, red=True)
            terminal.line(f":{crash.lineno}: {crash.message}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; each of the first three adds subjects."""
    group = parser.getgroup("manyheads", "check attention modules (runs their code)")
    add = group.addoption
    add(
        "--manyheads", action="append", metavar="FILE.py:NAME", help="check this module or function"
    )
    add(
        "--manyheads-subject",
        action="append",
        metavar="FILE",
        help="check the subject of this JSON file",
    )
    add(
        "--manyheads-subjects",
        action="append",
        metavar="FILE",
        help="check all subjects of this JSON file",
    )
    add("--manyheads-embed-dim", type=int, metavar="N", help="embed_dim of --manyheads")
    add("--manyheads-num-heads", type=int, metavar="N", help="num_heads of --manyheads")
    add(
        "--manyheads-time-limit",
        type=float,
        default=60.0,
        metavar="S",
        help="time limit for each subject, in seconds (default 60)",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Put a test for each subject before all others."""
    names = ("manyheads", "manyheads_subject", "manyheads_subjects")
    if any(config.getoption(name) for name in names):
        added = _subject_items(session, config)
        report = pytest.CollectReport("manyheads", "passed", None, [*added])
        session.ihook.pytest_collectreport(report=report)  # so that they are counted
        items[:0] = added


def _subject_items(session: pytest.Session, config: pytest.Config) -> list[pytest.Item]:
    try:
        subjects = _subjects(config)
    except ManyHeadsError as error:
        raise pytest.UsageError(str(error)) from error
    found: list[pytest.Item] = []
    for index, subject in enumerate(subjects):
        name = _name(subject, index)
        node_id = f"manyheads::{name}"
        item = SubjectItem.from_parent(session, name=name, nodeid=node_id, subject=subject)
        found.append(item)
    return found


def _subjects(config: pytest.Config) -> list[Subject | SubjectError]:
    from manyheads.verify.subject_files import read_manifest, read_subject, subject_from_declared

    folder = config.invocation_params.dir
    declared = {
        name: config.getoption(f"manyheads_{name}")
        for name in ("embed_dim", "num_heads")
        if config.getoption(f"manyheads_{name}") is not None
    }
    targets = config.getoption("manyheads") or []
    found: list[Subject | SubjectError] = [
        subject_from_declared(target, declared, folder=folder) for target in targets
    ]
    found += [read_subject(folder / path) for path in config.getoption("manyheads_subject") or []]
    for path in config.getoption("manyheads_subjects") or []:
        found += read_manifest(folder / path)
    return found


def _name(subject: Any, index: int) -> str:  # noqa: ANN401 - a subject or an error
    name = getattr(subject, "id", None) or getattr(subject, "target", f"subject {index + 1}")
    return str(name).encode("unicode_escape").decode("ascii")


class SubjectItem(pytest.Item):
    """The test of one subject, in a process of its own."""

    def __init__(self, *, subject: Subject | SubjectError, **rest: Any) -> None:  # noqa: ANN401
        super().__init__(**rest)
        self.subject = subject

    def runtest(self) -> None:
        """Check it.

        Raises:
            NotSoundError: it is not sound.
        """
        from manyheads.verify.isolation import Limits, verify_subjects

        limits = Limits(seconds=self.config.getoption("manyheads_time_limit"))
        report = verify_subjects([self.subject], limits=limits)[0]
        if not report.is_sound:
            raise NotSoundError(report)

    def repr_failure(
        self,
        excinfo: pytest.ExceptionInfo[BaseException],
        style: Any = None,  # noqa: ANN401 - pytest's own
    ) -> Any:  # noqa: ANN401 - pytest's own
        """The report instead of a traceback."""
        if isinstance(excinfo.value, NotSoundError):
            return Failure(excinfo.value.report, self.path)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Its place in lists of tests."""
        return self.path, None, f"manyheads: {self.name}"
