"""Means over seeds, and differences between models that were trained on the same seeds.

A value that is missing or not finite is reported, never filled in. Each difference has a note on
the limits of so few seeds.
"""

import math
import statistics
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from manyheads.core.errors import StudyError

Run = Mapping[str, Any]
LEVEL = 0.95
RESAMPLES = 9999
BOOTSTRAP_SEED = 20240917  # any number; fixed, so that a report is reproducible
FEW_SEEDS = 6
"""With fewer seeds than this a bootstrap interval is too narrow."""
_SPREAD = 1e-12  # smallest range of differences, relative to their size, that is not rounding
_NO_MEASUREMENT = frozenset({"seed", "num_heads", "head_dim", "parameters"})


def aggregate(runs: Sequence[Run]) -> dict[str, dict[str, dict[str, float | None]]]:
    """Mean and standard deviation over seeds of every number that runs measured.

    The standard deviation divides by n - 1; it is None for one seed. If a run of a model lacks a
    metric, or its value is not finite, mean and deviation are None for that model.

    Args:
        runs: as in `results.json`: each with `model`, `seed` and numbers.

    Returns:
        {model: {metric: {"mean", "sd"}}}, models in the order in which they come.

    Raises:
        StudyError: a model has two runs of one seed.
    """
    return {model: _aggregate_one(list(own.values())) for model, own in _by_model(runs).items()}


def paired_differences(
    runs: Sequence[Run],
    comparisons: Sequence[Sequence[str]],
    metric: str = "test_loss",
    *,
    resamples: int = RESAMPLES,
    seed: int = BOOTSTRAP_SEED,
) -> list[dict[str, Any]]:
    """The difference between two models per seed, with intervals for its mean.

    For one seed, both models of a pair saw the same data in the same order, so their difference
    varies less than either value. A difference is model_a minus model_b; if it is negative, model_a
    has the smaller value.

    Args:
        runs: as in `results.json`.
        comparisons: pairs (model_a, model_b).
        metric: the number of a run to compare.
        resamples: resamples of the bootstrap.
        seed: random seed of the bootstrap.

    Returns:
        One dictionary per pair: `model_a`, `model_b`, `metric`, `n`, `seeds`, `differences`,
        `mean`, `sd`, `level`, `interval` of the bootstrap with its `method`, `resamples` and
        `bootstrap_seed`, `t_interval` (exact where differences are normally distributed),
        `left_out` (seeds that could not be compared, and why) and `note`. A value that cannot be
        computed is None.

    Raises:
        StudyError: a comparison is not a pair, or names a model that has no run.

    Source: Efron 1987, Better Bootstrap Confidence Intervals, J. Am. Stat. Assoc. 82 (BCa).
    """
    models = _by_model(runs)
    return [_compared(models, _pair(pair, models), metric, resamples, seed) for pair in comparisons]


def _by_model(runs: Sequence[Run]) -> dict[str, dict[int, Run]]:
    """The runs of each model by seed."""
    found: dict[str, dict[int, Run]] = {}
    for run in runs:
        own = found.setdefault(run["model"], {})
        if run["seed"] in own:
            raise StudyError(
                f"runs has two runs of {run['model']} with seed {run['seed']}: keep one of them"
            )
        own[run["seed"]] = run
    return found


def _aggregate_one(runs: Sequence[Run]) -> dict[str, dict[str, float | None]]:
    names = [
        name
        for name in dict.fromkeys(name for run in runs for name in run)
        if name not in _NO_MEASUREMENT and any(_is_number(run.get(name)) for run in runs)
    ]
    return {name: _mean_and_sd([run.get(name) for run in runs]) for name in names}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and _is_number(value) and math.isfinite(value)


def _mean_and_sd(values: Sequence[Any]) -> dict[str, float | None]:
    if not values or not all(map(_is_finite, values)):
        return {"mean": None, "sd": None}
    sd = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": statistics.fmean(values), "sd": sd}


def _pair(pair: Sequence[str], models: Mapping[str, object]) -> tuple[str, str]:
    if isinstance(pair, str) or len(pair) != 2:
        raise StudyError(f"comparisons has {pair!r}, which is not a pair: name two models")
    for name in pair:
        if name not in models:
            known = ", ".join(models)
            raise StudyError(f"comparisons names {name!r}, which has no run: use two of {known}")
    return pair[0], pair[1]


