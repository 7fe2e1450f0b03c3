"""The fused form against its peers, without weights: `python -m benchmarks.forms`.

Parameter gradients accumulate in all layers.
"""

from collections.abc import Callable

from torch import Tensor

from benchmarks.peers import (
    QUICK_SHAPES,
    SHAPES,
    Case,
    blocked_later_keys,
    case,
    with_backward,
    without_gradients,
)
from benchmarks.timing import Settings, print_setting, report, settings_from_arguments


def main() -> None:
    """Print medians and ratios for every shape, open and causal."""
    settings, is_quick = settings_from_arguments("the fused form against its peers")
    print_setting(settings)
    for shape in QUICK_SHAPES if is_quick else SHAPES:
        for is_causal in (False, True):
            _compare(shape, is_causal, settings)


def _compare(shape: tuple[int, int, int, int], is_causal: bool, settings: Settings) -> None:
    made = case(shape, is_causal=is_causal)
    if made.other is None:
        print("x-transformers is not installed: python -m pip install 'manyheads[bench]'")
    calls = _calls(made, is_causal)
    kind = "causal" if is_causal else "open"
    title = f"\n(B, T, D, H) = {shape}, {kind}"
    forward = {
        name: without_gradients(lambda call=call: call(made.x)) for name, call in calls.items()
    }
    report(f"{title}, forward", forward, settings)
    both = {name: with_backward(call, made.x) for name, call in calls.items()}
    report(f"{title}, forward and backward", both, settings)


def _calls(made: Case, is_causal: bool) -> dict[str, Callable[[Tensor], Tensor]]:
    mask = blocked_later_keys(made.x.shape[1]) if is_causal else None

    def ours(x: Tensor) -> Tensor:
        output = made.layer(x, is_causal=is_causal)
        assert isinstance(output, Tensor)
        return output

    def theirs(x: Tensor) -> Tensor:
        output, _ = made.torch_layer(
            x, x, x, attn_mask=mask, is_causal=is_causal, need_weights=False
        )
        return output

    calls: dict[str, Callable[[Tensor], Tensor]] = {
        "manyheads, fused": ours,
        "nn.MultiheadAttention": theirs,
    }
    if made.other is not None:
        calls["x-transformers, flash"] = made.other
    return calls


if __name__ == "__main__":
    main()
