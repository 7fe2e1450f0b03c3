"""The prompts of the models view are quoted as they say, and from where they say."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from manyheads.data.windows import normalised, split_of_normalised
from manyheads.web.models import SHIPPED

ROOT = Path(__file__).resolve().parents[2]
FIXED = json.loads((ROOT / "web/src/models/presets.json").read_text(encoding="utf-8"))
SPLITS = {"training": "train", "held-out": "test"}


def presets(kind: str) -> list[dict[str, Any]]:
    """The prompts of one kind."""
    return [preset for preset in FIXED["presets"] if preset["kind"] == kind]


@pytest.fixture(scope="module")
def stories(shared: Path) -> list[str]:
    """The stories of the sample, a line each."""
    lines = (shared / "data/tinystories-sample.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"].strip() for line in lines]


@pytest.mark.parametrize("kind", SPLITS)
def test_quotations_are_the_beginnings_of_the_first_two_stories(
    kind: str, stories: list[str]
) -> None:
    splits = [split_of_normalised(normalised(text)) for text in stories]
    of_split = [n for n, split in enumerate(splits, 1) if split == SPLITS[kind]]
    assert [preset["line"] for preset in presets(kind)] == of_split[:2]
    for preset in presets(kind):
        words = stories[preset["line"] - 1].split()
        assert preset["text"] == " ".join(words[: FIXED["words"]])
        assert preset["goesOn"] == words[FIXED["words"]]
        assert preset["story"] == stories[preset["line"] - 1]


def test_no_quotation_is_longer_than_25_words() -> None:
    assert FIXED["words"] + 1 <= 25


def test_sentences_from_outside_are_in_no_story(stories: list[str]) -> None:
    outside = presets("outside")
    assert len(outside) == 3
    for preset in outside:
        assert (preset["line"], preset["goesOn"], preset["story"]) == (None, None, None)
        assert not any(preset["text"].lower() in text.lower() for text in stories)


def test_the_sample_is_the_data_of_the_shipped_models(stories: list[str]) -> None:
    distinct = list(dict.fromkeys(stories))
    assert hashlib.sha256("\x1e".join(distinct).encode()).hexdigest() == FIXED["data_sha256"]
    index = SHIPPED / "models.json"
    if not index.is_file():
        pytest.skip("no model comes with this checkout: ship those of a study")
    assert json.loads(index.read_text())["study"]["data_sha256"] == FIXED["data_sha256"]
