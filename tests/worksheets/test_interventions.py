"""What-if questions leave the worksheet as it is and change what they say."""

import numpy as np
import pytest

from manyheads.core.errors import WorksheetError
from manyheads.worksheets.interventions import (
    one_wide_head,
    sum_instead_of_concat,
    without_head,
    zero_query,
)
from manyheads.worksheets.library import worksheet
from tests.worksheets.samples import full_document, sheet_of


def test_zero_query_clears_biases_too() -> None:
    sheet = sheet_of(full_document())
    solution = zero_query(sheet).solve(exact=True)
    assert not solution.q.any() and (solution.attn_weights * 2 == 1).all()
    assert sheet == sheet_of(full_document())


def test_without_head_silences_only_that_head() -> None:
    sheet = sheet_of(full_document())
    before, after = sheet.solve(exact=True), without_head(sheet, 0).solve(exact=True)
    assert not after.head_outputs[0].any()
    assert (after.attn_weights == before.attn_weights).all()
    gap = (before.output - after.output - before.head_contributions[0]).astype(float)
    np.testing.assert_allclose(gap, 0, atol=1e-15)


@pytest.mark.parametrize("index", [-1, 2])
def test_silencing_a_head_that_is_not_there_is_named(index: int) -> None:
    with pytest.raises(WorksheetError, match=rf"head index \({index}\) must be 0 to 1"):
        without_head(worksheet("two-routes"), index)


def test_one_wide_head_adds_the_heads_dot_products_and_keeps_the_values() -> None:
    for sheet in (worksheet("three-heads"), sheet_of(full_document())):
        wide, heads = one_wide_head(sheet).solve(exact=True), sheet.solve(exact=True)
        assert (wide.dots[0] == heads.dots.sum(axis=0)).all()
        assert (wide.v[0] == np.concatenate(list(heads.v), axis=-1)).all()
        assert (wide.concat == wide.head_outputs[0]).all()
    assert one_wide_head(sheet).scale == sheet.scale


def test_sum_instead_of_concat_is_the_sum_over_heads() -> None:
    solution = worksheet("three-heads").solve(exact=True)
    assert (sum_instead_of_concat(solution) == solution.head_outputs.sum(axis=0)).all()
    river = worksheet("river-and-cheque")
    exact = sum_instead_of_concat(river.solve(exact=True)).astype(float)
    np.testing.assert_allclose(
        exact, river.solve().head_outputs.sum(axis=0), rtol=1e-12, atol=1e-15
    )
