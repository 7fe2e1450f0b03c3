"""`look`: one run of a model, with the weights, contributions and proof of every head."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.checkpoints.files import digest_from_tensors
from manyheads.core.errors import LookError
from manyheads.looking.card import Card, card_from
from manyheads.looking.inputs import call_from
from manyheads.looking.opening import open_model
from manyheads.looking.proof import (
    NotAdditive,
    Proof,
    contributions_of,
    proof_from,
)
from manyheads.looking.subject import Call, Subject, largest_gap
from manyheads.looking.watching import Site

if TYPE_CHECKING:
    from manyheads.looking.labels import HeadLabel, Labels
    from manyheads.looking.logits import LogitParts

FORMAT = "manyheads-look-1"
Head = tuple[int, int]
"""Layer and head, from 0."""


def look(
    model: nn.Module | str | Path,
    text: str | Sequence[str] | None = None,
    *,
    tokenizer: Any = None,  # noqa: ANN401 - of transformers, or our own
    inputs: Any = None,  # noqa: ANN401 - ids, a mapping or a tuple
    batch: Any = None,  # noqa: ANN401 - as inputs
) -> "Look":
    """Look at what every head of a model does with an input, and prove what is shown.

    The model stays exactly as it was: a private copy that shares its parameters is run.

    Args:
        model: any module with attention that can be read, or the path of a folder with its
            config.json and safetensors, or the name of a model that comes with the package.
        text: one text or several, for a model of language.
        tokenizer: turns text into ids; that of the folder unless given.
        inputs: in place of text: token ids (B, T), a mapping of named arguments of the forward
            pass, or a tuple of its arguments.
        batch: another name of `inputs`, for a batch of a data loader.

    Returns:
        a `Look`; print it, or let a notebook show it.

    Raises:
        LookError: the model cannot be opened, or no attention in it can be read.
    """
    if isinstance(model, str | Path):
        opened = open_model(model)
        model, tokenizer = opened.model, tokenizer or opened.tokenizer
    if inputs is not None and batch is not None:
        raise LookError("inputs and batch: give one of them")
    subject = Subject(model)
    call, tokens = call_from(subject, text, inputs if batch is None else batch, tokenizer)
    return Look.of(subject, call, tokens=tokens, tokenizer=tokenizer)


@dataclass(frozen=True)
class Look:
    """What the heads of a model do with one input. Layers and heads count from 0."""

    subject: Subject
    """The model and its private copy."""
    call: Call
    """The arguments of the run."""
    sites: tuple[Site, ...]
    """One for each attention call, in their order."""
    card: Card
    """What the model's attention is."""
    proof: Proof
    """The numbers behind the pictures."""
    tokens: list[list[str]] | None = None
    """The tokens of each sample, where the input is a text."""
    tokenizer: Any = None
    """What turned the text into ids."""
    found_labels: "Labels | None" = None
    """Labels, if they were asked for."""
    ablations: Mapping[Head, Any] | None = None
    """Ablations of single heads, if they were asked for."""
    found_logits: "LogitParts | None" = None
    """The parts of a logit, if they were asked for."""
    seeds: tuple[int, ...] = ()
    """Seeds of the labels and ablations."""
    seconds: float = 0.0
    """Time of the run, its references and its proof, seconds."""

    @classmethod
    def of(
        cls,
        subject: Subject,
        call: Call,
        *,
        tokens: list[list[str]] | None = None,
        tokenizer: Any = None,  # noqa: ANN401 - as in `look`
        found_gap: bool = True,
    ) -> "Look":
        """Run a model and prove what was seen.

        Args:
            subject: the model.
            call: the arguments of its forward pass.
            tokens: the tokens of each sample.
            tokenizer: what made them.
            found_gap: compare the output with the model as handed over too, which costs one more
                forward pass where it is not eager.

        Raises:
            LookError: no attention could be read, or the output is not the model's.
        """
        begun = time.perf_counter()
        output, watch = subject.watch(call, follow=True)
        if not watch.sites:
            raise LookError(
                f"model ({type(subject.model).__name__}) has no attention that can be read: "
                "neither the interface of transformers, nor a softmax followed by a product with "
                "values, nor torch's fused attention was called"
            )
        gap = largest_gap(output, subject.reference(call, is_eager=True))
        gaps = (gap, gap if subject.is_eager else None)
        if found_gap and not subject.is_eager:
            gaps = (gap, largest_gap(output, subject.reference(call, is_eager=False)))
        first = tokens[0][0] if tokens and tokens[0] else None
        return cls(
            subject=subject,
            call=call,
            sites=tuple(watch.sites),
            card=card_from(subject, watch.sites, gaps=gaps, first_token=first),
            proof=proof_from(watch.sites, gaps),
            tokens=tokens,
            tokenizer=tokenizer,
            seconds=time.perf_counter() - begun,
        )

    def weights(self, layer: int, head: int | None = None) -> Tensor:
        """Attention weights of a layer, (B, H, T, S), or of one head, (B, T, S).

        Raises:
            LookError: there is no such layer or head.
        """
        weights = self._site(layer, head).weights
        assert weights is not None  # `of` keeps them
        return weights if head is None else weights[:, head]

    def contributions(self, layer: int) -> Float[Tensor, "B T H D"] | NotAdditive:
        """What each head of a layer adds to the layer's output, (B, T, H, D).

        The sum over heads plus the bias is the output. Where the intervention does not prove that,
        the result is `NotAdditive` with the reason.

        Raises:
            LookError: there is no such layer.
        """
        site = self._site(layer)
        if layer in self.proof.refused:
            return NotAdditive(self.proof.refused[layer])
        assert site.projection is not None  # else it is refused
        return contributions_of(site.projection, site.num_heads)

    def stream_contributions(self, layer: int) -> Float[Tensor, "B T H D"] | NotAdditive:
        """What each head of a layer adds to the residual stream, (B, T, H, D).

        Where a norm stands between the layer and the stream, its scale is frozen, and
        `stream_error` says how much that differs from silencing the head.

        Raises:
            LookError: there is no such layer.
        """
        found = self.contributions(layer)
        if isinstance(found, NotAdditive):
            return found
        projection = self._site(layer).projection
        if projection is None or projection.reach is None:
            return NotAdditive("no sum of the layer's output with a residual stream was seen")
        reach = projection.reach
        parts = [reach.jet(reach.arranged(found[:, :, h]), False) for h in range(found.shape[2])]
        if parts[0].shape != found[:, :, 0].shape:
            return NotAdditive("the residual stream has other axes than the layer's output")
        return torch.stack(parts, dim=2)

    def stream_error(self, layer: int) -> float | None:
        """Loss of the stream by silencing heads against `stream_contributions`, a fraction."""
        projection = self._site(layer).projection
        return projection.reach.error if projection and projection.reach else None

    def logits(
        self,
        token: int | str,
        against: int | str | None = None,
        *,
        position: int = -1,
        sample: int = 0,
    ) -> "LogitParts":
        """The parts of one logit, or of the difference of two, by head and by what else adds to it.

        Args:
            token: id or text of a token.
            against: token whose logit is subtracted.
            position: position whose prediction is divided.
            sample: sample of the batch.

        Raises:
            LookError: the parts cannot be proven for this model; the message says why.
        """
        from manyheads.looking.logits import logit_parts

        ids = [self._token_id(one) for one in (token, against) if one is not None]
        return logit_parts(self.subject, self.call, ids, position=position, sample=sample)

    def labels(self, **options: Any) -> "Labels":  # noqa: ANN401 - of `label_heads`
        """Label the heads of the model; arguments as in `label_heads`."""
        from manyheads.looking.labels import label_heads

        return label_heads(
            self.subject.model, tokenizer=self.tokenizer, proven=self.sites, **options
        )

    def labelled(self, **options: Any) -> "Look":  # noqa: ANN401 - of `label_heads`
        """The same look with labels, which JSON and pictures then show."""
        found = self.labels(**options)
        return replace(self, found_labels=found, seeds=(int(options.get("seed", 0)),))

    @cached_property
    def sha256(self) -> str:
        """Hash of the model's parameters and buffers, in hexadecimal digits."""
        state = self.subject.model.state_dict()
        tensors = {
            name: value.detach().cpu().contiguous()
            for name, value in state.items()
            if isinstance(value, Tensor)
        }
        return digest_from_tensors(tensors, self.card.type)

    def to_json(self) -> str:
        """The look as one JSON document of the form "manyheads-look-1"."""
        from manyheads.looking.labels import best_labels

        best = best_labels(self.found_labels or ())
        heads = [
            self._head_entry((site.index, h), best)
            for site in self.sites
            for h in range(site.num_heads)
        ]
        return json.dumps(
            {
                "format": FORMAT,
                "model": {
                    "type": self.card.type,
                    "sha256": self.sha256,
                    "layers": self.card.layers,
                    "heads": _one_or_all(self.card.heads),
                    "groups": _one_or_all(self.card.groups),
                    "dtype": self.card.dtype,
                    "read_by": _one_or_all(self.card.read_by),
                },
                "card": self.card.to_dict(),
                "proof": self.proof.to_dict(),
                "heads": heads,
                "seeds": list(self.seeds),
                "tokens": self.tokens,
                "seconds": self.seconds,
            }
        )

    def _head_entry(self, head: Head, best: Mapping[Head, "HeadLabel"]) -> dict[str, Any]:
        label, ablation = best.get(head), (self.ablations or {}).get(head)
        return {
            "layer": head[0],
            "head": head[1],
            "label": label.behaviour if label else None,
            "score": label.score if label else None,
            "null": label.null_dict() if label else None,
            "ablation": ablation.to_dict() if ablation else None,
            "logit": self.found_logits.heads.get(head) if self.found_logits else None,
        }

    def __str__(self) -> str:
        from manyheads.looking.terminal import text_from_look

        return text_from_look(self)

    def _repr_html_(self) -> str:
        from manyheads.looking.pictures import notebook_html

        return notebook_html(self)

    def to_html(self) -> str:
        """One HTML file that works without a network: pictures, tables and the proof."""
        from manyheads.looking.pictures import file_html

        return file_html(self)

    def _site(self, layer: int, head: int | None = None) -> Site:
        if not 0 <= layer < len(self.sites):
            raise LookError(f"layer ({layer}) must be from 0 to {len(self.sites) - 1}: use one")
        site = self.sites[layer]
        if head is not None and not 0 <= head < site.num_heads:
            raise LookError(f"head ({head}) must be from 0 to {site.num_heads - 1}: use one")
        return site

    def _token_id(self, token: int | str) -> int:
        if isinstance(token, int):
            return token
        if self.tokenizer is None:
            raise LookError(f"token ({token!r}) needs a tokenizer: pass its id")
        encode = getattr(self.tokenizer, "encode", None)
        if encode is None:
            raise LookError(f"token ({token!r}) needs a tokenizer with encode: pass its id")
        try:
            ids = encode(token, add_special_tokens=False)
        except TypeError:  # our own tokeniser adds none
            ids = encode(token)
        if len(ids) != 1:
            raise LookError(f"token ({token!r}) is {len(ids)} tokens: pass one, or its id")
        return int(ids[0])


def _one_or_all(values: Sequence[Any]) -> Any:  # noqa: ANN401 - a value or a list of values
    """The value that all layers share, else the list of all."""
    return values[0] if len(set(values)) == 1 else list(values)
