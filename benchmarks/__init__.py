"""Speed and memory, as ratios within one run; docs/benchmarks.md says how to read them."""