def _compared(
    models: Mapping[str, Mapping[int, Run]],
    pair: tuple[str, str],
    metric: str,
    resamples: int,
    seed: int,
) -> dict[str, Any]:
    first, second = (models[name] for name in pair)
    seeds, differences, left_out = [], [], []
    for each in dict.fromkeys([*first, *second]):
        why = _unpaired(pair, (first.get(each), second.get(each)), metric)
        if why:
            left_out.append({"seed": each, "why": why})
        else:
            seeds.append(each)
            differences.append(float(first[each][metric]) - float(second[each][metric]))
    return {
        "model_a": pair[0],
        "model_b": pair[1],
        "metric": metric,
        "n": len(seeds),
        "seeds": seeds,
        "differences": differences,
        **_mean_and_sd(differences),
        "level": LEVEL,
        **_bootstrap(differences, resamples, seed),
        "t_interval": _t_interval(differences),
        "left_out": left_out,
        "note": _note(differences, left_out),
    }


def _unpaired(pair: tuple[str, str], runs: tuple[Run | None, Run | None], metric: str) -> str:
    """Why a seed cannot be compared, or an empty text."""
    for name, run in zip(pair, runs, strict=True):
        if run is None:
            return f"{name} has no run of this seed"
        value = run.get(metric)
        if not _is_finite(value):
            shown = f"is {value}" if _is_number(value) else "is missing"
            return f"{metric} of {name} {shown}"
    return ""


def _has_spread(differences: Sequence[float]) -> bool:
    """Whether the differences differ by more than rounding."""
    if len(differences) < 2:
        return False
    size = max(map(abs, differences))
    return max(differences) - min(differences) > _SPREAD * size


def _bootstrap(differences: Sequence[float], resamples: int, seed: int) -> dict[str, Any]:
    if not _has_spread(differences):
        return {"interval": None, "method": None, "resamples": None, "bootstrap_seed": None}
    method = "BCa"
    interval = _resampled(differences, method, resamples, seed)
    if interval is None:
        method = "percentile"
        interval = _resampled(differences, method, resamples, seed)
    return {
        "interval": interval,
        "method": method,
        "resamples": resamples,
        "bootstrap_seed": seed,
    }


def _resampled(
    differences: Sequence[float], method: str, resamples: int, seed: int
) -> list[float] | None:
    """One bootstrap interval, or None if the method has none for these numbers."""
    import numpy as np
    from scipy.stats import bootstrap

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # their cause shows as an interval that is not a number
        found = bootstrap(
            (np.array(differences),),
            np.mean,
            n_resamples=resamples,
            confidence_level=LEVEL,
            method=method,
            rng=np.random.default_rng(seed),
        ).confidence_interval
    ends = [float(found.low), float(found.high)]
    return ends if all(map(math.isfinite, ends)) else None


def _t_interval(differences: Sequence[float]) -> list[float] | None:
    """Student's interval for the mean of paired differences."""
    if not _has_spread(differences):
        return None
    from scipy.stats import t

    n = len(differences)
    quantile = float(t.ppf((1 + LEVEL) / 2, n - 1))
    half = quantile * statistics.stdev(differences) / math.sqrt(n)
    mean = statistics.fmean(differences)
    return [mean - half, mean + half]


def _note(differences: Sequence[float], left_out: Sequence[object]) -> str:
    """The limits of an interval over so few seeds."""
    n = len(differences)
    said = [f"{len(left_out)} seed(s) left out, see left_out."] if left_out else []
    if n == 0:
        return " ".join([*said, "No seed can be compared."])
    if n == 1:
        return " ".join([*said, "One seed has no spread, so there is no interval."])
    if not _has_spread(differences):
        return " ".join([*said, f"All {n} differences are equal, so there is no interval."])
    if n < FEW_SEEDS:
        said.append(_few(n))
    said.append(_signs(differences))
    said.append("The interval covers seeds only, not other data, splits or settings.")
    return " ".join(said)


def _few(n: int) -> str:
    """Why a bootstrap interval over fewer than six differences is too narrow.

    The mean of a resample is between the smallest and the largest difference. This range contains
    the median of the distribution of differences with probability 1 - 2 ** (1 - n).
    """
    covered = 100 * (1 - 2.0 ** (1 - n))
    return (
        f"{n} seeds are few: the bootstrap interval is always between the smallest and the largest "
        f"of the {n} differences. That range contains the true median in {covered:.3g} % of "
        f"repetitions, not in {100 * LEVEL:.0f} %, so the interval is too narrow. The t interval "
        "is correct if the differences are normally distributed."
    )


def _signs(differences: Sequence[float]) -> str:
    """Whether the seeds agree, and how often they would by chance."""
    n = len(differences)
    below = sum(difference < 0 for difference in differences)
    if below not in (0, n) or 0 in differences:
        return f"The seeds disagree about the sign: {below} of {n} differences are below zero."
    chance = 100 * 2.0 ** (1 - n)
    return (
        f"All {n} differences have the same sign. By chance alone that happens in {chance:.3g} % "
        "of repetitions."
    )
