"""The model card says what the list of models says."""

import json
from pathlib import Path

import pytest

from manyheads.checkpoints.shipping import card_from_index


def test_card_is_made_of_the_numbers_in_the_list(shipped_folder: Path) -> None:
    index = json.loads((shipped_folder / "models.json").read_text())
    card = (shipped_folder / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert card == card_from_index(index)
    for name, entry in index["models"].items():
        row = next(line for line in card.splitlines() if line.startswith(f"| {name} |"))
        assert f"{entry['parameters']:,}" in row
        assert f"{entry['test_loss']:.4f}" in row
        gap = entry["validation_loss_float16"] - entry["validation_loss"]
        assert f"{gap:+.1e}" in row
        assert entry["sha256"] in card
    assert index["tokenizer"]["sha256"] in card
    assert f"{100 * index['study']['data']['unknown_rates']['test']:.2f} %" in card


@pytest.mark.parametrize("part", ["Intended use", "Figures", "Data", "Training", "Files", "Limits"])
def test_card_has_every_part_once(part: str, shipped_folder: Path) -> None:
    card = (shipped_folder / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert card.count(f"\n## {part}\n") == 1


def test_card_names_the_licence_of_the_data_that_was_used(shipped_folder: Path) -> None:
    index = json.loads((shipped_folder / "models.json").read_text())
    assert "CDLA-Sharing-1.0" in card_from_index(index)
    index["study"]["data"]["kind"] = "stories"
    card = card_from_index(index)
    assert "CDLA" not in card
    assert "own grammar" in card
