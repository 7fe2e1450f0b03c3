"""Set-up for all tests: annotations are checked, chance is fixed, and outside places are found."""

import atexit
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

# Small tensors gain nothing from threads of torch, which wait for each other on a busy machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# What a learner has answered is the user's own: tests, and the commands they run, write elsewhere.
os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp(prefix="manyheads-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_DATA_HOME"], ignore_errors=True)

# A shell starts background jobs with Ctrl-C ignored; processes that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Before the package is first imported: its annotated functions and dataclasses are then checked.
install_import_hook("manyheads", "beartype.beartype")

ROOT = Path(__file__).resolve().parent.parent
BROWSERS = (
    "chromium-headless-shell",  # loads a page in half the time
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
)

settings.register_profile("manyheads", derandomize=True, deadline=None, database=None)
settings.load_profile("manyheads")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked gpu where torch sees no CUDA device."""
    gpu_items = [item for item in items if item.get_closest_marker("gpu")]
    if not gpu_items:
        return
    import torch

    if not torch.cuda.is_available():
        reason = "torch sees no CUDA device: run on a machine that has one"
        for item in gpu_items:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of published worksheets and subjects: $MANYHEADS_SHARED, or ../shared."""
    given = os.environ.get("MANYHEADS_SHARED")
    folder = Path(given) if given else ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"no folder {folder}: set MANYHEADS_SHARED to the folder of shared inputs")
    return folder


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser that page tests drive; under CI its absence is a failure, elsewhere a skip."""
    names = (os.environ.get("MANYHEADS_CHROMIUM", ""), *BROWSERS)
    found = next(filter(None, (shutil.which(name) for name in names if name)), None)
    if found is None:
        reason = "no Chromium found: run scripts/chromium, or set MANYHEADS_CHROMIUM"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="session")
def static_page() -> Path:
    """The built page's folder; under CI its absence is a failure, elsewhere a skip."""
    folder = ROOT / "src" / "manyheads" / "web" / "static"
    if not (folder / "index.html").is_file():
        reason = f"the page is not built in {folder}: run `make page`"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return folder
