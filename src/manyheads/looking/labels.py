"""Labels of heads: a score, its null over all heads, and no label at or below that null.

A null's statistic is the largest score over all heads, because among 270 heads the best of them is
high by chance. With `draws`, the null is the model with the rows and columns of every weight matrix
permuted. Without, it is the same score at control sources of the same run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.core.errors import LookError
from manyheads.looking.behaviours import BEHAVIOURS, Measured, Probe, measured, probe_for
from manyheads.looking.copying import private_copy
from manyheads.looking.copying_heads import copying_scores
from manyheads.looking.inputs import call_from, without_logits
from manyheads.looking.subject import Subject
from manyheads.looking.watching import Site

MARGIN = 0.1
"""A label needs a score this far above the null's greatest, so that it is an effect and not only
an exception."""
DRAWS = 20
Scores = dict[str, dict[int, Measured]]
"""For each behaviour, what was measured at each layer."""


@dataclass(frozen=True, kw_only=True)
class HeadLabel:
    """A behaviour of a head that chance does not explain."""

    layer: int
    head: int
    behaviour: str
    """A name of `BEHAVIOURS`."""
    score: float
    """Mean weight, or fraction of tokens for "copying", from 0 to 1."""
    null_greatest: float
    """The greatest score of any head in any draw of the null."""
    p: float
    """(1 + draws whose greatest head reaches the score) / (1 + draws)."""
    draws: int
    """Draws of the null; p cannot be less than 1 / (1 + draws)."""
    null_kind: str = "permuted weights"
    """"permuted weights", or "control sources"."""

    def null_dict(self) -> dict[str, Any]:
        """The null as JSON holds it."""
        return {
            "kind": self.null_kind,
            "greatest": self.null_greatest,
            "draws": self.draws,
            "p": self.p,
        }

    def __str__(self) -> str:
        return (
            f"{self.layer}.{self.head} {self.behaviour}: {self.score:.2f} (greatest of the null "
            f"{self.null_greatest:.2f}, p {self.p:.3f}, {self.draws} draws)"
        )


@dataclass(frozen=True, kw_only=True)
class Tested:
    """One behaviour over all heads."""

    behaviour: str
    greatest: float
    """The greatest score of a head."""
    head: tuple[int, int]
    """That head."""
    null_greatest: float
    draws: int
    num_labelled: int
    """Heads with this label; 0 says that no head does this more than chance."""


@dataclass
class Labels(list[HeadLabel]):
    """The labels of a model, and what was tested."""

    tested: tuple[Tested, ...] = field(default=())

    def __init__(self, labels: Sequence[HeadLabel] = (), tested: Sequence[Tested] = ()) -> None:
        super().__init__(labels)
        self.tested = tuple(tested)


def label_heads(
    model: nn.Module,
    *,
    tokenizer: Any = None,  # noqa: ANN401 - of transformers, or our own
    behaviours: Sequence[str] | None = None,
    draws: int = DRAWS,
    half: int = 24,
    samples: int = 4,
    seed: int = 0,
    proven: Sequence[Site] = (),
) -> Labels:
    """Label the heads of a language model.

    Args:
        model: a model that takes token ids.
        tokenizer: names the first token and the separator; without it there are none.
        behaviours: names of `BEHAVIOURS`; all unless given.
        draws: models with permuted weights in the null; 0 takes control sources of the same run.
        half: random tokens in each half of a sequence.
        samples: sequences of each kind.
        seed: random seed of sequences and permutations.
        proven: attention calls of an earlier look at the same model, whose proofs then hold here.

    Returns:
        a list of labels, the strongest of each behaviour first; its `tested` has every behaviour.

    Raises:
        LookError: an unknown behaviour, or a model that does not take token ids.
    """
    wanted = _known(behaviours)
    generator = torch.Generator().manual_seed(seed)
    probe = probe_for(
        vocabulary_of(model), tokenizer=tokenizer, half=half, samples=samples, generator=generator
    )
    scores = scores_of(model, probe, wanted, proven)
    if not scores:
        raise LookError(
            "model has no self-attention with a query at every token: it cannot be labelled"
        )
    nulls = [scores_of(_permuted(model, generator), probe, wanted) for _ in range(draws)]
    labels: list[HeadLabel] = []
    tested: list[Tested] = []
    for behaviour in (name for name in wanted if name in scores):
        null = _greatest_of_null(behaviour, scores[behaviour], nulls)
        if null is None:
            continue
        mine = _labels_of(behaviour, scores[behaviour], null, bool(draws))
        labels += mine
        tested.append(_tested(behaviour, scores[behaviour], null, len(mine)))
    return Labels(labels, tested)


def best_labels(labels: Sequence[HeadLabel]) -> dict[tuple[int, int], HeadLabel]:
    """The label of each head whose score is furthest above its null."""
    best: dict[tuple[int, int], HeadLabel] = {}
    for label in labels:
        key = (label.layer, label.head)
        if key not in best or _excess(label) > _excess(best[key]):
            best[key] = label
    return best


def _excess(label: HeadLabel) -> float:
    return label.score - label.null_greatest


def _known(behaviours: Sequence[str] | None) -> tuple[str, ...]:
    for name in behaviours or ():
        if name not in BEHAVIOURS:
            raise LookError(f"behaviour ({name!r}) is unknown: use {', '.join(BEHAVIOURS)}")
    return tuple(behaviours or BEHAVIOURS)


def vocabulary_of(model: nn.Module) -> int:
    """The number of token ids of a language model.

    Raises:
        LookError: it takes no token ids.
    """
    config = getattr(model, "config", None)
    text = getattr(config, "get_text_config", lambda: config)()
    size = getattr(text, "vocab_size", None)
    if not isinstance(size, int):
        raise LookError("model has no vocabulary: labels need a model that takes token ids")
    return size


def scores_of(
    model: nn.Module, probe: Probe, wanted: Sequence[str], proven: Sequence[Site] = ()
) -> Scores:
    """Every wanted behaviour at every layer of self-attention."""
    subject = Subject(model)
    call, _ = call_from(subject, None, probe.ids, None)
    found: Scores = {}

    def measure(site: Site) -> None:
        weights, site.weights = site.weights, None
        if weights is None or not _is_over_tokens(weights, probe):
            return
        for name, one in measured(probe, weights).items():
            if name in wanted:
                found.setdefault(name, {})[site.index] = one

    copies = "copying" in wanted
    _, watch = subject.watch(
        without_logits(subject, call),
        on_site=measure,
        follow=copies and not proven,
        keep_values=copies,
    )
    if copies:
        copying = copying_scores(subject, watch.sites, probe, proven or watch.sites)
        if copying:
            found["copying"] = copying
    return found


def _is_over_tokens(weights: Tensor, probe: Probe) -> bool:
    B, T = probe.ids.shape
    return weights.shape[0] == B and weights.shape[2:] == (T, T)


def _permuted(model: nn.Module, generator: torch.Generator) -> nn.Module:
    """A copy with the rows and columns of every matrix, and every vector, permuted.

    Embeddings stay: permuting their rows would only rename tokens.
    """
    twin = private_copy(model)
    kept = {id(p) for p in _embeddings(model)}
    new: dict[int, nn.Parameter] = {}
    for part in twin.modules():
        for name, parameter in part._parameters.items():
            if parameter is None or id(parameter) in kept:
                continue
            if id(parameter) not in new:
                new[id(parameter)] = nn.Parameter(_shuffled(parameter, generator), False)
            part._parameters[name] = new[id(parameter)]
    return twin


def _embeddings(model: nn.Module) -> list[Tensor]:
    parts = [
        getattr(model, name)() if hasattr(model, name) else None
        for name in ("get_input_embeddings", "get_output_embeddings")
    ]
    weights = [getattr(part, "weight", None) for part in parts]
    weights += [part.weight for part in model.modules() if isinstance(part, nn.Embedding)]
    return [weight for weight in weights if weight is not None]


def _shuffled(tensor: Tensor, generator: torch.Generator) -> Tensor:
    result = tensor.detach()
    for axis in range(min(result.ndim, 2)):
        order = torch.randperm(result.shape[axis], generator=generator)
        result = result.index_select(axis, order.to(result.device))
    return result


def _greatest_of_null(
    behaviour: str, scores: Mapping[int, Measured], nulls: Sequence[Scores]
) -> list[float] | None:
    """The greatest score over all heads in each draw, None if there is no draw."""
    if nulls:
        return [max(float(one.score.max()) for one in draw[behaviour].values()) for draw in nulls]
    controls = [one.controls.amax(dim=1) for one in scores.values() if len(one.controls)]
    return torch.stack(controls).amax(dim=0).tolist() if controls else None


def _labels_of(
    behaviour: str, scores: Mapping[int, Measured], null: Sequence[float], is_permuted: bool
) -> list[HeadLabel]:
    found = []
    for layer, one in scores.items():
        for head, score in enumerate(one.score.tolist()):
            if score >= max(null) + MARGIN:
                reached = sum(value >= score for value in null)
                found.append(
                    HeadLabel(
                        layer=layer,
                        head=head,
                        behaviour=behaviour,
                        score=score,
                        null_greatest=max(null),
                        p=(1 + reached) / (1 + len(null)),
                        draws=len(null),
                        null_kind="permuted weights" if is_permuted else "control sources",
                    )
                )
    return sorted(found, key=lambda label: -label.score)


def _tested(
    behaviour: str, scores: Mapping[int, Measured], null: Sequence[float], num_labelled: int
) -> Tested:
    greatest, layer, head = max(
        (float(one.score.max()), layer, int(one.score.argmax())) for layer, one in scores.items()
    )
    return Tested(
        behaviour=behaviour,
        greatest=greatest,
        head=(layer, head),
        null_greatest=max(null),
        draws=len(null),
        num_labelled=num_labelled,
    )
