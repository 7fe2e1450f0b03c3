"""The worksheet form: one definition for reading a file, its errors and its JSON Schema.

`Sheet.from_document` checks a JSON document in every place and makes frozen data with exact
numbers. Nothing is computed here. Axes: D features, d and v the widths of a head's queries and
values, C joined width, T tokens, J hidden units, V words.
"""

import json
from collections.abc import Mapping
from collections.abc import Sequence as Entries
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    StrictBool,
    ValidationError,
    field_validator,
    model_validator,
)

from manyheads.core.errors import WorksheetError
from manyheads.core.text import quoted
from manyheads.worksheets.arithmetic import Number, add, is_positive
from manyheads.worksheets.files import text_from_document
from manyheads.worksheets.form import (
    FIRST_ERROR,
    Axes,
    ExactNumber,
    Name,
    Optional,
    Part,
    PlainSchema,
    RefusalError,
    Text,
    message_from,
)
from manyheads.worksheets.numbers import Literal
from manyheads.worksheets.places import joined, listed

_S = TypeVar("_S", bound="Sheet")
Row = tuple[Number, ...]
Matrix = tuple[Row, ...]

MAX_SEQUENCES, MAX_TOKENS, MAX_HEADS = 8, 32, 8
"""Largest worksheet that a person can follow: sequences, tokens in each, heads."""
MAX_WIDTH, MAX_JOINED, MAX_HIDDEN, MAX_WORDS = 32, 64, 64, 128
"""Features or width of a head, joined width of all heads, hidden units, words."""


_Row = Annotated[tuple[ExactNumber, ...], FIRST_ERROR, Field(min_length=1, max_length=MAX_WIDTH)]
_HiddenRow = Annotated[
    tuple[ExactNumber, ...], FIRST_ERROR, Field(min_length=1, max_length=MAX_HIDDEN)
]
_WordRow = Annotated[
    tuple[ExactNumber, ...], FIRST_ERROR, Field(min_length=1, max_length=MAX_WORDS)
]
_Matrix = Annotated[tuple[_Row, ...], FIRST_ERROR, Field(min_length=1, max_length=MAX_WIDTH)]
_Words = Annotated[tuple[Text, ...], FIRST_ERROR, Field(max_length=MAX_WORDS)]


def _checked_scale(number: Number) -> Number:
    if not is_positive(number):
        raise RefusalError("must be positive: leave it out for 1/sqrt(head width)")
    return number


class Head(Part):
    """The given numbers of one head."""

    label: Text = ""
    """Name of the head (default: "head 1" and so on)."""
    w_q: Annotated[_Matrix, Axes(("D", "d"))] = Field(alias="W_Q")
    """(D, d)."""
    w_k: Annotated[_Matrix, Axes(("D", "d"))] = Field(alias="W_K")
    """(D, d)."""
    w_v: Annotated[_Matrix, Axes(("D", "v"))] = Field(alias="W_V")
    """(D, v)."""
    b_q: Annotated[Optional[_Row], Axes(("d",))] = Field(default=None, alias="b_Q")
    """(d,); no bias unless given."""
    b_k: Annotated[Optional[_Row], Axes(("d",))] = Field(default=None, alias="b_K")
    """(d,); no bias unless given."""
    b_v: Annotated[Optional[_Row], Axes(("v",))] = Field(default=None, alias="b_V")
    """(v,); no bias unless given."""


class GivenSequence(Part):
    """One sequence of tokens as given in the file."""

    tokens: Annotated[tuple[Text, ...], FIRST_ERROR, Field(min_length=1, max_length=MAX_TOKENS)]
    """T tokens, as they are shown."""
    x: Annotated[Optional[_Matrix], Axes(("T", "D"))] = Field(default=None, alias="X")
    """(T, D); unless given, the sum of token and position rows."""
    target: Optional[Text] = None
    """The expected next word, from the vocabulary."""
    candidates: _Words = ()
    """Words to compare with the target, from the vocabulary."""


