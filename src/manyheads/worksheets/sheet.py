"""What a worksheet gives, as frozen data with exact numbers; nothing is computed here."""

from collections.abc import Mapping
from dataclasses import dataclass

from manyheads.core.errors import WorksheetError
from manyheads.core.text import quoted
from manyheads.worksheets.arithmetic import Number
from manyheads.worksheets.numbers import Literal
from manyheads.worksheets.places import listed

Row = tuple[Number, ...]
Matrix = tuple[Row, ...]


@dataclass(frozen=True, kw_only=True)
class Head:
    """The given numbers of one head."""

    label: str
    """What the head is called; "head 1" where the file gives no label."""
    w_q: Matrix
    """(D, d)."""
    w_k: Matrix
    """(D, d)."""
    w_v: Matrix
    """(D, dv)."""
    b_q: Row | None = None
    """(d,), or None for no bias."""
    b_k: Row | None = None
    """(d,), or None for no bias."""
    b_v: Row | None = None
    """(dv,), or None for no bias."""


@dataclass(frozen=True, kw_only=True)
class Sequence:
    """One sentence: its tokens, and where their rows come from."""

    name: str
    """How quantities and commands call it."""
    tokens: tuple[str, ...]
    """T tokens, as they are shown."""
    x: Matrix
    """(T, D): given as X, or the sum of token and position rows."""
    token_keys: tuple[str, ...] | None = None
    """The name of each token's row in `token_embedding`; None where X is given."""
    target: str | None = None
    """The word that the sentence wants next."""
    candidates: tuple[str, ...] = ()
    """Words worth comparing with the target."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A small network after the attention, and the words it chooses among."""

    w_hidden: Matrix
    """(D, J)."""
    b_hidden: Row | None
    """(J,), or None for no bias."""
    w_vocab: Matrix
    """(J, V)."""
    b_vocab: Row | None
    """(V,), or None for no bias."""


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A whole worksheet: T positions, D features, H heads, d and dv the widths of a head."""

    name: str
    """Short name, as in commands."""
    title: str
    """One line for a reader."""
    features: tuple[str, ...]
    """What each of the D columns of x stands for."""
    is_causal: bool
    """Whether a receiver sees only itself and earlier sources."""
    has_residual: bool
    """Whether x is added to the output (`updated`)."""
    scale: Number | None
    """What each q·k is multiplied by; None for 1/sqrt(d)."""
    heads: tuple[Head, ...]
    """H heads."""
    w_o: Matrix
    """(H*dv, D); head h owns the h-th block of dv rows."""
    b_o: Row | None
    """(D,), or None for no bias."""
    sequences: tuple[Sequence, ...]
    """One or more sentences."""
    token_embedding: Mapping[str, Row] | None
    """A row of D numbers for each token, or None where every sequence gives X."""
    position_embedding: Matrix | None
    """A row of D numbers for each position, or None for no positions."""
    vocabulary: tuple[str, ...]
    """V words, in the order of the logits; empty without a prediction."""
    prediction: Prediction | None
    """The network after the attention, or None."""
    text: str
    """The worksheet file that says all this, as JSON text with its numbers as written."""

    @property
    def embed_dim(self) -> int:
        """D, the width of a row of x."""
        return len(self.heads[0].w_q)

    @property
    def num_heads(self) -> int:
        """H."""
        return len(self.heads)

    @property
    def head_dim(self) -> int:
        """Width of a query or key head, d."""
        return len(self.heads[0].w_q[0])

    @property
    def v_head_dim(self) -> int:
        """Width of a value head, dv."""
        return len(self.heads[0].w_v[0])

    @property
    def sequence_names(self) -> tuple[str, ...]:
        """The names of the sentences, in order."""
        return tuple(sequence.name for sequence in self.sequences)

    def sequence(self, name: str | None = None) -> Sequence:
        """Return a sentence by name, or the first.

        Raises:
            WorksheetError: no sentence of that name.
        """
        if name is None:
            return self.sequences[0]
        for sequence in self.sequences:
            if sequence.name == name:
                return sequence
        shown = quoted(Literal(name))
        raise WorksheetError(
            f"sequence ({shown}) is not in {self.name}: use {listed(self.sequence_names)}"
        )
