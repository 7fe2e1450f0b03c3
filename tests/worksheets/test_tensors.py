"""A worksheet becomes float64 tensors once, each number rounded once."""

import torch

from manyheads.core.config import TRACED_FORMS
from manyheads.worksheets.library import worksheet
from manyheads.worksheets.tensors import input_from_sheet, trace_from_sheet, weights_from_sheet
from tests.worksheets.samples import full_document, sheet_of


def test_weights_have_one_matrix_a_head_and_zeros_for_a_missing_bias() -> None:
    weights = weights_from_sheet(sheet_of(full_document()))
    assert weights.w_q.shape == (2, 3, 1) and weights.w_v.shape == (2, 3, 2)
    assert weights.w_o.shape == (2, 2, 3) and weights.w_q.dtype == torch.float64
    assert weights.w_k[0, 2, 0].item() == 2**0.5
    assert weights.b_q is not None and weights.b_q.tolist() == [[0.5], [0.0]]
    assert weights_from_sheet(worksheet("two-routes")).b_o is None


def test_input_is_the_sum_of_exact_rows_rounded_once() -> None:
    x = input_from_sheet(worksheet("river-and-cheque"), "river")
    assert x.shape == (1, 10, 4)
    assert x[0, 0].tolist() == [0.1, 0.0, 0.1, 2.3]


def test_trace_is_of_the_form_that_was_asked_for() -> None:
    for form in TRACED_FORMS:
        trace = trace_from_sheet(worksheet("three-heads"), form=form)
        assert trace.form == form and trace.output.shape == (1, 4, 6)
        assert not trace.output.requires_grad
