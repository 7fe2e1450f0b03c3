"""Small studies and shipped folders, made once."""

import shutil
from pathlib import Path

import pytest

from manyheads.checkpoints.shipping import ship
from manyheads.data.windows import Corpus
from tests.checkpoints.small_study import SEED, small_batches, small_corpus, write_study


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    return small_corpus()


@pytest.fixture(scope="session")
def finished_study(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study's folder; to be read only."""
    folder = tmp_path_factory.mktemp("study")
    write_study(folder, corpus)
    return folder


@pytest.fixture(scope="session")
def shipped_folder(
    finished_study: Path, corpus: Corpus, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder of shipped models; to be read only."""
    folder = tmp_path_factory.mktemp("shipped")
    ship(finished_study, folder, seed=SEED, batches=small_batches(corpus))
    return folder


@pytest.fixture
def study(finished_study: Path, tmp_path: Path) -> Path:
    """A copy of a study's folder, to be spoiled."""
    return Path(shutil.copytree(finished_study, tmp_path / "study"))


@pytest.fixture
def folder(shipped_folder: Path, tmp_path: Path) -> Path:
    """A copy of a folder of shipped models, to be spoiled."""
    return Path(shutil.copytree(shipped_folder, tmp_path / "shipped"))
