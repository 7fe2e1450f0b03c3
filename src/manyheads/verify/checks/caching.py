"""Caches: does a second, shorter sequence start afresh?"""

from manyheads.verify.context import Context, relative_gap
from manyheads.verify.findings import found


def check_second_sequence(ctx: Context) -> None:
    """After a long sequence, a second and shorter one must give what it gives on a fresh module."""
    if ctx.subject.call.form not in ("cache", "static_cache"):
        return
    callee = ctx.callee.fresh()
    first = ctx.maker.plain(2, 9, seed=110, chunks=(6, 1, 1, 1))
    second = ctx.maker.plain(2, 4, seed=111, chunks=(2, 1, 1))
    callee.call(first)
    again, alone = callee.call(second), ctx.callee.fresh().call(second)
    if again.output is None or alone.output is None:
        ctx.skipped("second sequence", f"the call raises {again.raised or alone.raised}")
        return
    gap = relative_gap(again.output, alone.output)
    if gap > ctx.tolerance:
        says = (
            f"a second, shorter sequence differs by {gap:.3g} of the largest output from the same "
            "one on a fresh module"
        )
        ctx.failed("second sequence", found("state-mutated", "second sequence", says, gap=gap), gap)
        return
    ctx.passed("second sequence", "a second, shorter sequence starts afresh", gap)
