"""What pictures and tables need of a look."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor

from manyheads.looking.card import Card
from manyheads.looking.labels import Labels
from manyheads.looking.proof import Proof
from manyheads.looking.subject import Call, Subject
from manyheads.looking.watching import Site


@runtime_checkable
class Seen(Protocol):
    """The part of `Look` that is shown."""

    @property
    def subject(self) -> Subject:
        """The model."""
        ...

    @property
    def call(self) -> Call:
        """The arguments of the run."""
        ...

    @property
    def sites(self) -> Sequence[Site]:
        """One for each attention call."""
        ...

    @property
    def card(self) -> Card:
        """What the attention is."""
        ...

    @property
    def proof(self) -> Proof:
        """The numbers behind the pictures."""
        ...

    @property
    def tokens(self) -> list[list[str]] | None:
        """The tokens of each sample."""
        ...

    @property
    def found_labels(self) -> Labels | None:
        """Labels, if they were asked for."""
        ...

    def weights(self, layer: int, head: int | None = None) -> Tensor:
        """Attention weights of a layer or head."""
        ...
