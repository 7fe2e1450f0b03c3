"""The quiz, the topics, the cards and the experiments for the page.

Every number is computed when the page is built. The same engine always gives the same data.
"""

from typing import Any

from manyheads.learn.cards.deck import deck_json
from manyheads.learn.cards.schedule import settings_json
from manyheads.learn.explain_back import topics
from manyheads.learn.quiz import questions
from manyheads.learn.worksheet_tries import Try, tries_of
from manyheads.worksheets.library import Worksheet, worksheet, worksheet_names

FORMAT = 1


def learn_data() -> dict[str, Any]:
    """Return everything that the learn view asks; `web/src/learn/data.ts` has the format."""
    return {
        "format": FORMAT,
        "questions": [question.to_json() for question in questions()],
        "topics": [topic.to_json() for topic in topics()],
        "cards": deck_json(),
        "settings": settings_json(),
        "tries": [
            _try_data(worksheet(name), one)
            for name in worksheet_names()
            for sequence in worksheet(name).sequence_names
            for one in tries_of(worksheet(name), sequence)
            if one.name in changes_of(worksheet(name))
        ],
    }


def changes_of(sheet: Worksheet) -> dict[str, dict[str, Any]]:
    """What each experiment changes on the page's worksheet, as fields of its state."""
    heads = {f"without-head-{h + 1}": {"headsOff": [h]} for h in range(sheet.num_heads)}
    mask = {name: {"isCausal": False} for name in ("no-mask-first", "no-mask-last")}
    return {
        "zero-query": {"hasZeroQuery": True},
        "one-wide-head": {"isWide": True},
        **heads,
        **mask,
    }


def _try_data(sheet: Worksheet, one: Try) -> dict[str, Any]:
    """An experiment without its numbers, which the page computes when it is run."""
    index = "".join(f"[{i}]" for i in one.quantity.index)
    return {
        "worksheet": sheet.name,
        "sequence": one.quantity.sequence,
        "name": one.name,
        "change": one.change,
        "quantity": f"{sheet.name}:{one.quantity.sequence}.{one.quantity.field.name}{index}",
        "label": one.label,
        "changes": changes_of(sheet)[one.name],
    }
