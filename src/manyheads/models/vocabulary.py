"""The vocabulary layer of a training step: by far the largest part of its time."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manyheads.models.numbers import Numbers, Workspace

_ROWS_AT_ONCE = 512  # logits of so many targets are held at a time


def vocabulary_step(
    numbers: Numbers, units: Float[Tensor, "N U"], targets: Int64[Tensor, " N"]
) -> tuple[Float[Tensor, ""], Float[Tensor, "N U"]]:
    """Logits, loss and gradients of the vocabulary layer, some rows at a time.

    Args:
        numbers: with `output.weight` and `output.bias`; of their candidates, where there are some.
        units: (N, U).
        targets: (N,); 0 = none.

    Returns:
        the sum of the losses in nats, and its gradient for the units (N, U).
    """
    weight, bias = numbers.params["output.weight"], numbers.params["output.bias"]
    to_weight, to_bias = numbers.grads["output.weight"], numbers.grads["output.bias"]
    given, some = (targets != 0).to(units.dtype)[:, None], numbers.candidates
    if some is None:
        return _scored(numbers.space, (weight, bias), (to_weight, to_bias), (units, targets, given))
    weight, bias = weight[some.ids], bias[some.ids] - some.log_chance
    backs = (torch.zeros_like(weight), torch.zeros_like(bias))
    found = (units, some.places[targets], given)
    loss, back = _scored(numbers.space, (weight, bias), backs, found)
    to_weight.index_add_(0, some.ids, backs[0])
    to_bias.index_add_(0, some.ids, backs[1])
    return loss, back


def _scored(
    space: Workspace,
    layer: tuple[Tensor, Tensor],
    to_layer: tuple[Tensor, Tensor],
    asked: tuple[Tensor, Tensor, Tensor],
) -> tuple[Tensor, Tensor]:
    """Loss and gradients of a layer (weight, bias) for (units, targets, 1 where there is one)."""
    (weight, bias), (units, targets, given) = layer, asked
    loss = units.new_zeros(())
    back = torch.empty_like(units)
    for low in range(0, len(units), _ROWS_AT_ONCE):
        part = slice(low, low + _ROWS_AT_ONCE)
        rows, wanted = units[part], targets[part, None]
        logits = space.take("logits", (len(rows), len(weight)), weight)
        torch.addmm(bias, rows, weight.T, out=logits)
        chosen, largest = logits.gather(1, wanted), logits.amax(dim=1, keepdim=True)
        wrong = torch.softmax(logits, dim=1, out=logits)  # each row is read before it is written
        log_total = largest - wrong.amax(dim=1, keepdim=True).log()
        loss += ((log_total - chosen) * given[part]).sum()
        if not given.all():
            wrong *= given[part]  # nothing comes back from where there is no target
        wrong.scatter_add_(1, wanted, -given[part])
        torch.mm(wrong, weight, out=back[part])
        to_layer[0].addmm_(wrong.T, rows)
        to_layer[1].add_(wrong.sum(dim=0))
    return loss, back
