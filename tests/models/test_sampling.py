"""The rule by which words are chosen, on logits whose answer is known."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from manyheads.core.errors import ConfigError
from manyheads.core.pcg32 import PCG32
from manyheads.data import tokens
from manyheads.models import config
from manyheads.models.sampling import Sampling, choose_word, probability_of_word

# PCG32(42) draws 0.63031..., 0.48155..., 0.72701..., 0.51493... first.
FIRST_DRAWS = [0xA15C02B7 / 2**32, 0x7B47F409 / 2**32, 0xBA1D3330 / 2**32, 0x83D2F293 / 2**32]


def logits_of(*probabilities: float) -> torch.Tensor:
    """Logits whose softmax, without the special words apart from the end, is as given."""
    rest = torch.tensor(probabilities, dtype=torch.float64).log()
    special = torch.tensor([50.0, 50.0, -50.0, 50.0], dtype=torch.float64)
    return torch.cat([special, rest])


def test_special_words_have_the_ids_of_the_tokeniser() -> None:
    for name in ("PAD", "BOS", "EOS", "UNK"):
        assert tokens.SPECIAL_WORDS[getattr(config, f"{name}_ID")] == f"[{name}]"


def test_greedy_takes_the_best_word_and_of_equal_ones_the_lowest_id() -> None:
    draws = PCG32(42)
    logits = torch.tensor([9.0, 9.0, 1.0, 9.0, 2.0, 5.0, 5.0, 3.0])
    assert choose_word(logits, Sampling(temperature=0.0), draws) == 5
    assert draws.uniform() == FIRST_DRAWS[0]  # nothing was drawn


def test_one_number_is_drawn_a_word() -> None:
    draws = PCG32(42)
    choose_word(logits_of(0.5, 0.3, 0.2), Sampling(temperature=1.0), draws)
    assert draws.uniform() == FIRST_DRAWS[1]


def test_words_are_laid_out_best_first() -> None:
    # In the order 0.5 (id 6), 0.3 (id 4), 0.2 (id 5) the draws 0.63, 0.48, 0.73, 0.51 fall so:
    draws = PCG32(42)
    chosen = [
        choose_word(logits_of(0.3, 0.2, 0.5), Sampling(temperature=1.0), draws) for _ in range(4)
    ]
    assert chosen == [4, 6, 4, 4]


def test_equal_words_are_laid_out_by_rising_id() -> None:
    logits = torch.zeros(8)
    draws = PCG32(42)  # EOS and ids 4 to 7: fifths, in that order
    chosen = [choose_word(logits, Sampling(temperature=1.0), draws) for _ in range(4)]
    assert chosen == [(2, 4, 5, 6, 7)[int(u * 5)] for u in FIRST_DRAWS]


def test_top_k_keeps_the_best_and_of_equal_ones_the_lowest_ids() -> None:
    logits = logits_of(0.25, 0.25, 0.25, 0.25)
    found = {
        choose_word(logits, Sampling(temperature=5.0, top_k=3), PCG32(seed)) for seed in range(60)
    }
    assert found == {4, 5, 6}


def test_temperature_divides_the_logits() -> None:
    # Odds 4 : 1 become 2 : 1 at temperature 2, so u = 0.73 takes the second word, not the first.
    u = FIRST_DRAWS[2]
    for temperature, wanted in ((1.0, 4), (2.0, 5)):
        draws = PCG32(42)
        draws.uniform(), draws.uniform()
        assert u < 0.8 and u > 2 / 3
        settings = Sampling(temperature=temperature, top_k=2)
        assert choose_word(logits_of(0.8, 0.2), settings, draws) == wanted


def test_padding_beginning_and_unknown_are_never_chosen_and_the_end_can_be() -> None:
    logits = torch.tensor([50.0, 50.0, 0.0, 50.0, 0.0, 0.0])
    found = {choose_word(logits, Sampling(temperature=100.0), PCG32(seed)) for seed in range(80)}
    assert found == {2, 4, 5}


def test_ids_beyond_the_vocabulary_are_never_chosen() -> None:
    logits = torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 9.0, 9.0])
    found = {choose_word(logits, Sampling(temperature=9.0), PCG32(seed), 6) for seed in range(60)}
    assert found == {2, 4, 5}
    assert choose_word(logits, Sampling(temperature=0.0), PCG32(0), 6) == 4


def test_frequencies_follow_the_softmax() -> None:
    draws = PCG32(3)
    logits = logits_of(0.6, 0.3, 0.1)
    found = [choose_word(logits, Sampling(temperature=1.0), draws) for _ in range(4000)]
    shares = [found.count(word) / len(found) for word in (4, 5, 6)]
    assert shares == pytest.approx([0.6, 0.3, 0.1], abs=0.03)


def test_a_tiny_and_a_huge_temperature_stay_finite() -> None:
    logits = logits_of(0.2, 0.5, 0.3)
    assert choose_word(logits, Sampling(temperature=5e-324), PCG32(1)) == 5
    hot = {choose_word(logits, Sampling(temperature=1e308), PCG32(seed)) for seed in range(60)}
    assert hot == {2, 4, 5, 6}


def test_float32_logits_are_taken_as_they_are_and_stay_untouched() -> None:
    logits = logits_of(0.3, 0.2, 0.5).float()
    before = logits.clone()
    chosen = choose_word(logits, Sampling(temperature=1.0), PCG32(42))
    assert chosen == choose_word(logits.double(), Sampling(temperature=1.0), PCG32(42))
    assert torch.equal(logits, before)


def test_probability_is_the_softmax_over_all_words() -> None:
    logits = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 900.0, 900.0])
    assert probability_of_word(logits, 6) == pytest.approx(0.5, abs=1e-15)
    small = torch.arange(5.0)
    assert probability_of_word(small, 2) == pytest.approx(
        math.exp(2) / sum(math.exp(n) for n in range(5)), rel=1e-12
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"temperature": -0.5}, r"temperature \(-0.5\) must be a finite number of at least 0"),
        ({"temperature": math.nan}, r"temperature \(nan\)"),
        ({"temperature": math.inf}, r"temperature \(inf\)"),
        ({"top_k": 0}, r"top_k \(0\) must be at least 1"),
        ({"seed": -1}, r"seed \(-1\)"),
    ],
)
def test_settings_that_nothing_can_be_drawn_with_are_refused(
    settings: dict[str, float], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        Sampling(**settings)  # type: ignore[arg-type]  # the point of the test


def test_more_candidates_than_words_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"top_k \(5\) must be at most 4"):
        choose_word(torch.zeros(7), Sampling(top_k=5), PCG32(0))
    assert Sampling(top_k=4).num_candidates(7) == 4
    assert Sampling().num_candidates(7) == 4
    assert Sampling().num_candidates(4000) == 40


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_not_finite_are_refused(bad: float) -> None:
    logits = torch.zeros(7)
    logits[5] = bad
    with pytest.raises(ConfigError, match=rf"logits \({bad} at word 5\) must be finite"):
        choose_word(logits, Sampling(), PCG32(0))


def by_the_book(case: dict[str, Any]) -> list[int]:
    """The rule of docs/generate.md in plain Python, written apart from the package."""
    logits, draws = case["logits"], PCG32(int(case["seed"]))
    able = [word for word in range(len(logits)) if word not in (0, 1, 3)]
    best = sorted(able, key=lambda word: (-logits[word], word))[: case["top_k"] or 40]
    if case["temperature"] == 0:
        return [best[0]] * len(case["words"])
    parts = [math.exp((logits[word] - logits[best[0]]) / case["temperature"]) for word in best]
    found = []
    for _ in case["words"]:
        u, reached = draws.uniform(), 0.0
        for word, part in zip(best, parts, strict=True):
            reached += part / math.fsum(parts)
            if reached > u:
                found.append(word)
                break
    return found


def test_fixture_for_the_page_holds_what_the_rule_gives() -> None:
    fixture = Path(__file__).parent / "sampling.json"
    cases = json.loads(fixture.read_text(encoding="utf-8"))["cases"]
    assert {case["temperature"] for case in cases} >= {0.0, 1.0}
    for case in cases:
        settings = Sampling(
            temperature=case["temperature"], top_k=case["top_k"], seed=int(case["seed"])
        )
        logits, draws = torch.tensor(case["logits"]), PCG32(settings.seed)
        assert [choose_word(logits, settings, draws) for _ in case["words"]] == case["words"]
        assert by_the_book(case) == case["words"]
        assert len(set(case["words"])) > 1 or case["temperature"] == 0