class Sequence(GivenSequence):
    """One sequence with its name and its rows of x."""

    name: str
    """Name in quantities and commands."""
    x: Matrix
    """(T, D): given as X, or the sum of token and position rows."""
    token_keys: tuple[str, ...] | None
    """The name of each token's row in `token_embedding`; None where X is given."""


class Prediction(Part):
    """A small network after the attention, which gives a probability to each word.

    hidden = max(0, row W_hidden + b_hidden) and logits = hidden W_vocab + b_vocab, where row is
    x + output with a residual, and output without one.
    """

    w_hidden: Annotated[
        Annotated[tuple[_HiddenRow, ...], FIRST_ERROR, Field(min_length=1, max_length=MAX_WIDTH)],
        Axes(("D", "J")),
    ] = Field(alias="W_hidden")
    """(D, J)."""
    b_hidden: Annotated[Optional[_HiddenRow], Axes(("J",))] = None
    """(J,); no bias unless given."""
    w_vocab: Annotated[
        Annotated[tuple[_WordRow, ...], FIRST_ERROR, Field(min_length=1, max_length=MAX_HIDDEN)],
        Axes(("J", "V")),
    ] = Field(alias="W_vocab")
    """(J, V)."""
    b_vocab: Annotated[Optional[_WordRow], Axes(("V",))] = None
    """(V,); no bias unless given."""


_Embedding = Annotated[
    Mapping[Text, _Row], Field(max_length=MAX_WORDS), AfterValidator(MappingProxyType)
]


