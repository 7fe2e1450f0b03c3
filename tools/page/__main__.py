"""Write everything that Python computes for the page, in one process."""

import argparse
import shutil
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from manyheads.core.errors import ManyHeadsError
from tools.page.exercises import exercise_index, write_exercise_scripts
from tools.page.files import write_json
from tools.page.learn import learn_data
from tools.page.models import ONNX_FOLDER, page_index, write_onnx_files
from tools.page.notebooks import notebook_files
from tools.page.paper import write_papers
from tools.page.study import study_data
from tools.page.worksheets import worksheets_data

DATA: Mapping[str, Callable[[], dict[str, Any]]] = {
    "worksheets.json": worksheets_data,
    "study.json": study_data,
    "learn.json": learn_data,
    "exercises.json": exercise_index,
}
"""Each document of the page that needs no further file."""


def main(arguments: list[str] | None = None) -> int:
    """Write into the folder named on the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.page", description=__doc__)
    parser.add_argument("out", metavar="OUT", type=Path, help="folder of the JSON documents")
    parser.add_argument(
        "--runtime", metavar="DIR", type=Path, help="folder of the onnxruntime-web package"
    )
    given = parser.parse_args(arguments)
    try:
        write_all(given.out, given.runtime)
    except (ManyHeadsError, OSError) as error:
        sys.stderr.write(f"Error: {error}\n")
        return 2
    return 0


def write_all(out: Path, runtime: Path | None) -> None:
    """Write every document into `out`, and the files that the page loads into `out`/files.

    Args:
        out: the folder; earlier documents are replaced.
        runtime: the folder of the onnxruntime-web package; None, or a Python without the package
            onnx, leaves ONNX Runtime out.
    """
    for name, make in DATA.items():
        write_json(make(), out / name)
    files, onnx = out / "files", None
    write_exercise_scripts(files)
    shutil.rmtree(files / ONNX_FOLDER, ignore_errors=True)
    if runtime and find_spec("onnx"):
        onnx = write_onnx_files(files, runtime)
    write_json(page_index(onnx=onnx), out / "models.json")
    write_json(write_papers(files), out / "paper.json")
    write_json(notebook_files(files), out / "notebooks.json")


if __name__ == "__main__":
    sys.exit(main())
