"""The loss of each sequence, and the data it is measured on."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from manyheads.core.errors import LookError
from manyheads.looking.inputs import call_from
from manyheads.looking.subject import Call, Subject, logits_of
from manyheads.looking.watching import Site

Loss = Callable[[Any, Call], Tensor]
"""Takes a model's output and the arguments of the pass, and returns one loss per sequence, (B,)."""
IGNORED = -100
"""A label that has no loss, as in transformers."""


def calls_from(
    subject: Subject,
    data: Any,  # noqa: ANN401 - ids, texts, a mapping or a list of mappings
    tokenizer: Any,  # noqa: ANN401 - of transformers, or our own
    batch_size: int,
) -> list[Call]:
    """Divide data into forward passes.

    Args:
        subject: the model.
        data: token ids (N, T), a mapping of tensors (N, ...), a list of texts, or a list of
            mappings, which are not divided.
        tokenizer: turns texts into ids.
        batch_size: sequences at a time.

    Raises:
        LookError: there is no data, or it has another form.
    """
    if isinstance(data, Tensor):
        parts: list[Any] = list(data.split(batch_size))
    elif isinstance(data, Mapping):
        parts = _split(data, batch_size)
    elif isinstance(data, Sequence) and all(isinstance(one, str) for one in data):
        texts = [data] if isinstance(data, str) else list(data)
        return [call_from(subject, text, None, tokenizer)[0] for text in texts]
    elif isinstance(data, Sequence) and all(isinstance(one, Mapping) for one in data):
        parts = list(data)
    else:
        raise LookError(
            f"data ({type(data).__name__}) must be token ids (N, T), a mapping of tensors or a "
            "list of texts: pass one of these"
        )
    if not parts or (isinstance(data, Tensor) and data.ndim != 2):
        raise LookError("data must have at least one sequence: pass token ids (N, T)")
    if subject.predicts_last:
        parts = [_window(part) for part in parts]
    return [call_from(subject, None, part, tokenizer)[0] for part in parts]


def _window(ids: Any) -> dict[str, Tensor]:  # noqa: ANN401 - refused unless it is ids
    """All tokens but the last as a window, and the last as what it predicts."""
    if not isinstance(ids, Tensor) or ids.shape[1] < 2:
        raise LookError("data must be token ids (N, T) with T at least 2 for this model: pass them")
    return {"tokens": ids[:, :-1], "labels": ids[:, -1:]}


def _split(data: Mapping[str, Any], size: int) -> list[dict[str, Any]]:
    tensors = [value for value in data.values() if isinstance(value, Tensor)]
    count = len(tensors[0]) if tensors else 0
    return [
        {k: v[i : i + size] if isinstance(v, Tensor) else v for k, v in data.items()}
        for i in range(0, count, size)
    ]


class ModelLoss:
    """The usual loss of a language model: the mean over predicted tokens, nats.

    Labels among the inputs are predicted; a causal model without labels predicts the next token.
    """

    def __init__(self, is_causal: bool) -> None:
        self.is_causal = is_causal

    def __call__(self, output: Any, call: Call) -> Float[Tensor, " B"]:  # noqa: ANN401 - an output
        """The loss of each sequence.

        Raises:
            LookError: the model is not causal and there are no labels.
        """
        logits = logits_of(output).float()
        labels = call.kwargs.get("labels")
        if labels is None and not self.is_causal:
            raise LookError(
                "data has no labels, and the model is not causal: pass labels with the ids, or "
                "loss=, which gives one loss per sequence"
            )
        labels = self._labels(call) if labels is None else labels
        if self.is_causal and "decoder_input_ids" not in call.kwargs:
            logits, labels = logits[:, :-1], labels[:, 1:]
        losses = F.cross_entropy(
            logits.transpose(1, 2), labels, reduction="none", ignore_index=IGNORED
        )
        counted = labels != IGNORED
        if not bool(counted.any(dim=1).all()):
            raise LookError("data has a sequence without a token to predict: leave it out")
        return losses.double().sum(dim=1) / counted.sum(dim=1)

    def _labels(self, call: Call) -> Tensor:
        ids, mask = call.ids, call.kwargs.get("attention_mask")
        if ids is None:
            raise LookError("data has no token ids and no labels: pass loss=")
        return ids if mask is None else ids.masked_fill(mask == 0, IGNORED)


def is_causal(sites: Sequence[Site]) -> bool:
    """Whether no self-attention looks at a later key."""
    square = [s.weights for s in sites if s.weights is not None and s.shape[1] == s.shape[2]]
    return all(not bool(w.triu(diagonal=1).any()) for w in square) and bool(square)


def loss_for(subject: Subject, call: Call) -> Loss:
    """The usual loss for a model, after one run shows whether it is causal."""
    if subject.predicts_last:
        return ModelLoss(is_causal=False)
    few = Call(
        args=tuple(v[:1] if isinstance(v, Tensor) else v for v in call.args),
        kwargs={
            k: v[:1] if isinstance(v, Tensor) and v.ndim else v for k, v in call.kwargs.items()
        },
    )
    _, watch = subject.watch(few)
    if not watch.sites:
        raise LookError("model has no attention that can be read: no head can be ablated")
    return ModelLoss(is_causal(watch.sites))


def losses_of(
    subject: Subject,
    calls: Sequence[Call],
    loss: Loss,
    **options: Any,  # noqa: ANN401 - of Watch
) -> Float[Tensor, " N"]:
    """The loss of every sequence, nats.

    Args:
        subject: the model.
        calls: the data.
        loss: one loss per sequence.
        options: of `Watch`, such as an edit.

    Raises:
        LookError: a loss is not finite.
    """
    found = []
    for call in calls:
        output, _ = subject.watch(call, keep_weights=False, **options)
        found.append(loss(output, call).double().cpu())
    losses = torch.cat(found)
    if not bool(losses.isfinite().all()):
        raise LookError("a loss is not finite: check the data and the type of the model")
    return losses
