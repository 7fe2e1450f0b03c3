"""Completes a declaration from the scores that were read: order, window, soft cap, sink, bias."""

import torch
from torch import Tensor

from manyheads.attention.positions import published_slopes
from manyheads.verify.fitting import Scores
from manyheads.verify.reading import Departure
from manyheads.verify.understanding import Understanding


def complete_order(found: Understanding, scores: Scores) -> None:
    """Causality and window, from the keys that queries see."""
    spec, allowed = found.subject.spec, scores.allowed
    if spec.causal is not None or spec.window is not None or bool(allowed.all()):
        return
    if allowed.dim() == 3:
        says = "queries of different samples see different keys without a mask"
        found.departures.append(Departure(step="masked_scores", says=says, line=None))
        return
    if _complete_window(found, allowed):
        return
    if torch.equal(allowed, torch.ones_like(allowed).tril()):
        found.subject = found.subject.with_spec(causal="always", causal_corner="top_left")
        found.words["spec.order"] = "always causal, aligned to the first key (top left)"
        return
    _depart_from_order(found, allowed)


def _distances(queries: int, keys: int) -> Tensor:
    """How many positions each key is before each query, the last of both aligned."""
    return (torch.arange(queries) + keys - queries)[:, None] - torch.arange(keys)[None]


def _complete_window(found: Understanding, allowed: Tensor) -> bool:
    """Fill in causality and window if queries see all keys in a range; whether they do."""
    queries, keys = allowed.shape
    distance = _distances(queries, keys)
    back, ahead = int(distance[allowed].max()), -int(distance[allowed].min())
    if not bool((allowed == (distance <= back) & (distance >= -ahead)).all()):
        return False
    back, ahead = _as_asked(found, back, ahead)
    is_causal = ahead == 0
    window = back + 1 if back + 1 < keys else None
    if not is_causal and (window is None or ahead != back):
        return False
    found.subject = found.subject.with_spec(causal="always" if is_causal else None, window=window)
    if not is_causal:
        found.subject = found.subject.with_extras(ahead=ahead)
    words = ["always causal"] if is_causal else []
    if window is not None:
        side = "" if is_causal else f", and {ahead} later ones"
        words.append(f"window of {window} keys, its own included{side}")
    found.words["spec.order"] = ", ".join(words)
    return True


def _as_asked(found: Understanding, back: int, ahead: int) -> tuple[int, int]:
    """Numbers of earlier and later keys; those of the window asked for, if that is another."""
    asked = found.subject.extras.asked_window
    if asked is None or (back in (asked - 1, asked) and ahead in (0, back)):
        return back, ahead
    says = f"with a window of {asked} a query sees {back} earlier and {ahead} later keys"
    found.departures.append(Departure(step="masked_scores", says=says, line=None))
    return asked, asked if ahead else 0


def _depart_from_order(found: Understanding, allowed: Tensor) -> None:
    """Keys are hidden in no known order; it is taken to be causal if mainly later ones are."""
    queries, keys = allowed.shape
    distance = _distances(queries, keys)
    is_past = float(allowed[distance > 0].double().mean()) > 0.5
    is_future = float(allowed[distance < 0].double().mean()) > 0.5 if keys > 1 else False
    if is_past and not is_future:
        found.subject = found.subject.with_spec(causal="always")
        found.words["spec.order"] = "always causal"
    count = f"{int((~allowed).sum())} of {allowed.numel()} pairs"
    says = f"{count} are hidden in a pattern that is no order"
    found.departures.append(Departure(step="masked_scores", says=says, line=None))


def complete_extras(found: Understanding, scores: Scores) -> None:
    """Soft cap, sink and bias."""
    if scores.softcap is not None and found.subject.spec.softcap is None:
        found.subject = found.subject.with_extras(softcap=scores.softcap)
        found.words["spec.softcap"] = scores.softcap
    if scores.sinks is not None:
        found.subject = found.subject.with_extras(sinks=scores.sinks)
        is_zero = float(scores.sinks.abs().max()) < 1e-9
        words = (
            "one is added to the denominator of the softmax"
            if is_zero
            else "one score per head without a value"
        )
        if found.subject.spec.sinks is None:
            found.words["spec.sinks"] = words
    if scores.bias is not None:
        _bias(found, scores.bias)


def _bias(found: Understanding, bias: Tensor) -> None:
    """What is added to scores whatever the input is: linear, learned, or a mistake."""
    spec = found.subject.spec
    if spec.position is not None:
        return
    heads, queries, keys = bias.shape
    distance = _distances(queries, keys)
    slopes = torch.tensor(published_slopes(heads)).double()[:, None, None]
    linear = -slopes * distance.abs()
    seen = found.reading.scores.allowed if found.reading and found.reading.scores else None
    keep = torch.ones(queries, keys, dtype=torch.bool) if seen is None else seen
    gap = (bias - (linear - linear.gather(-1, _first_key(keep, linear)))) * keep
    if float(gap.abs().max()) < 1e-7 * float(bias.abs().max()):
        found.subject = found.subject.with_spec(position="alibi")
        found.words["spec.position"] = "linear bias with the published slopes"
        return
    levels = bias.sub(bias.amax(-1, keepdim=True))
    if bool((levels < -4).any()) and float(levels[levels > -4].abs().max()) < 1e-6:
        says = f"hidden keys get a finite score, {float(levels.min()):.4g} below the others"
        found.departures.append(Departure(step="masked_scores", says=says, line=None))
        return
    if queries != keys:
        found.departures.append(
            Departure(
                step="scores", says="a bias is added to the scores", line=None, is_foreign=True
            )
        )
        return
    if spec.scale is None and abs((found.scale or 0.0) - 1.0) < 1e-6:
        found.subject = found.subject.with_spec(scale=1.0)
        found.words["spec.scale"] = "1, as usual beside a table of biases (T5)"
    found.subject = found.subject.with_extras(bias=bias)
    if spec.bias is None:
        found.words["spec.bias"] = "a table by position is added to the scores"


def _first_key(keep: Tensor, like: Tensor) -> Tensor:
    return keep.to(torch.int64).argmax(-1)[None, :, None].expand(*like.shape[:-1], 1)
