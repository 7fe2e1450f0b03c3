"""The learning rate of each step."""

from manyheads.study.plan import Protocol


def learning_rate_at(step: int, steps: int, protocol: Protocol, peak: float) -> float:
    """The learning rate of a step.

    Args:
        step: counted from 0.
        steps: of the whole run.
        protocol: with warm-up and decay.
        peak: the highest rate.

    Returns:
        a rate that rises in a line over the warm-up and then stays, or falls in a line that would
        reach 0 one step after the last.
    """
    warmup = protocol.warmup_steps
    if step < warmup:
        return peak * (step + 1) / warmup
    if protocol.decay == "linear":
        return peak * (steps - step) / (steps - warmup)
    return peak
