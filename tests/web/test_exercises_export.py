"""What is written of exercises for the page."""

import json
import re

from manyheads.learn.exercises import KINDS, exercise
from tools.page.exercises import exercise_index, exercise_script

SCRIPT = re.compile(r'\(globalThis\.manyheadsExercises\?\?=\{\}\)\["([\w-]+)"\]=(.*);\n')


def test_a_script_has_the_exercises_of_a_kind_by_seed() -> None:
    found = SCRIPT.fullmatch(exercise_script("grouped-heads", 3))
    assert found is not None and found[1] == "grouped-heads"
    documents = json.loads(found[2])
    assert [one["id"] for one in documents] == [f"grouped-heads/{seed}" for seed in range(3)]
    assert documents[2] | {"worksheet": None} == exercise("grouped-heads", 2).to_json()


def test_the_list_has_every_kind_in_order_and_at_least_200_seeds() -> None:
    index = exercise_index()
    assert index["seeds"] >= 200
    assert [(one["name"], one["title"]) for one in index["kinds"]] == [
        (kind.name, kind.title) for kind in KINDS.values()
    ]
