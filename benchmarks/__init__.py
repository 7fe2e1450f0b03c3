"""Speed and memory, as ratios within one run; docs/benchmarks.md explains them."""
