"""Per-head weights asked for, against `nn.MultiheadAttention`: `python -m benchmarks.weights`.

The weights are made in one buffer and the output from them; `case` checks that it is the output
without weights up to rounding. Without gradients `nn.MultiheadAttention` takes its native path.
"""

from torch import Tensor

from benchmarks.peers import (
    QUICK_SHAPES,
    SHAPES,
    blocked_later_keys,
    case,
    with_backward,
    without_gradients,
)
from benchmarks.timing import Settings, print_setting, report, settings_from_arguments


def main() -> None:
    """Print medians and ratios for every shape, open and causal."""
    settings, is_quick = settings_from_arguments("weights asked for")
    print_setting(settings)
    for shape in QUICK_SHAPES if is_quick else SHAPES:
        for is_causal in (False, True):
            _compare(shape, is_causal, settings)


def _compare(shape: tuple[int, int, int, int], is_causal: bool, settings: Settings) -> None:
    made = case(shape, is_causal=is_causal)
    x, mask = made.x, blocked_later_keys(shape[1]) if is_causal else None

    def ours(x: Tensor) -> Tensor:
        output: Tensor = made.layer(x, is_causal=is_causal, need_weights=True)[0]
        return output

    def theirs(x: Tensor) -> Tensor:
        output, _ = made.torch_layer(
            x, x, x, attn_mask=mask, is_causal=is_causal, average_attn_weights=False
        )
        return output

    calls = {"manyheads, fused": ours, "nn.MultiheadAttention": theirs}
    kind = "causal" if is_causal else "open"
    title = f"\n(B, T, D, H) = {shape}, {kind}, with weights"
    forward = {name: without_gradients(lambda call=call: call(x)) for name, call in calls.items()}
    without = without_gradients(lambda: made.layer(x, is_causal=is_causal))
    report(f"{title}, forward", forward | {"manyheads, without weights": without}, settings)
    both = {name: with_backward(call, x) for name, call in calls.items()}
    report(f"{title}, forward and backward of the output", both, settings)


if __name__ == "__main__":
    main()
