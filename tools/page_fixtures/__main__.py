"""Write every fixture of the page's tests, in one process."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tools.page.files import write_json
from tools.page_fixtures import learn, worksheets

FIXTURES: Mapping[str, Callable[[], dict[str, Any]]] = {
    "fixture.json": worksheets.fixture,
    "learn.json": learn.fixture,
}


def main(arguments: list[str] | None = None) -> None:
    """Write into the folder named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.page_fixtures", description=__doc__)
    parser.add_argument("out", metavar="OUT", type=Path, help="folder of the JSON documents")
    out = parser.parse_args(arguments).out
    for name, make in FIXTURES.items():
        write_json(make(), out / name)


if __name__ == "__main__":
    main()
