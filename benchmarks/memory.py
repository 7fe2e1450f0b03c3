"""Peak memory of the fused form on long sequences: `python -m benchmarks.memory`.

Each case runs in its own process, whose peak resident size is read from the system.
"""

import argparse
import json
import multiprocessing
import resource
import sys
import time
from typing import Any

HEADS, HEAD_DIM = 8, 64
CASES: dict[str, dict[str, Any]] = {
    "open": {},
    "causal": {"is_causal": True},
    "causal and key padding": {"is_causal": True, "pads": True},
    "window of 512": {"layer": {"window": 512}},
    "linear bias, causal": {"is_causal": True, "bias": True},
    "2 key/value heads, causal": {"is_causal": True, "layer": {"num_kv_heads": 2}},
}


def peak_bytes() -> int:
    """The largest resident size of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def measure(name: str, length: int) -> tuple[int, float]:
    """Bytes by which one forward pass raises the peak, and its CPU seconds; B = 1."""
    import torch

    from manyheads.attention.module import MultiHeadAttention
    from manyheads.core.config import LinearBias

    torch.set_num_threads(1)
    asked = CASES[name]
    positions = LinearBias() if "bias" in asked else None
    width = HEADS * HEAD_DIM
    layer = MultiHeadAttention(width, HEADS, positions=positions, **asked.get("layer", {})).eval()
    padding = torch.zeros(1, length, dtype=torch.bool)
    padding[:, -length // 8 :] = True
    options = {"is_causal": asked.get("is_causal", False)}
    options |= {"key_padding_mask": padding} if "pads" in asked else {}
    with torch.no_grad():
        short = options | ({"key_padding_mask": padding[:, :16]} if "pads" in asked else {})
        layer(torch.randn(1, 16, width), **short)
        x = torch.randn(1, length, width)
        before, begun = peak_bytes(), time.process_time()
        layer(x, **options)
        return peak_bytes() - before, time.process_time() - begun


def main() -> None:
    """Print each case and the size of the scores that are not computed."""
    parser = argparse.ArgumentParser(description="peak memory of the fused form")
    parser.add_argument("--length", type=int, default=8192, help="T (8192)")
    parser.add_argument("--quick", action="store_true", help="T = 256")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    given = parser.parse_args()
    length = 256 if given.quick else given.length
    fresh = multiprocessing.get_context("forkserver")  # loads torch once, for all cases
    fresh.set_forkserver_preload(["manyheads.attention.module"])
    found = {}
    for name in CASES:
        with fresh.Pool(1) as pool:
            found[name] = pool.apply(measure, (name, length))
    scores = HEADS * length * length * 4
    if given.json:
        peaks = {name: peak for name, (peak, _) in found.items()}
        print(json.dumps({"length": length, "scores_bytes": scores, "peak_bytes": peaks}))
        return
    print(f"B = 1, T = {length}, H = {HEADS}, d = {HEAD_DIM}, float32, cpu, forward, 1 thread")
    print(f"  {'one (B, H, T, T) tensor would be':<34} {scores / 2**20:8.1f} MiB")
    for name, (peak, seconds) in found.items():
        share = f"{peak / scores:6.1%} of it"
        print(f"  {name:<34} {peak / 2**20:8.1f} MiB  {share}  {seconds:6.2f} s")


if __name__ == "__main__":
    main()
