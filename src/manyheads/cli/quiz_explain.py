"""`manyheads quiz explain`: explain a topic, apply it, and answer one follow-up at a time."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from manyheads.cli.learn_options import DATA

if TYPE_CHECKING:
    from manyheads.cli.asking import Asker
    from manyheads.learn.attempts import HalfAttempt
    from manyheads.learn.explain_back import Gap, Half, Topic

    Attempts = dict[Half, HalfAttempt]


@click.command()
@click.argument("topic", required=False)
@click.option("--list", "is_list", is_flag=True, help="List the topics and your latest results.")
@DATA
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def explain(
    ctx: click.Context, topic: str | None, is_list: bool, data: Path | None, as_json: bool
) -> None:
    r"""Explain a topic in your own words.

    Then apply it to a case, and answer a question about each point that you missed. The default
    TOPIC is the first one that you have not completed. Type each answer on one line; an empty line
    at a follow-up question stops. Your answers are saved.

    \b
    Examples:
      manyheads quiz explain --list
      manyheads quiz explain mask
    """
    from manyheads.learn.explain_back import topic as opened
    from manyheads.learn.own_files import data_folder

    folder = data_folder(data or ctx.obj)
    if is_list:
        _list(folder, as_json)
    else:
        _run(opened(topic or _first_open(folder)), folder, as_json)


def _covered(folder: Path) -> dict[str, tuple[bool | None, ...]]:
    """For each topic, the points covered at the latest attempt: explanation, then application."""
    from manyheads.learn.attempts import EXPLAIN_FILE, flags, latest
    from manyheads.learn.explain_back import HALVES, num_points, topic_ids

    found = latest(folder, EXPLAIN_FILE, "topic", "half")
    return {
        name: tuple(
            flag
            for half in HALVES
            for flag in flags(found.get((name, half)), "covered", num_points(name, half))
        )
        for name in topic_ids()
    }


def _first_open(folder: Path) -> str:
    standing = _covered(folder)
    return next((name for name, flags in standing.items() if not all(flags)), next(iter(standing)))


def _list(folder: Path, as_json: bool) -> None:
    from manyheads.learn.explain_back import title_of

    standing = _covered(folder)
    if as_json:
        rows = [
            {"id": name, "title": title_of(name), "covered": list(flags)}
            for name, flags in standing.items()
        ]
        click.echo(json.dumps(rows))
        return
    width, wide = max(map(len, standing)), max(len(title_of(name)) for name in standing)
    for name, flags in standing.items():
        is_begun = any(flag is not None for flag in flags)
        says = f"{flags.count(True)}/{len(flags)} points" if is_begun else "not explained yet"
        click.echo(f"{name:<{width}}  {title_of(name):<{wide}}  {says}")


def _run(topic: "Topic", folder: Path, as_json: bool) -> None:
    from manyheads.cli.asking import Asker, EndOfAnswers, kept_text
    from manyheads.learn.attempts import EXPLAIN_FILE, HalfAttempt, check_file
    from manyheads.learn.explain_back import HALVES

    check_file(folder, EXPLAIN_FILE)
    asker, where = Asker(as_json=as_json), folder / EXPLAIN_FILE
    attempts = {
        half: HalfAttempt(
            folder=folder,
            topic=topic.id,
            half=half,
            covered=[None for _ in topic.points(half)],
            answers=[None for _ in topic.points(half)],
        )
        for half in HALVES
    }
    is_whole = True
    try:
        asker.say(topic.title, indent="")
        asker.say("─" * 80, indent="")
        for half in HALVES:
            _ask_half(asker, topic, half, attempts[half])
        _close_gaps(asker, topic, attempts)
    except EndOfAnswers:
        is_whole = False
        asker.say("The answers end here.")
    except KeyboardInterrupt:
        if _has_answers(attempts):
            asker.warn(kept_text(where))
        raise
    if as_json:
        click.echo(json.dumps(_document(topic, attempts, where, is_whole)))
        return
    asker.say()
    asker.say(_tally_text(topic, attempts))
    if _has_answers(attempts):
        asker.say_kept(where)
    else:
        asker.say("No answers, so nothing was saved.")


def _ask_half(asker: "Asker", topic: "Topic", half: "Half", attempt: "HalfAttempt") -> None:
    """Ask for one half, then mark it point by point; it is saved even if an error follows."""
    from manyheads.learn.attempts import checked_text
    from manyheads.learn.sightings import sightings

    try:
        asker.say(str(topic.prompt(half)))
        attempt.text = asker.ask("", checked_text) or ""
        attempt.save()
        asker.say()
        if not attempt.text:
            return
        asker.say("Did you cover these points? Rules looked for their words; you decide.")
        for index, point in enumerate(topic.points(half)):
            asker.say(f"{index + 1}. {point.says}", later="   ")
            for found in sightings(point, attempt.text):
                asker.say(f"   mentions {found}", later="     ")
            attempt.covered[index] = asker.yes("")
        asker.say(f"Covered: {attempt.covered.count(True)} of {len(attempt.covered)}.")
        asker.say()
    finally:
        attempt.save()


def _close_gaps(asker: "Asker", topic: "Topic", attempts: "Attempts") -> None:
    """Ask about the first missing point until none is left or the learner stops."""
    from manyheads.learn.explain_back import first_gap

    while gap := first_gap(topic, {half: one.covered for half, one in attempts.items()}):
        if not _ask_gap(asker, gap, attempts[gap.half]):
            asker.say("Stopped here.")
            return


def _ask_gap(asker: "Asker", gap: "Gap", attempt: "HalfAttempt") -> bool:
    """Ask the one question about a gap; False where the learner stops."""
    from manyheads.learn.attempts import checked_text

    asker.say(f"First missing point: {gap.point.says}", later="  ")
    asker.say(f"{gap.point.follow_up} (An empty line stops.)", later="  ")
    answer = asker.ask("", checked_text)
    if not answer:
        return False
    attempt.answers[gap.index] = answer
    attempt.save()
    asker.say(f"A good answer: {gap.point.look_for}", later="  ")
    attempt.covered[gap.index] = asker.yes("Did you cover it now?") is True
    attempt.save()
    asker.say()
    return True


def _tally_text(topic: "Topic", attempts: "Attempts") -> str:
    from manyheads.learn.explain_back import first_gap

    flags = [flag for attempt in attempts.values() for flag in attempt.covered]
    gap = first_gap(topic, {half: one.covered for half, one in attempts.items()})
    covered = f"{flags.count(True)} of {len(flags)} points covered"
    if gap is None:
        return (
            f"{covered}; none is missing." if all(flags) else f"{covered}; the rest is not marked."
        )
    return f"{covered}; first missing point: {gap.point.says}"


def _has_answers(attempts: "Attempts") -> bool:
    return any(attempt.has_answer for attempt in attempts.values())


def _document(topic: "Topic", attempts: "Attempts", where: Path, is_whole: bool) -> dict[str, Any]:
    from manyheads.learn.explain_back import first_gap

    gap = first_gap(topic, {half: one.covered for half, one in attempts.items()})
    halves: dict[str, Any] = {
        half: {
            "text": attempt.text,
            "points": [
                {"says": str(point.says), "covered": covered, "answer": answer}
                for point, covered, answer in zip(
                    topic.points(half), attempt.covered, attempt.answers, strict=True
                )
            ],
        }
        for half, attempt in attempts.items()
    }
    found = gap and {
        "half": gap.half,
        "says": str(gap.point.says),
        "follow_up": str(gap.point.follow_up),
    }
    return {
        "topic": topic.id,
        **halves,
        "first_gap": found,
        "finished": is_whole,
        "file": str(where),
    }
