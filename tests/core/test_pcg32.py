"""PCG32 against the published output of its reference program."""

import json
from pathlib import Path

import pytest

from manyheads.core.errors import ConfigError
from manyheads.core.pcg32 import PCG32

# Round 1 of the reference library's demonstration program, seed 42, sequence 54.
PUBLISHED = (0xA15C02B7, 0x7B47F409, 0xBA1D3330, 0x83D2F293, 0xBFA4784B, 0xCBED606E)
FIXTURE = Path(__file__).parents[1] / "models" / "pcg32.json"


def test_against_the_published_reference_output() -> None:
    draws = PCG32(42)
    assert tuple(draws.next_u32() for _ in PUBLISHED) == PUBLISHED


def test_uniform_is_the_draw_divided_by_two_to_the_32() -> None:
    draws = PCG32(42)
    assert [draws.uniform() for _ in PUBLISHED] == [number / 2**32 for number in PUBLISHED]


def test_fixture_for_the_page_holds_the_same_numbers() -> None:
    cases = json.loads(FIXTURE.read_text(encoding="utf-8"))["cases"]
    assert tuple(cases[0]["u32"][:6]) == PUBLISHED
    for case in cases:
        draws = PCG32(int(case["seed"]))
        assert [draws.next_u32() for _ in case["u32"]] == case["u32"]
    assert {case["seed"] for case in cases} >= {"0", "18446744073709551615"}


def test_draws_are_spread_evenly() -> None:
    draws = PCG32(7)
    counts = [0] * 10
    for _ in range(10_000):
        counts[int(draws.uniform() * 10)] += 1
    assert sum((count - 1000) ** 2 / 1000 for count in counts) < 27.9  # chi-square, p = 0.001


def test_another_seed_and_another_stream_draw_other_numbers() -> None:
    firsts = {PCG32(seed, stream).next_u32() for seed in (0, 1, 2) for stream in (0, 54)}
    assert len(firsts) == 6


@pytest.mark.parametrize("seed", [-1, 2**64, True])
def test_a_seed_of_another_size_is_refused(seed: int) -> None:
    with pytest.raises(ConfigError, match=rf"seed \({seed}\) must be between 0 and 2\*\*64 - 1"):
        PCG32(seed)


def test_a_stream_of_another_size_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"stream \(-1\)"):
        PCG32(0, -1)
