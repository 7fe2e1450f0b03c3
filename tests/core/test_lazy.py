"""Names of a package that load on first use."""

import subprocess
import sys

import pytest

import manyheads as mh
from manyheads import data

SUBPACKAGES = ("heads", "layouts", "models", "verify", "worksheets")


def test_subpackages_resolve_after_importing_the_root_alone() -> None:
    uses = "; ".join(f"assert mh.{name}.__all__" for name in SUBPACKAGES)
    light = "assert 'torch' not in sys.modules"
    program = f"import sys, manyheads as mh; dir(mh); {light}; {uses}"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_dir_lists_public_names_and_subpackages() -> None:
    assert {*mh.__all__, *SUBPACKAGES} <= set(dir(mh))
    assert dir(data) == sorted(data.__all__)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("MultiheadAttention", "MultiHeadAttention"),
        ("layout", "layouts"),
        ("from_pytorch", "from_torch"),
    ],
)
def test_a_mistyped_name_suggests_the_nearest(written: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=f"'{written}': use '{meant}'$"):
        getattr(mh, written)


def test_a_name_like_no_other_lists_all_names() -> None:
    with pytest.raises(AttributeError, match=r"'zzz': use one of Agreement, .*, tell_story$"):
        _ = data.zzz  # type: ignore[attr-defined]  # the point of the test


def test_a_module_that_is_no_subpackage_is_no_name_of_the_root() -> None:
    with pytest.raises(AttributeError, match="no attribute 'no.such'"):
        getattr(mh, "no.such")
