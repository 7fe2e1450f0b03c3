"""When reviews were really made, whatever the clock said: clocks are set back, or run far ahead."""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime, timedelta

LEEWAY = timedelta(days=1)
"""A review may be dated this much after the present: another device's clock may be ahead."""


def trusted_times(dates: Sequence[datetime], now: datetime) -> tuple[list[datetime], int]:
    """Times that never decrease, as near to the dates as can be.

    The order of the file is the order in which reviews were made. Trusted is the longest run of
    dates that fits it and does not lie in the future; every other review counts as made at the
    last trusted date before it (or, where there is none, the first after it).

    Args:
        dates: as they were written down, in the order of the file.
        now: by the present clock.

    Returns:
        times: one a review.
        num_future: how many dates lie after the present by more than `LEEWAY`.
    """
    possible = [index for index, date in enumerate(dates) if date <= now + LEEWAY]
    kept = set(_longest_run([dates[index] for index in possible]))
    trusted = {possible[place] for place in kept}
    last = dates[min(trusted)] if trusted else now
    times = []
    for index, date in enumerate(dates):
        last = date if index in trusted else last
        times.append(last)
    return times, len(dates) - len(possible)


def _longest_run(dates: Sequence[datetime]) -> list[int]:
    """Places of a longest sequence that never decreases, by patience sorting."""
    ends: list[datetime] = []  # the least last date of a run of each length
    places: list[int] = []  # where that date stands
    before: list[int] = []  # for each date, the place of the one before it in its run
    for place, date in enumerate(dates):
        length = bisect_right(ends, date)
        before.append(places[length - 1] if length else -1)
        if length == len(ends):
            ends.append(date)
            places.append(place)
        else:
            ends[length], places[length] = date, place
    run, place = [], places[-1] if places else -1
    while place >= 0:
        run.append(place)
        place = before[place]
    return run[::-1]
