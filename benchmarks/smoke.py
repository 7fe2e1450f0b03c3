"""Seconds and peak memory of the whole pipeline: `python -m benchmarks.smoke`.

Runs `manyheads study run smoke` in its own process. The figures are printed next to the limits of
the plan: a minute and 1.5 GB on two cores.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

LIMIT_SECONDS, LIMIT_BYTES = 60, 1_500_000_000


def main() -> None:
    """Print wall time, CPU seconds and peak memory."""
    parser = argparse.ArgumentParser(description="the smoke study's seconds and memory")
    parser.add_argument("--quick", action="store_true", help="with one seed")
    given = parser.parse_args()
    seeds = ["--seeds", "11"] if given.quick else []
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "manyheads.cli.main", "study", "run", "smoke"]
        begun = time.perf_counter()
        process = subprocess.Popen(
            [*command, "--out", os.path.join(folder, "smoke"), *seeds],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
    if status:
        raise SystemExit("the smoke study failed: run it by hand to see why")
    peak = usage.ru_maxrss * 1024
    print(
        f"smoke: {seconds:.1f} s wall time ({seconds / LIMIT_SECONDS:.2f} of the limit), "
        f"{usage.ru_utime + usage.ru_stime:.1f} s CPU, "
        f"{peak / 1e9:.2f} GB peak ({peak / LIMIT_BYTES:.2f} of the limit)"
    )


if __name__ == "__main__":
    main()
