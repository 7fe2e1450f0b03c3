"""How long the package and its command take to start: `python -m benchmarks.startup`."""

import argparse
import importlib.util
import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python -c pass": "pass",
    "import manyheads": "import manyheads",
    "manyheads --help": (
        "import sys; sys.argv = ['manyheads', '--help']\n"
        "from manyheads.cli.main import main; sys.exit(main())"
    ),
    "import manyheads, use a layer": "import manyheads; manyheads.MultiHeadAttention",
}


def seconds(code: str) -> float:
    """Seconds on the clock of a fresh interpreter that runs the code."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def main() -> None:
    """Print the best and the median of several starts."""
    parser = argparse.ArgumentParser(description="start-up time")
    parser.add_argument("--quick", action="store_true", help="one start of each")
    repeats = 1 if parser.parse_args().quick else 7
    print(f"Python {sys.version.split()[0]}, {repeats} fresh interpreters each, wall time")
    for name, code in COMMANDS.items():
        if name == "manyheads --help" and importlib.util.find_spec("manyheads.cli.main") is None:
            print(f"  {name:<32} the command does not exist yet")
            continue
        found = [seconds(code) for _ in range(repeats)]
        print(f"  {name:<32} best {min(found):.3f} s, median {statistics.median(found):.3f} s")


if __name__ == "__main__":
    main()