class Sheet(Part):
    """A multi-head attention calculation that can be done by hand, in row vectors: q = x W_Q + b_Q.

    D is the width of x, d the width of a head's queries and keys, v that of its values, T the
    number of tokens. The reader checks more than this schema: lengths that depend on each other,
    known tokens, and the arithmetic of number texts.
    """

    model_config = ConfigDict(title="manyheads worksheet")
    TABLES: ClassVar = (
        *("sequences", "heads", "W_O", "b_O"),
        *("token_embedding", "position_embedding", "prediction"),
    )
    """The keys that hold tables of numbers."""

    name: Name
    """Short name, as in commands."""
    title: Text = Field(default_factory=lambda data: data.get("name", ""))
    """One line for a reader; the name unless given."""
    heads: Annotated[tuple[Head, ...], FIRST_ERROR, Field(min_length=1, max_length=MAX_HEADS)]
    """The heads, all of the same widths."""
    features: Annotated[
        tuple[Text, ...], FIRST_ERROR, Field(min_length=1, max_length=MAX_WIDTH), Axes(("D",))
    ] = Field(default_factory=lambda data: _numbered_features(data))
    """What each of the D columns of x means."""
    is_causal: StrictBool
    """Whether a receiver sees only itself and earlier sources."""
    has_residual: StrictBool = Field(default=False, alias="residual")
    """Whether x is added to the output (`updated`)."""
    scale: Annotated[ExactNumber, AfterValidator(_checked_scale)] = None
    """What each q.k is multiplied by, positive; 1/sqrt(d) unless given."""
    w_o: Annotated[
        Annotated[tuple[_Row, ...], FIRST_ERROR, Field(min_length=1, max_length=MAX_JOINED)],
        Axes(("C", "D")),
    ] = Field(alias="W_O")
    """(C, D); head h owns the h-th block of v rows."""
    b_o: Annotated[Optional[_Row], Axes(("D",))] = Field(default=None, alias="b_O")
    """(D,); no bias unless given."""
    vocabulary: _Words = ()
    """V words, in the order of the columns of W_vocab."""
    token_embedding: Annotated[Optional[_Embedding], Axes(("", "D"))] = None
    """A row of D numbers for each token; a token is looked up as written, then in lower case."""
    position_embedding: Annotated[Optional[_Matrix], Axes(("", "D"))] = None
    """A row of D numbers for each position, added to the token's row."""
    prediction: Optional[Prediction] = None
    """The network after the attention."""
    given: Annotated[
        Mapping[Name, GivenSequence],
        Field(min_length=1, max_length=MAX_SEQUENCES),
        AfterValidator(MappingProxyType),
    ] = Field(alias="sequences")
    """The sequences by name; a name must not be a key of the form."""
    expected: Any = None
    """Published answers, in any form; not used for solving."""
    _text: str = PrivateAttr("")

    @classmethod
    def from_document(cls: type[_S], document: dict[str, Any]) -> _S:
        """Check a JSON document (dicts, lists, texts, numbers) and read it.

        Raises:
            WorksheetError: the document breaks the form; the message names the place.
        """
        try:
            sheet = cls.model_validate(document)
        except ValidationError as error:
            raise WorksheetError(message_from(error.errors(include_url=False)[0])) from None
        sheet._text = text_from_document(document)
        return sheet

    @field_validator("heads")
    @classmethod
    def _labelled(cls, heads: tuple[Head, ...]) -> tuple[Head, ...]:
        return tuple(
            head if head.label else head.model_copy(update={"label": f"head {index}"})
            for index, head in enumerate(heads, start=1)
        )

    @field_validator("expected")
    @classmethod
    def _plain(cls, value: object) -> object:
        return json.loads(text_from_document(value))

    @model_validator(mode="after")
    def _fits(self: _S) -> _S:
        _check_sizes(self)
        for sequence in self.sequences:
            _check_words(sequence, joined("sequences", sequence.name), self.vocabulary)
        return self

    @cached_property
    def sequences(self) -> tuple[Sequence, ...]:
        """The sequences in order, each with its rows of x."""
        return tuple(_with_rows(self, name, given) for name, given in self.given.items())

    @property
    def text(self) -> str:
        """The worksheet file as JSON text, with its numbers as written."""
        return self._text

    @property
    def output_names(self) -> tuple[str, ...]:
        """What each column of the output is called.

        The residual sum adds output i to feature i, which gives it that name. Without it the
        output has coordinates of its own, and none of them is an input feature.
        """
        numbered = tuple(f"output {i + 1}" for i in range(self.embed_dim))
        return self.features if self.has_residual else numbered

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
        """Width of a value head, v."""
        return len(self.heads[0].w_v[0])

    @property
    def sequence_names(self) -> tuple[str, ...]:
        """The names of the sequences, in order."""
        return tuple(self.given)

    def sequence(self, name: str | None = None) -> Sequence:
        """Return a sequence by name, or the first.

        Raises:
            WorksheetError: no sequence has that name.
        """
        for sequence in self.sequences:
            if name in (None, sequence.name):
                return sequence
        use = listed(self.sequence_names)
        raise WorksheetError(f"sequence ({quoted(Literal(name))}) is not in {self.name}: use {use}")


