"""Steps with a cache against recomputing everything each step: `python -m benchmarks.cache`."""

import time

import torch
from torch import Tensor

from benchmarks.timing import print_setting, settings_from_arguments
from manyheads.attention.cache import KVCache
from manyheads.attention.module import MultiHeadAttention

PREFILL, STEPS, WIDTH, HEADS = 1024, 256, 512, 8
QUICK = (32, 8, 32, 4)
TOLERANCE = 1e-12


def cached_rows(layer: MultiHeadAttention, x: Tensor, prefill: int) -> Tensor:
    """Last row of the prefill, then one row per step, (B, steps + 1, D), with a cache."""
    output, cache = layer(x[:, :prefill], is_causal=True, kv_cache=KVCache())
    rows = [output[:, -1:]]
    for t in range(prefill, x.shape[1]):
        output, cache = layer(x[:, t : t + 1], is_causal=True, kv_cache=cache)
        rows.append(output)
    return torch.cat(rows, dim=1)


def recomputed_rows(layer: MultiHeadAttention, x: Tensor, prefill: int) -> Tensor:
    """The same rows, each the last one of a full causal pass over the sequence so far."""
    stops = range(prefill, x.shape[1] + 1)
    return torch.cat([layer(x[:, :stop], is_causal=True)[:, -1:] for stop in stops], dim=1)


@torch.no_grad()
def main() -> None:
    """Print seconds and ratio in float32, after checking equality in float64."""
    settings, is_quick = settings_from_arguments("cached steps against recomputing")
    print_setting(settings)
    prefill, steps, width, heads = QUICK if is_quick else (PREFILL, STEPS, WIDTH, HEADS)
    x = torch.randn(1, prefill + steps, width, generator=torch.Generator().manual_seed(11))
    layer = MultiHeadAttention(width, heads).eval()
    layer.double()
    gap = (
        cached_rows(layer, x.double(), prefill) - recomputed_rows(layer, x.double(), prefill)
    ).abs()
    assert gap.max() < TOLERANCE, f"cached and recomputed rows differ by {float(gap.max())}"
    layer.float()
    seconds = {}
    for name, rows in (("cached", cached_rows), ("recomputed", recomputed_rows)):
        rows(layer, x[:, : prefill + 1], prefill)
        begun = time.process_time()
        rows(layer, x, prefill)
        seconds[name] = time.process_time() - begun
    print(f"prefill {prefill}, {steps} steps, D = {width}, H = {heads}, one run each")
    print(f"  largest difference in float64: {float(gap.max()):.1e} (allowed {TOLERANCE})")
    print(f"  cached     {seconds['cached']:8.3f} s")
    ratio = seconds["recomputed"] / seconds["cached"]
    print(f"  recomputed {seconds['recomputed']:8.3f} s  x {ratio:.1f}")


if __name__ == "__main__":
    main()
