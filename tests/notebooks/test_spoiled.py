"""A mistake in a notebook's sum is found by the notebook itself."""

from pathlib import Path

import pytest

from manyheads.learn.notebooks import notebook_from_source, notebook_sources

pytest.importorskip("nbclient", reason="nbclient is missing: install the notebooks extra")

from nbclient.exceptions import CellExecutionError

from tests.notebooks.kernels import execute, own_kernel

SPOILED = (
    ("02-measured-study", "attention = 4 * D * D ", "attention = 3 * D * D "),  # W_O forgotten
    (
        "02-measured-study",
        "kept = contributions.sum(dim=0) -",
        "kept = contributions.mean(dim=0) -",
    ),
    ("02-measured-study", "values.std(ddof=1), stored", "values.std(ddof=0), stored"),
    ("02-measured-study", "stats.ttest_rel(one, other)", "stats.ttest_ind(one, other)"),
    ("04-full-blocks", "torch.sqrt(variance + norm.eps)", "(variance + norm.eps)"),
    ("04-full-blocks", "with_cache(pieces)\n", "with_cache(list(pieces)[::-1])\n"),
    ("04-full-blocks", '"scores": L * H * new * seen * d', '"scores": L * H * new * new * d'),
    ("04-full-blocks", "2 * L * G * length", "2 * L * H * length"),
    (
        "06-image-patches",
        "    return cut.transpose(2, 3).reshape(N, count",
        "    return cut.reshape(N, count",
    ),
    ("06-image-patches", "[torch.zeros(1, 1, 4), embedding(large)]", "[embedding(large)]"),
    ("07-heads-of-a-model", "weights.mean(dim=0).flip(-1)", "weights.mean(dim=0)"),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "right", "wrong"), SPOILED, ids=[f"{name[:2]} {wrong}" for name, _, wrong in SPOILED]
)
def test_a_spoiled_notebook_stops(
    name: str, right: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_kernel(tmp_path / "jupyter", monkeypatch)
    text = next(path for path in notebook_sources() if path.stem == name).read_text("utf-8")
    assert text.count(right) >= 1, "the place to spoil has changed"
    path = tmp_path / "spoiled.py"
    path.write_text(text.replace(right, wrong), encoding="utf-8")
    with pytest.raises(CellExecutionError, match="AssertionError"):
        execute(notebook_from_source(path), tmp_path)