def schema_text() -> str:
    """The JSON Schema of worksheet files."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return (
        json.dumps(schema | Sheet.model_json_schema(schema_generator=PlainSchema), indent=2) + "\n"
    )


def _numbered_features(data: Mapping[str, Any]) -> tuple[str, ...]:
    heads = data.get("heads")
    return tuple(f"feature {i + 1}" for i in range(len(heads[0].w_q))) if heads else ()


def _check_sizes(sheet: Sheet) -> None:
    """Compare every row and matrix with the letters at its field."""
    width = sheet.num_heads * sheet.v_head_dim
    if width > MAX_JOINED:
        raise WorksheetError(
            f"heads (concatenated width {width}) must not exceed {MAX_JOINED}: "
            "use fewer or narrower heads"
        )
    if sheet.prediction and not sheet.vocabulary:
        raise WorksheetError(
            "vocabulary is missing: give one word for each column of prediction.W_vocab"
        )
    sizes = {"D": sheet.embed_dim, "d": sheet.head_dim, "v": sheet.v_head_dim, "C": width}
    parts: list[tuple[str, Part]] = [
        *((f"heads[{i}]", head) for i, head in enumerate(sheet.heads)),
        ("", sheet),
        *((joined("sequences", name), given) for name, given in sheet.given.items()),
    ]
    if sheet.prediction:
        sizes |= {"J": len(sheet.prediction.w_hidden[0]), "V": len(sheet.vocabulary)}
        parts.append(("prediction", sheet.prediction))
    for place, part in parts:
        if isinstance(part, GivenSequence):
            sizes["T"] = len(part.tokens)
        for name, field in type(part).model_fields.items():
            axes = next((m for m in field.metadata if isinstance(m, Axes)), None)
            if axes and getattr(part, name) is not None:
                shape = [sizes.get(letter) for letter in axes.letters]
                _check_shape(getattr(part, name), shape, joined(place, field.alias or name))


def _check_shape(
    value: Entries[Any] | Mapping[str, Any], shape: list[int | None], place: str
) -> None:
    """Check the lengths of a row, a matrix, or rows by name; None is any length."""
    size, *inner = shape
    what = "row" if inner else "number" if place != "features" else "text"
    if size is not None and size != len(value):
        change = f"add {size - len(value)}" if size > len(value) else f"remove {len(value) - size}"
        raise WorksheetError(
            f"{place} ({_counted(len(value), what)}) must have {_counted(size, what)}: {change}"
        )
    if inner:
        for key, row in value.items() if isinstance(value, Mapping) else enumerate(value):
            _check_shape(row, inner, joined(place, key))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _with_rows(sheet: Sheet, name: str, given: GivenSequence) -> Sequence:
    place = joined("sequences", name)
    if name in Sheet.key_names():
        raise WorksheetError(f"{place} has the name of a worksheet part: use another name")
    keys, x = None, given.x
    if x is None:
        keys = _token_keys(given.tokens, place, sheet.token_embedding)
        x = _embedded(keys, place, sheet)
    return Sequence.model_construct(**{**dict(given), "name": name, "x": x, "token_keys": keys})


def _token_keys(
    tokens: tuple[str, ...], place: str, rows: Mapping[str, Row] | None
) -> tuple[str, ...]:
    """Find each token's row: by the token itself, else by its lower-case form."""
    if rows is None:
        raise WorksheetError(
            f"{place}.X is missing: give X, or a token_embedding with one row per token"
        )
    keys = [token if token in rows else token.lower() for token in tokens]
    for index, key in enumerate(keys):
        if key not in rows:
            raise WorksheetError(
                f"{place}.tokens[{index}] ({quoted(tokens[index])}) has no row in token_embedding: "
                f"add one, or use {listed(rows)}"
            )
    return tuple(keys)


def _embedded(keys: tuple[str, ...], place: str, sheet: Sheet) -> Matrix:
    rows, positions = sheet.token_embedding or {}, sheet.position_embedding
    if positions is None:
        return tuple(rows[key] for key in keys)
    if len(positions) < len(keys):
        raise WorksheetError(
            f"position_embedding ({_counted(len(positions), 'row')}) must have a row for each "
            f"token of {place}: add rows, or use fewer tokens"
        )
    pairs = zip((rows[key] for key in keys), positions, strict=False)
    return tuple(tuple(add(a, b) for a, b in zip(*pair, strict=True)) for pair in pairs)


def _check_words(sequence: Sequence, place: str, vocabulary: tuple[str, ...]) -> None:
    wanted = {f"candidates[{i}]": word for i, word in enumerate(sequence.candidates)}
    if sequence.target is not None:
        wanted["target"] = sequence.target
    for key, word in wanted.items():
        if vocabulary and word not in vocabulary:
            raise WorksheetError(
                f"{place}.{key} ({quoted(word)}) is not in vocabulary: use {listed(vocabulary)}"
            )
