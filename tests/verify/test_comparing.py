"""Two implementations compared: verdict, step, both lines, map, settings."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from manyheads import compare
from manyheads.core.errors import SubjectError
from manyheads.verify import Comparison
from manyheads.verify.compare_files import compare_subjects
from manyheads.verify.comparing import output_gap
from manyheads.verify.subject import Subject
from tests.factories import annotations_unchecked
from tests.verify.kinds import Causal, Plain
from tests.verify.pairs import (
    DIFFERENT,
    EQUAL,
    STYLES,
    Difference,
    line_with,
    source_of,
    write_style,
)

SLOW = pytest.mark.slow
NOT_YET = pytest.mark.xfail(strict=True, reason="names the line that uses a mask, not its maker")
"""What is known to be wrong; delete the mark when it is right."""


def compared(a: str, b: str, **setting: Any) -> Comparison:
    """Two targets compared in this process."""
    with annotations_unchecked():
        return compare_subjects((Subject(target=a), Subject(target=b)), None, **setting)


@pytest.mark.parametrize(
    ("first", "second"), [EQUAL[0], *(pytest.param(*pair, marks=SLOW) for pair in EQUAL[1:])]
)
def test_styles_of_the_same_attention_are_equal(tmp_path: Path, first: str, second: str) -> None:
    a, b = write_style(tmp_path, "a", first), write_style(tmp_path, "b", second)
    result = compared(a, b)
    assert result.verdict == "equal", result
    assert result.gap is not None and result.gap < 1e-12
    assert len([p for p in result.problems if p.gap is not None]) >= 5
    assert {step.status for step in result.steps} <= {"equal", "not seen"}


@pytest.mark.parametrize(
    "difference",
    [
        DIFFERENT[0],
        *(
            pytest.param(one, marks=[SLOW, NOT_YET] if one is DIFFERENT[2] else SLOW)
            for one in DIFFERENT[1:]
        ),
    ],
)
def test_one_difference_is_found_with_both_lines(tmp_path: Path, difference: Difference) -> None:
    changed = {"old": difference.old, "new": difference.new}
    a = write_style(tmp_path, "a", difference.a)
    b = write_style(tmp_path, "b", difference.b, **changed)
    result = compared(a, b)
    step = result.departure
    assert result.verdict == "different"
    assert step is not None and step.a is not None and step.b is not None
    found = (step.step, step.a.line, step.b.line)
    lines = (
        line_with(source_of(difference.a), difference.at),
        line_with(source_of(difference.b, **changed), difference.new),
    )
    assert found == (difference.step, *lines), result


@cache
def from_packed() -> tuple[Comparison, Callable[..., Any], nn.Module, nn.Module]:
    """A comparison of two styles, its conversion, and both modules."""
    space: dict[str, Any] = {}
    modules = []
    for style in ("nanogpt", "loop"):
        made: dict[str, Any] = {}
        exec(source_of(style), made)
        modules.append(made["Attention"](32, 4).double())
    with annotations_unchecked():
        result = compare(*modules)
    exec(result.conversion, space)
    return result, space["convert"], modules[0], modules[1]


def test_a_conversion_gives_the_second_the_output_of_the_first() -> None:
    result, convert, a, b = from_packed()
    assert result.is_equal
    x = torch.randn(2, 5, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    assert output_gap(a(x), b(x)) > 0.01
    b.load_state_dict(convert(a.state_dict(), b.state_dict()))
    assert output_gap(a(x), b(x)) < 1e-12


def test_the_map_names_parts_of_parameters() -> None:
    rows = {(row.weight, row.head): (row.a, row.b) for row in from_packed()[0].map}
    assert rows["W_K", 1] == ("c_attn.weight[40:48, :]", "heads.1.key.weight")
    assert rows["W_O", None] == ("c_proj.weight", "proj.weight")
    assert from_packed()[0].unmatched == {"a": ("bias",), "b": ()}


class Sees(nn.Module):
    """Takes a mask, whose meaning a subclass can turn."""

    turned = False

    def __init__(self, embed_dim: int = 24, num_heads: int = 3) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv, self.out = nn.Linear(embed_dim, 3 * embed_dim), nn.Linear(embed_dim, embed_dim)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if attn_mask is not None:
            scores = scores.masked_fill(attn_mask if self.turned else ~attn_mask, -1e30)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class SeesTurned(Sees):
    turned = True


def test_masks_are_given_in_the_convention_of_each() -> None:
    result = compare(Sees(), SeesTurned())
    assert result.is_equal
    assert any("mask" in p.name and p.gap is not None for p in result.problems)


def test_what_only_one_can_do_is_named() -> None:
    result = compare(Sees(12, 3), Plain())
    assert result.verdict != "undetermined"
    assert any("mask" in words for words in result.left_out)


def test_causality_that_only_one_has_is_a_difference() -> None:
    result = compare(Plain(), Causal())
    assert result.verdict == "different"
    assert result.departure is not None
    assert result.departure.step in ("masked_scores", "attn_weights")


class InNumpy(nn.Module):
    """Computes where nothing can be seen, with names of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(12, 36), nn.Linear(12, 12)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = torch.from_numpy(self.first(x).detach().numpy()).chunk(3, -1)
        return self.second((q @ k.mT).softmax(-1) @ v)


