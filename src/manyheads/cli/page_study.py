"""`python -m manyheads.cli.page_study OUT.json`: write the shipped studies for the page."""

import sys
from pathlib import Path

import click

from manyheads.core.errors import ManyHeadsError


@click.command()
@click.argument("out", metavar="OUT.json", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--studies",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder with a folder a study; the package's own unless given.",
)
def page_study(out: Path, studies: Path | None) -> None:
    r"""Write what the page shows of the shipped studies, and what their numbers do not show.

    \b
    Example:
      python -m manyheads.cli.page_study web/src/generated/study.json
    """
    from manyheads.report.cautions import cautions, recipe_notice
    from manyheads.report.reading import read_study
    from manyheads.web.study import shipped_studies, study_part, write_study_data

    found = [read_study(folder) for folder in shipped_studies(studies)]
    parts = []
    for results in found:
        limits = [text for text in (recipe_notice(results), *cautions(results)) if text]
        parts.append(study_part(results.document, limits))
    write_study_data(out, parts)


if __name__ == "__main__":
    try:
        page_study.main(standalone_mode=False)
    except (ManyHeadsError, click.ClickException) as error:
        said = error.format_message() if isinstance(error, click.ClickException) else str(error)
        click.echo(f"manyheads: {' '.join(said.split())}", err=True)
        sys.exit(2)
