"""`manyheads lab`: the executable lab."""

from pathlib import Path

import click

from manyheads.cli.types import INTEGER, FilePath


@click.command()
@click.option(
    "--part", "parts", type=INTEGER, multiple=True, metavar="1..5", help="Run this part only."
)
@click.option(
    "--try",
    "tries",
    multiple=True,
    metavar="NAME",
    help="Run the experiment that a part's prediction names: zero-query, ablate-head-1, "
    "change-first-input, swap-heads or heads-4.",
)
@click.option(
    "--predict", is_flag=True, help="Ask for your prediction before each experiment, and keep it."
)
@click.option(
    "--data",
    type=FilePath(),
    metavar="DIR",
    help="With --predict: keep predictions there; your user data folder unless given.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def lab(
    parts: tuple[int, ...], tries: tuple[str, ...], predict: bool, data: Path | None, as_json: bool
) -> None:
    """Work through multi-head attention in five parts; every printed number is asserted.

    Example: manyheads lab --part 1
    """
    if data is not None and not predict:
        raise click.UsageError("--data goes with --predict: nothing else is kept")
    if predict:
        from manyheads.cli.lab_predict import predict_lab

        has_passed = predict_lab(parts, tries, data, as_json)
    else:
        from manyheads.learn.lab import run_lab

        report = run_lab(parts=parts or None, tries=tries)
        click.echo(report.to_json() if as_json else str(report))
        has_passed = report.passed
    if not as_json and has_passed is not None:
        click.echo("\nCHECK PASSED" if has_passed else "\nCHECK FAILED")
    if has_passed is False:
        raise click.exceptions.Exit(1)
