"""The catalogue holds every published id, each with its remedy, and each can be reached."""

import ast

import pytest

from manyheads.core.errors import ConfigError
from manyheads.faults import FAULT_KINDS, fault_kind
from tests.faults.test_variants import READINGS
from tests.house.sources import PACKAGE

PUBLISHED = [
    "attends-over-heads",
    "batch-first-confusion",
    "bias-dropped",
    "blockwise-softmax",
    "cache-entry-missing",
    "cache-position",
    "causal-alignment",
    "causal-hint-ignored",
    "causal-off-by-one",
    "cross-source",
    "dropout-before-softmax",
    "dropout-in-eval",
    "dropout-not-rescaled",
    "dropout-renormalised",
    "dropout-wrong-tensor",
    "dtype-mismatch",
    "folded-axes-misread",
    "fully-masked-row",
    "gradient-cut",
    "grouped-order",
    "half-overflow",
    "head-order",
    "head-order-at-concat",
    "heads-averaged",
    "heads-read-input-slices",
    "heads-share-parameters",
    "input-mutated",
    "key-value-swapped",
    "linear-bias-slopes",
    "low-precision",
    "mask-additive-confusion",
    "mask-after-softmax",
    "mask-axis",
    "mask-head-order",
    "mask-ignored",
    "mask-lost-on-path",
    "mask-multiplied",
    "mask-mutated",
    "mask-polarity",
    "mask-value",
    "mask-value-in-half",
    "merge-by-view",
    "output-projection-missing",
    "packed-layout",
    "returned-weights",
    "rotary-applied-twice",
    "rotary-axis",
    "rotary-keys-missing",
    "rotary-not-a-rotation",
    "rotary-offset",
    "rotary-pairing",
    "scale",
    "scale-option-ignored",
    "shape-at-size-one",
    "softmax-axis",
    "split-by-view",
    "state-mutated",
    "strides-ignored",
    "unpack-order",
    "unregistered-parameters",
    "value-projection-unused",
    "view-on-both-sides",
    "view-used-as-transpose",
    "weight-transposed",
    "wrong-tensor",
]


def named_in_source(*folders: str) -> set[str]:
    """Catalogue ids that stand in the code of these files."""
    found: set[str] = set()
    for folder in folders:
        for path in sorted((PACKAGE / folder).glob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
            found |= {text for text in texts if isinstance(text, str) and text in FAULT_KINDS}
    return found


def test_catalogue_holds_every_published_id_and_no_other() -> None:
    assert sorted(FAULT_KINDS) == sorted(PUBLISHED)
    assert list(FAULT_KINDS) == sorted(FAULT_KINDS)


def test_published_ids_are_those_of_the_table(shared: object) -> None:
    text = (shared / "verification.md").read_text(encoding="utf-8")  # type: ignore[operator]  # a Path
    table = text.split("## 2.")[1].split("## 3.")[0]
    rows = [
        line.split("|")[1].strip().strip("`")
        for line in table.splitlines()
        if line.startswith("| `")
    ]
    assert sorted(rows) == sorted(PUBLISHED)


@pytest.mark.parametrize("kind", FAULT_KINDS.values(), ids=FAULT_KINDS)
def test_kind_says_what_it_is_and_how_to_mend_it(kind: object) -> None:
    assert len(kind.what) > 20  # type: ignore[attr-defined]  # a FaultKind
    assert len(kind.fix) > 5  # type: ignore[attr-defined]  # a FaultKind


def test_every_kind_is_named_by_a_reading_or_by_a_check() -> None:
    readings = {variant.fault for variant in READINGS}
    assert set(FAULT_KINDS) == (readings | named_in_source("verify/checks", "verify")) & set(
        FAULT_KINDS
    )


def test_unknown_kind_is_refused_by_name() -> None:
    assert fault_kind("scale").id == "scale"
    with pytest.raises(
        ConfigError, match=r"fault_id \('no-such'\) is not known: use one of attends"
    ):
        fault_kind("no-such")
