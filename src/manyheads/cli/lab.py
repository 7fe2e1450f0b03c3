"""`manyheads lab`: the lab, with or without predictions."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from manyheads.cli.asking import Asker, EndOfAnswers
from manyheads.cli.learn_options import DATA
from manyheads.cli.types import INTEGER

if TYPE_CHECKING:
    from manyheads.learn.lab.record import Record
    from manyheads.learn.predictions import Prediction


@click.command()
@click.option(
    "--part",
    "parts",
    type=INTEGER,
    multiple=True,
    metavar="1..5",
    help="Part to run; repeat for more (default: all parts).",
)
@click.option(
    "--try",
    "tries",
    multiple=True,
    metavar="NAME",
    help="Experiment to run: zero-query, ablate-head-1, swap-heads, heads-4 or change-first-input.",
)
@click.option(
    "--predict", is_flag=True, help="Ask for your prediction before each experiment, and save it."
)
@DATA
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def lab(
    parts: tuple[int, ...], tries: tuple[str, ...], predict: bool, data: Path | None, as_json: bool
) -> None:
    """Work through multi-head attention in five parts, and check every printed number.

    Example: manyheads lab --part 1
    """
    if data is not None and not predict:
        raise click.UsageError("--data needs --predict: the lab saves nothing else")
    if predict:
        has_passed = _predict_lab(parts, tries, data, as_json)
    else:
        from manyheads.learn.lab import run_lab

        report = run_lab(parts=parts or None, tries=tries)
        click.echo(report.to_json() if as_json else str(report))
        has_passed = report.passed
    if not as_json and has_passed is not None:
        click.echo("\nCHECK PASSED" if has_passed else "\nCHECK FAILED")
    if has_passed is False:
        raise click.exceptions.Exit(1)


class _Run:
    """The parts, experiments and predictions so far."""

    def __init__(self, asker: Asker, folder: Path) -> None:
        self.asker, self.folder = asker, folder
        self.parts: list[Record] = []
        self.tries: list[Record] = []
        self.predictions: list[Prediction] = []

    def show_part(self, number: int) -> None:
        """Run a part and print it."""
        from manyheads.learn.lab import run_lab

        report = run_lab(parts=(number,))
        self.parts += report.parts
        if not self.asker.is_json:
            click.echo(str(report))

    def predict(self, number: int) -> None:
        """Ask for a prediction, run the experiment, and ask whether it was right."""
        from manyheads.learn.attempts import checked_text
        from manyheads.learn.lab import run_lab
        from manyheads.learn.lab.plan import PARTS
        from manyheads.learn.predictions import Prediction, keep_prediction

        part = PARTS[number - 1]
        self.asker.say()
        self.asker.say(f"Predict first ({part.try_name}): {part.prediction}")
        text = self.asker.ask("Your prediction, or an empty line for none ", checked_text)
        report = run_lab(parts=(), tries=(part.try_name,))
        self.tries += report.tries
        if not self.asker.is_json:
            click.echo(f"\n{report}\n")
        if text is None:
            return
        right: bool | None = None
        try:
            right = self.asker.yes("Was your prediction right?")
        finally:
            made = Prediction(
                where=f"lab:part-{number}",
                try_name=part.try_name,
                prediction=text,
                outcome=_outcome(report.tries[0]),
                right=right,
            )
            keep_prediction(self.folder, made)
            self.predictions.append(made)


def _predict_lab(
    parts: tuple[int, ...], tries: tuple[str, ...], data: Path | None, as_json: bool
) -> bool | None:
    """Run parts and experiments, each experiment after a prediction.

    Args:
        parts: numbers from 1; each part is followed by its experiment if `tries` is empty.
        tries: names of experiments.
        data: folder of the learner's files.
        as_json: whether to print one JSON document.

    Returns:
        Whether every assertion held; None if nothing ran.

    Raises:
        LabError: a part or experiment does not exist.
        LearnError: the log is damaged or cannot be written.
    """
    from manyheads.learn.attempts import check_file
    from manyheads.learn.lab import LabReport
    from manyheads.learn.lab.plan import NUMBERS, TRY_NAMES, check_names
    from manyheads.learn.own_files import data_folder
    from manyheads.learn.predictions import FILE

    numbers = parts or (() if tries else NUMBERS)
    check_names(numbers, tries)
    folder = data_folder(data)
    check_file(folder, FILE)
    run = _Run(Asker(as_json=as_json), folder)
    try:
        for number in numbers:
            run.show_part(number)
            if not tries:
                run.predict(number)
        for name in tries:
            run.predict(TRY_NAMES.index(name) + 1)
    except EndOfAnswers:
        run.asker.say("Standard input ended, so the lab stops here.")
    report = LabReport(parts=tuple(run.parts), tries=tuple(run.tries))
    if as_json:
        click.echo(json.dumps(_document(report, run, folder / FILE), allow_nan=False))
    elif run.predictions:
        run.asker.say()
        run.asker.say_kept(folder / FILE)
    return report.passed if (run.parts or run.tries) else None


def _document(report: Any, run: _Run, where: Path) -> dict[str, Any]:  # noqa: ANN401 - a LabReport
    document: dict[str, Any] = json.loads(report.to_json())
    kept = [made.to_json() for made in run.predictions]
    return document | {"predictions": kept, "file": str(where)}


def _outcome(record: "Record") -> str:
    """The tables of the experiment as one line of text."""
    from manyheads.learn.lab.record import Measured

    tables = [block for block in record.blocks if isinstance(block, Measured)]
    rows = [
        "; ".join(f"{item.label} {', '.join(item.texts)}" for item in table.items)
        for table in tables
    ]
    captions = [table.caption for table in tables]
    return ". ".join(f"{caption}: {row}" for caption, row in zip(captions, rows, strict=True))
