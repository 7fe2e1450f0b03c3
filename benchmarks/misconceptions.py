"""Mistakes named correctly, and random answers blamed: `python -m benchmarks.misconceptions`.

Scripted wrong answers come from `wrong_answers`, `wrong_counts` and `wrong_places`, which make each
mistake themselves, and are typed as a fraction or a rounded decimal. Chance answers are small whole
numbers, small fractions, short decimals, and right answers with something changed.
"""

import argparse
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

from benchmarks.wrong_answers import SHOWN, Shown
from benchmarks.wrong_counts import COUNTED
from benchmarks.wrong_places import PLACED
from manyheads.learn.exercises import KINDS, Exercise, exercise, mark
from manyheads.worksheets.arithmetic import float_of

BAR_NAMED, BAR_ACCUSED = 0.8, 0.02
ANSWERS: dict[str, dict[str, Any]] = {**SHOWN, **COUNTED, **PLACED}
"""By kind and misconception, what somebody answers; "right" is the right answer."""


@lru_cache(maxsize=8)
def _shown(kind: str, seed: int) -> Shown:
    return Shown(exercise(kind, seed))


def answer_of(drawn: Exercise, name: str) -> list[float]:
    """The answer with a misconception, or "right", computed without the exercise's own answers."""
    shown = _shown(drawn.kind, drawn.seed) if drawn.kind in SHOWN else drawn
    made = ANSWERS[drawn.kind][name](shown)
    return [round(float(number), 13) for number in made]  # nobody types 2e-16 for 0


def as_fraction(value: float) -> str:
    """A short fraction where the number is one, else five digits."""
    short = Fraction(value).limit_denominator(5000)
    return str(short) if abs(short - Fraction(value)) < Fraction(1, 10**12) else f"{value:#.5g}"


def as_decimal(value: float, digits: int = 3) -> str:
    """Rounded to some significant digits; whole numbers stay as they are."""
    if value == round(value):
        return str(round(value))
    places = digits - 1 - int(f"{value:e}".partition("e")[2])
    return f"{value:.{max(places, 0)}f}"


def typings(values: list[float]) -> Iterator[str]:
    """The ways in which an answer is typed."""
    yield ", ".join(as_fraction(value) for value in values)
    yield " ".join(as_decimal(value, 3) for value in values)
    yield "; ".join(as_decimal(value, 4) for value in values)


def chance_answers(drawn: Exercise, chance: random.Random) -> Iterator[tuple[str, str]]:
    """Answers that no misconception causes: the class, and the typed answer."""
    right = [float_of(number) for number in drawn.answer]
    for name, draw in _CHANCE.items():
        if name != "fractions of one" or drawn.kind in ("weight-row", "mask-rows"):
            yield name, ", ".join(draw(drawn, right, chance))


def _whole(drawn: Exercise, right: list[float], chance: random.Random) -> list[str]:
    if drawn.kind not in SHOWN and drawn.kind != "mask-rows":
        return [str(chance.randint(0, round(2 * value) + 2)) for value in right]
    return [str(chance.randint(-9, 9)) for _ in right]


def _few(drawn: Exercise, right: list[float], chance: random.Random) -> list[str]:
    return [str(chance.randint(0, 3)) for _ in right]


def _fractions(drawn: Exercise, right: list[float], chance: random.Random) -> list[str]:
    return [f"{chance.randint(-20, 20)}/{chance.randint(1, 12)}" for _ in right]


def _shares(drawn: Exercise, right: list[float], chance: random.Random) -> list[str]:
    parts = [chance.randint(0, 6) for _ in right]
    return [f"{part}/{max(sum(parts), 1)}" for part in parts]


def _decimals(digits: int) -> Callable[[Exercise, list[float], random.Random], list[str]]:
    def draw(drawn: Exercise, right: list[float], chance: random.Random) -> list[str]:
        largest = max(1.0, *(abs(value) for value in right))
        return [f"{chance.uniform(-largest, largest):.{digits}f}" for _ in right]

    return draw


def _changed(change: Callable[[float, random.Random], float]) -> Any:  # noqa: ANN401 - as above
    def draw(drawn: Exercise, right: list[float], chance: random.Random) -> list[str]:
        place = chance.randrange(len(right))
        changed = [change(v, chance) if i == place else v for i, v in enumerate(right)]
        return [as_fraction(value) for value in changed]

    return draw


