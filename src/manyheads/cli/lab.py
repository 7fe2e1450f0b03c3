"""`manyheads lab`: the executable lab."""

import click


@click.command()
@click.option(
    "--part", "parts", type=int, multiple=True, metavar="1..5", help="Run this part only."
)
@click.option(
    "--try",
    "tries",
    multiple=True,
    metavar="NAME",
    help="Run the experiment that a part's prediction names: zero-query, ablate-head-1, "
    "change-first-input, swap-heads or heads-4.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def lab(parts: tuple[int, ...], tries: tuple[str, ...], as_json: bool) -> None:
    """Work through multi-head attention in five parts; every printed number is asserted.

    Example: manyheads lab --part 1
    """
    from manyheads.learn.lab import run_lab

    report = run_lab(parts=parts or None, tries=tries)
    click.echo(report.to_json() if as_json else str(report))
    if not as_json:
        click.echo("\nCHECK PASSED" if report.passed else "\nCHECK FAILED")
    if not report.passed:
        raise click.exceptions.Exit(1)
