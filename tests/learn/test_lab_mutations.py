"""Attention is broken in known ways: the lab must name what is wrong, finish, and not pass."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from manyheads.cli.main import main
from manyheads.learn.lab import LabReport, run_lab
from tests.factories import mostly_slow
from tests.learn import lab_mistakes as mistakes

Patch = pytest.MonkeyPatch


class Mutation(NamedTuple):
    """A mistake, and the failures that must name it."""

    mistake: Callable[[Patch], None]
    parts: tuple[int, ...]
    tries: tuple[str, ...]
    said: tuple[str, ...]


WHOLE = (1, 2, 3, 4, 5)
MUTATIONS = {
    "merge as a view": Mutation(
        mistakes.merge_as_a_view,
        (2, 4),
        ("ablate-head-1",),
        (
            "part 2 · concatenated heads at position 3, head outputs in order: ",
            "part 2 · projected output at position 3, the same, fused form: output 1: printed ",
            "part 4 · largest difference from the loop form, output: nn.MultiheadAttention: ",
            "try ablate-head-1 · output at position 3, without head 1: ",
        ),
    ),
    "split as a view": Mutation(
        mistakes.split_as_a_view,
        (1, 4),
        (),
        ("part 1 · weights at position 3: ", "part 4 · largest difference from the loop form, "),
    ),
    "softmax over queries": Mutation(
        mistakes.softmax_over_queries,
        (1, 3, 4),
        ("zero-query",),
        (
            "part 1 · weights at position 3: softmax of the scores, head 1 (grows): key 1: printed",
            "expected 1/7 (0.14285714285714285) (fractions)",
            "expected 1/7 (0.14285714285714285) (published)",
            "part 3 · masked weights and row sums, sum of the weights, position 1: head 1: printed",
            "part 4 · largest difference from the loop form, weights of head 2: packed: printed",
            "try zero-query · weights at position 3, every query zero, head 1 (grows): ",
        ),
    ),
    "mask turned round": Mutation(
        mistakes.mask_turned_round,
        (3, 4),
        ("change-first-input",),
        (
            "part 3 · masked weights and row sums, largest weight on a later key: head 1: printed",
            "part 3 · largest change of an output, per form, positions 1 and 2, causal: loop: ",
            "part 3 · weights with the causal mask, head 1, position 1: key 1: printed",
            "part 4 · largest difference from the loop form, output: fused: printed",
            "try change-first-input · output with the causal mask, position 2, after: ",
        ),
    ),
    "fused without mask": Mutation(
        mistakes.fused_without_mask,
        (3, 4),
        (),
        (
            "positions 1 and 2, causal: fused: printed 3.5142857142857",
            "part 4 · largest difference from the loop form, output: fused: printed",
        ),
    ),
    "no scale": Mutation(
        mistakes.no_scale,
        (1, 4),
        (),
        (
            "part 1 · scores at position 3: q·k / sqrt(head width), head 1 (grows): key 2: ",
            "part 1 · output per head at position 3: weights times values, head 1 (grows): ",
        ),
    ),
    "weights leak": Mutation(
        mistakes.weights_leak,
        (3,),
        (),
        (
            "part 3 · masked weights and row sums, largest weight on a later key: head 1: "
            "printed 1.0",
        ),
    ),
    "heads swapped in W_O": Mutation(
        mistakes.heads_swapped_in_w_o,
        (2,),
        ("ablate-head-1",),
        (
            "part 2 · stored rows of out_proj.weight, row of output 2: head 1: printed",
            "part 2 · signed contribution of each head at position 3, head 1 (grows): output 2: ",
            "part 2 · concatenation keeps the order, output, heads swapped: ",
            "try ablate-head-1 · output at position 3, difference: ",
        ),
    ),
    "contribution without sign": Mutation(
        mistakes.contribution_of_abs,
        (2,),
        (),
        ("part 2 · signed contribution of each head at position 3, head 2 (shrinks): ",),
    ),
    "gradient of q stops": Mutation(
        mistakes.gradient_stops("q"),
        (4,),
        (),
        ("gradient of W_Q: fused: ", "gradient of b_Q: fused: "),
    ),
    "gradient of k stops": Mutation(
        mistakes.gradient_stops("k"), (4,), (), ("gradient of W_K: fused: ",)
    ),
    "gradient of v stops": Mutation(
        mistakes.gradient_stops("v"),
        (4,),
        (),
        ("gradient of W_V: fused: ", "gradient of b_V: fused: "),
    ),
    "input gradient doubles": Mutation(
        mistakes.input_gradient_doubles, (4,), (), ("gradient of the input: packed: ",)
    ),
    "key bias leaks": Mutation(
        mistakes.key_bias_leaks,
        (4,),
        (),
        ("largest entry of the gradient of b_K, gradient of b_K: loop: ",),
    ),
    "one parameter more": Mutation(
        mistakes.one_parameter_more,
        (5,),
        ("heads-4",),
        (
            "part 5 · the same width, more heads, parameters: printed 257, expected 256 (by hand)",
            "printed 257, expected 256 (torch)",
            "try heads-4 · heads against length, parameters: printed 257, expected 256",
        ),
    ),
    "scores in double": Mutation(
        mistakes.scores_in_double,
        (5,),
        ("heads-4",),
        (
            "part 5 · one score tensor in memory, bytes per entry: printed 8, expected 4",
            "one score tensor in memory, bytes: printed 524,288, expected 262,144 (by hand)",
            "try heads-4 · heads against length, bytes: ",
        ),
    ),
    "scores averaged": Mutation(
        mistakes.scores_averaged,
        (5,),
        (),
        (
            "more heads, score entries: printed 32, expected 64 (by hand)",
            "more heads, scores (B, H, T, T): printed (2, 1, 4, 4), expected (2, 2, 4, 4) (torch)",
        ),
    ),
    "the oracle errs": Mutation(
        mistakes.oracle_errs, (2,), (), ("expected 40/7 (5.7142857142857144) (fractions)",)
    ),
    "published answers err": Mutation(
        mistakes.published_answers_err,
        (3,),
        ("zero-query",),
        ("try zero-query · output at position 3, concat W_O: output 2: printed",),
    ),
    "a form breaks": Mutation(
        mistakes.kernel_breaks,
        (2, 3, 4),
        ("swap-heads",),
        (
            "the same, fused form: printed nothing (RuntimeError: no kernel), expected ['40/7', ",
            "try swap-heads · largest change of the output, with their rows of W_O: printed",
        ),
    ),
}


def outcome(report: LabReport) -> list[str]:
    return [item.name for record in (*report.parts, *report.tries) for item in record.items]


@pytest.fixture(scope="module")
def sound() -> dict[str, list[str]]:
    """What each part and experiment prints when nothing is broken."""
    names = dict.fromkeys(m.tries for m in MUTATIONS.values())
    found = {str(n): outcome(run_lab(parts=(n,))) for n in WHOLE}
    return found | {name: outcome(run_lab(tries=(name,))) for tries in names for name in tries}


QUICK = (
    *("split as a view", "weights leak", "heads swapped in W_O", "gradient of v stops"),
    *("one parameter more", "published answers err", "a form breaks"),
)


@pytest.mark.parametrize("name", mostly_slow(MUTATIONS, *QUICK))
def test_a_mistake_is_named_and_every_other_assertion_still_runs(
    name: str, sound: dict[str, list[str]], monkeypatch: Patch
) -> None:
    mutation = MUTATIONS[name]
    mutation.mistake(monkeypatch)
    report = run_lab(parts=mutation.parts, tries=mutation.tries)
    failures = "\n".join(report.failures)
    for words in mutation.said:
        assert words in failures
    wanted = [name for key in (*mutation.parts, *mutation.tries) for name in sound[str(key)]]
    assert outcome(report) == wanted
    assert not report.passed
    assert "FAILED" in str(report)


@pytest.mark.parametrize(
    "name",
    mostly_slow(
        ["merge as a view", "softmax over queries", "mask turned round"], "softmax over queries"
    ),
)
def test_the_command_fails_by_name_and_does_not_say_passed(
    name: str, monkeypatch: Patch, capsys: pytest.CaptureFixture[str]
) -> None:
    mutation = MUTATIONS[name]
    mutation.mistake(monkeypatch)
    options = [part for number in mutation.parts for part in ("--part", str(number))]
    assert main(["lab", *options]) == 1
    out = capsys.readouterr().out
    assert next(words for words in mutation.said if words.startswith("part")) in out
    assert "CHECK PASSED" not in out
    assert out.endswith("CHECK FAILED\n")