def test_a_module_that_cannot_be_read_is_undetermined() -> None:
    result = compare(Plain(), InNumpy())
    assert result.verdict == "undetermined"
    assert "cannot be read" in result.says


def test_bfloat16_is_equal_within_its_rounding_and_states_it() -> None:
    result = compare(Sees(), dtype="bfloat16")
    assert result.is_equal
    assert "0.05" in result.says
    assert result.gap is not None and 1e-4 < result.gap < 0.05


def test_nothing_to_compare_with_is_refused() -> None:
    with pytest.raises(SubjectError, match="b is not given"):
        compare(Sees())
    with pytest.raises(SubjectError, match=r"device \(nowhere\)"):
        compare(Sees(), device="nowhere")
    with pytest.raises(SubjectError, match=r"dtype \(int8\)"):
        compare(Sees(), dtype="int8")


@pytest.mark.slow
def test_eager_and_compiled_are_equal(tmp_path: Path) -> None:
    target = write_style(tmp_path, "a", "packed")
    result = compared(target, target, is_compiled=True)
    assert result.is_equal, result
    assert any("compiled" in p.name and p.gap is not None for p in result.problems)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cpu_and_gpu_are_equal(tmp_path: Path) -> None:
    target = write_style(tmp_path, "a", "packed")
    assert compared(target, target, device="cuda").is_equal
    assert compared(target, target, device="cuda", dtype="bfloat16").is_equal


@pytest.mark.slow
def test_published_faults_depart_from_the_sound_file_at_the_changed_line(shared: Path) -> None:
    folder = shared / "subjects" / "peer"
    sound = (folder / "mha_sound.py").read_text(encoding="utf-8").splitlines()
    found = {}
    for name in ("mha_split_by_view", "mha_softmax_heads", "mha_batch_mix", "mha_sample_0_keys"):
        other = (folder / f"{name}.py").read_text(encoding="utf-8").splitlines()
        pairs = enumerate(zip(sound, other, strict=False), start=1)
        changed = [number for number, (x, y) in pairs if x != y]
        subjects = [
            Subject(target=f"{n}.py:MultiHeadAttention", folder=folder) for n in ("mha_sound", name)
        ]
        with annotations_unchecked():
            result = compare_subjects((subjects[0], subjects[1]), None)
        step = result.departure
        line = step.b.line if step is not None and step.b is not None else None
        found[name] = (result.verdict, line in changed)
    assert {verdict for verdict, _ in found.values()} == {"different"}, found
    assert sum(is_right for _, is_right in found.values()) >= 3, found


def test_every_style_is_in_a_pair() -> None:
    used = {name for pair in EQUAL for name in pair} | {d.b for d in DIFFERENT}
    assert used == set(STYLES)