def _swapped(drawn: Exercise, right: list[float], chance: random.Random) -> list[str]:
    first, second = chance.sample(range(len(right)), 2)
    changed = list(right)
    changed[first], changed[second] = right[second], right[first]
    return [as_fraction(value) for value in changed]


_CHANCE: dict[str, Callable[[Exercise, list[float], random.Random], list[str]]] = {
    "whole numbers": _whole,
    "numbers 0 to 3": _few,
    "fractions": _fractions,
    "fractions of one": _shares,
    "decimals, 2 places": _decimals(2),
    "decimals, 3 places": _decimals(3),
    "right, one off by 1": _changed(lambda v, chance: v + chance.choice((-1, 1))),
    "right, one off by 1/2": _changed(lambda v, chance: v + chance.choice((-0.5, 0.5))),
    "right, one doubled": _changed(lambda v, chance: v * 2),
    "right, one sign lost": _changed(lambda v, chance: -v),
    "right, two exchanged": _swapped,
}
"""The last three change a right answer as a mistake does; an accusation there may be just."""


def measured(seeds: range, rounds: int) -> dict[str, Any]:
    """Named mistakes and blamed random answers of every kind.

    Args:
        seeds: of the exercises.
        rounds: random answers of each class per exercise.
    """
    chance, kinds, classes = random.Random(1), {}, Counter[tuple[str, str]]()
    for kind in KINDS:
        found = Counter[str]()
        for drawn in (exercise(kind, seed) for seed in seeds):
            found += _scripted(drawn)
            found += _by_chance(drawn, rounds, chance, classes)
        kinds[kind] = {name: found[name] for name in _COUNTS}
    return {
        "kinds": kinds,
        "classes": {name: [classes["accused", name], classes["all", name]] for name in _CHANCE},
        "named": _share(kinds, "named", "scripted"),
        "accused": _share(kinds, "accused", "chance"),
    }


_COUNTS = ("scripted", "named", "misnamed", "chance", "accused")


def _scripted(drawn: Exercise) -> Counter[str]:
    found = Counter[str]()
    for item in drawn.misconceptions:
        for typed in typings(answer_of(drawn, item.name)):
            names = {named.name for named in mark(drawn, typed).misconceptions}
            found["scripted"] += 1
            found["named"] += names == {item.name}
            found["misnamed"] += bool(names - {item.name})
    return found


def _by_chance(
    drawn: Exercise, rounds: int, chance: random.Random, classes: Counter[tuple[str, str]]
) -> Counter[str]:
    found = Counter[str]()
    for name, typed in (pair for _ in range(rounds) for pair in chance_answers(drawn, chance)):
        result = mark(drawn, typed)
        if result.is_right:
            continue
        for counted in ("chance", *(["accused"] if result.misconceptions else [])):
            found[counted] += 1
            classes["all" if counted == "chance" else counted, name] += 1
    return found


def _share(kinds: dict[str, dict[str, int]], part: str, whole: str) -> float:
    return sum(row[part] for row in kinds.values()) / sum(row[whole] for row in kinds.values())


def main() -> None:
    """Print both shares, by kind and by class of chance answer."""
    parser = argparse.ArgumentParser(description="naming of misconceptions")
    parser.add_argument("--quick", action="store_true", help="few seeds")
    parser.add_argument("--seeds", type=int, default=100, help="seeds of each kind")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    given = parser.parse_args()
    seeds = range(10_000, 10_000 + (2 if given.quick else given.seeds))
    found = measured(seeds, rounds=2 if given.quick else 5)
    if given.json:
        print(json.dumps(found))
        return
    print(f"seeds {seeds.start} to {seeds.stop - 1}; three typings of each scripted answer")
    print(f"  {'kind':<20}{'scripted':>9}{'named':>8}{'misnamed':>10}{'chance':>9}{'accused':>9}")
    for kind, row in found["kinds"].items():
        print(
            f"  {kind:<20}{row['scripted']:>9}{row['named'] / row['scripted']:>8.1%}"
            f"{row['misnamed']:>10}{row['chance']:>9}{row['accused'] / row['chance']:>9.2%}"
        )
    for name, (accused, count) in found["classes"].items():
        print(f"  {name:<24}{accused:>6} of {count:>7} accused, {accused / max(count, 1):.2%}")
    print(
        f"misconceptions: {found['named']:.2%} named correctly (limit {BAR_NAMED:.0%}), "
        f"{found['accused']:.3%} of random answers blamed (limit {BAR_ACCUSED:.0%})"
    )


if __name__ == "__main__":
    main()
