"""Calls timed alternately, so that a noisy machine slows all of them equally."""

import argparse
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

Calls = dict[str, Callable[[], object]]
SAMPLE_SECONDS = 0.02


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How long to measure, and with how many threads."""

    warmup: int = 2
    """Calls of each kind before any is timed."""
    repeats: int = 15
    """Rounds; each times every call once."""
    threads: int = 1
    """Threads of torch; with one, CPU time is steadier than time on the clock."""


def settings_from_arguments(description: str) -> tuple[Settings, bool]:
    """Read --repeats, --threads and --quick; the second result is whether sizes are tiny."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--repeats", type=int, default=15, help="rounds (15)")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (1)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it work at all?")
    given = parser.parse_args()
    repeats = 3 if given.quick else given.repeats
    return Settings(repeats=repeats, threads=given.threads), given.quick


def print_setting(settings: Settings, dtype: torch.dtype = torch.float32) -> None:
    """Print what the figures depend on."""
    torch.set_num_threads(settings.threads)
    print(
        f"torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()} "
        f"{torch.backends.cpu.get_cpu_capability()}, device cpu, {dtype}, "
        f"{settings.threads} thread(s), {settings.warmup} warm-up, "
        f"{settings.repeats} rounds by turns; CPU time, medians"
    )


def seconds_by_turns(calls: Calls, settings: Settings) -> dict[str, list[float]]:
    """CPU seconds of one call, a number a round; a short call is repeated within its turn."""
    counts = {}
    for name, call in calls.items():
        for _ in range(settings.warmup):
            call()
        begun = time.process_time()
        call()
        counts[name] = 1 + int(SAMPLE_SECONDS / max(time.process_time() - begun, 1e-6))
    found: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for turn in range(settings.repeats):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            begun = time.process_time()
            for _ in range(counts[name]):
                calls[name]()
            found[name].append((time.process_time() - begun) / counts[name])
    return found


def report(title: str, calls: Calls, settings: Settings) -> None:
    """Print one line a call: its median, and how many times as long as the first call it takes.

    The ratio is the median of the rounds' ratios; in brackets are their quartiles.
    """
    found = seconds_by_turns(calls, settings)
    own = next(iter(found.values()))
    print(title)
    for name, seconds in found.items():
        ratios = [theirs / ours for theirs, ours in zip(seconds, own, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        milliseconds = statistics.median(seconds) * 1e3
        print(f"  {name:<32} {milliseconds:9.2f} ms  x {middle:5.2f}  [{low:.2f}, {high:.2f}]")
