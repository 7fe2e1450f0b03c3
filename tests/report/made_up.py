"""Results that no training gave: made up from a formula, in the form that studies write."""

import json
from pathlib import Path
from typing import Any

from manyheads.study.plan import Plan, plan
from manyheads.study.stats import aggregate, paired_differences

LOSSES = {"mlp": 4.4, "one-head": 3.8, "four-heads": 3.71, "uniform": 3.93, "shared": 3.86}


def made_up_loss(model: str, num_heads: int | None) -> float:
    """A loss that falls with the number of heads up to eight, then rises again."""
    if model in LOSSES:
        return LOSSES[model]
    heads = num_heads or 1
    return 3.5 - 0.05 * min(heads, 8).bit_length() + 0.02 * max(heads // 8, 1).bit_length()


def made_up_run(
    model: str, num_heads: int | None, seed: int, steps: int, *, number: int = 0
) -> dict[str, Any]:
    """One run; `number` shifts its losses a little, as another seed would."""
    loss = made_up_loss(model, num_heads) + 0.004 * ((seed * 7 + number * 3) % 11 - 5)
    trace = [
        {
            "step": step,
            "train_loss": loss + 1.2 * (1 - step / steps) ** 2 - 0.3,
            "validation_loss": loss + 1.5 * (0.75 - step / steps) ** 2,
            "learning_rate": 0.012,
        }
        for step in range(steps // 8, steps + 1, steps // 8)
    ]
    best = min(trace, key=lambda entry: entry["validation_loss"])
    test = best["validation_loss"] + 0.03
    return {
        "model": model,
        "num_heads": num_heads,
        "seed": seed,
        "parameters": 2_332_832 if num_heads is None else 1_321_120,
        "steps": steps,
        "selected_step": best["step"],
        "validation_loss": best["validation_loss"],
        "test_loss": test,
        "test_perplexity": 2.718281828459045**test,
        "seconds": 300.0 + seed,
        "cpu_seconds": 290.0 + seed,
        "tokens_seen": steps * 512,
        "learning_rate": 0.012,
        "trace": trace,
    }


def made_up_heads(num_heads: int, loss: float) -> dict[str, Any]:
    """The analysis of a run's heads."""
    costs = [0.3 / (2 + h) - 0.01 * (h % 3 == 2) for h in range(num_heads)]
    order = sorted(range(num_heads), key=lambda h: costs[h])
    left, losses = loss, [loss]
    for h in order:
        left += costs[h] * 1.3
        losses.append(left)
    greedy = {"order": order, "losses": losses, "num_choosing": 512, "num_windows": 1536}
    removed = [loss + cost for cost in costs]
    return {
        "num_heads": num_heads,
        "split": "validation",
        "num_windows": 2048,
        "removal": {"loss": loss, "losses": removed, "changes": costs, "num_windows": 2048},
        "greedy": greedy,
        "entropy": [1.0 + 0.1 * (h % 5) for h in range(num_heads)],
        "mean_distance": [4.0 + h % 7 for h in range(num_heads)],
        "largest_weight": [0.5] * num_heads,
        "mass_on_last": [0.25] * num_heads,
        "mass_on_previous": [0.125] * num_heads,
        "mass_on_bos": [0.0625] * num_heads,
        "num_windows_with_bos": 700,
        "diversity": None if num_heads == 1 else 0.4 + 0.02 * num_heads.bit_length(),
        "diversity_unit": "square root of bits, 0 to 1",
    }


def made_up_results(frozen: Plan, *, with_heads: bool = False) -> dict[str, Any]:
    """`results.json` of a plan, made up."""
    runs = []
    for number, model in enumerate(frozen.models):
        for seed in frozen.seeds:
            run = made_up_run(
                model.name, model.num_heads, seed, frozen.protocol.steps, number=number
            )
            if with_heads and model.num_heads is not None:
                run["heads"] = made_up_heads(model.num_heads, run["validation_loss"])
            runs.append(run)
    return {
        "plan": frozen.to_dict(),
        "plan_sha256": frozen.sha256,
        "data_sha256": "5" * 64,
        "environment": {"python": "3.0 (made up)", "torch": "made up", "threads": 1},
        "data": {
            "num_stories": {"train": 1540, "validation": 193, "test": 193},
            "num_targets": {"train": 320_000, "validation": 40_000, "test": 41_000},
            "unknown_rates": {"train": 0.0051, "validation": 0.0123, "test": 0.0119},
        },
        "runs": runs,
        "aggregate": aggregate(runs),
        "paired": paired_differences(runs, frozen.pairs),
    }


def on_file(name: str) -> Plan:
    """A built-in plan on a file of stories."""
    return plan(name).with_data("file", "5" * 64)


def write_study(folder: Path, frozen: Plan | str, **options: Any) -> dict[str, Any]:
    """Write the made-up results of a plan, or of the built-in one of a name, and return them."""
    held = plan(frozen) if isinstance(frozen, str) else frozen
    document = made_up_results(held, **options)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(document), encoding="utf-8")
    return document
