"""The worksheet form: a JSON document is checked in every place and becomes a frozen `Sheet`.

The same form, for other programs, is `worksheet.schema.json` beside this file.
"""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from manyheads.core.errors import WorksheetError
from manyheads.core.text import quoted
from manyheads.worksheets import parts
from manyheads.worksheets.arithmetic import Number, add, is_positive
from manyheads.worksheets.files import text_from_document
from manyheads.worksheets.numbers import parse_number
from manyheads.worksheets.parts import Limits
from manyheads.worksheets.places import joined, listed
from manyheads.worksheets.sheet import Head, Matrix, Prediction, Row, Sequence, Sheet

LIMITS = Limits()
_TOP = ("name", "sequences", "heads", "W_O", "is_causal")
_TOP_OPTIONAL = (
    *("title", "features", "vocabulary", "token_embedding", "position_embedding"),
    *("b_O", "scale", "residual", "prediction", "expected"),
)
_RESERVED = frozenset((*_TOP, *_TOP_OPTIONAL))


def sheet_from_document(document: dict[str, Any], kind: Callable[..., Sheet] = Sheet) -> Sheet:
    """Check a document in every place and read it.

    Args:
        document: as `files.document_from_file` gives it.
        kind: the class to make, `Sheet` or a child of it.

    Raises:
        WorksheetError: a violation of the form; the message names its place.
    """
    parts.check_keys(document, "", _TOP, _TOP_OPTIONAL)
    name = parts.name(document["name"], "name")
    heads = _heads(document["heads"])
    dim, joined_width = len(heads[0].w_q), len(heads) * len(heads[0].w_v[0])
    parts.check_total(joined_width, LIMITS.joined, "heads", "joined value width")
    vocabulary = parts.texts(document.get("vocabulary", []), "vocabulary", 0, LIMITS.words)
    embeddings = _token_rows(document, dim)
    positions = _optional_matrix(document, "position_embedding", (1, LIMITS.positions), dim)
    return kind(
        name=name,
        title=parts.text(document.get("title", name), "title"),
        features=_features(document, dim),
        is_causal=parts.flag(document["is_causal"], "is_causal"),
        has_residual=parts.flag(document.get("residual", False), "residual"),
        scale=_scale(document),
        heads=heads,
        w_o=parts.matrix(document["W_O"], "W_O", (joined_width, joined_width), (dim, dim)),
        b_o=_optional_row(document, "", "b_O", dim),
        sequences=_sequences(document["sequences"], dim, embeddings, positions, vocabulary),
        token_embedding=None if embeddings is None else MappingProxyType(embeddings),
        position_embedding=positions,
        vocabulary=vocabulary,
        prediction=_prediction(document, dim, vocabulary),
        text=text_from_document(document),
    )


def _features(document: dict[str, Any], dim: int) -> tuple[str, ...]:
    if "features" not in document:
        return tuple(f"feature {i + 1}" for i in range(dim))
    return parts.texts(document["features"], "features", dim, dim)


def _scale(document: dict[str, Any]) -> Number | None:
    if "scale" not in document:
        return None
    scale = parse_number(document["scale"], "scale")
    if not is_positive(scale):
        shown = quoted(document["scale"])
        raise WorksheetError(
            f"scale ({shown}) must be positive: leave it out for 1/sqrt(head width)"
        )
    return scale


def _optional_row(holder: dict[str, Any], place: str, key: str, width: int) -> Row | None:
    return parts.row(holder[key], joined(place, key), width, width) if key in holder else None


def _optional_matrix(
    holder: dict[str, Any], key: str, rows: tuple[int, int], width: int
) -> Matrix | None:
    return parts.matrix(holder[key], key, rows, (width, width)) if key in holder else None


def _heads(value: object) -> tuple[Head, ...]:
    given = parts.entries(value, "heads", 1, LIMITS.heads, "heads")
    heads: list[Head] = []
    for index, entry in enumerate(given):
        first = heads[0] if heads else None
        heads.append(_head(parts.mapping(entry, f"heads[{index}]"), index, first))
    return tuple(heads)


def _head(given: dict[str, Any], index: int, first: Head | None) -> Head:
    place = f"heads[{index}]"
    parts.check_keys(given, place, ("W_Q", "W_K", "W_V"), ("label", "b_Q", "b_K", "b_V"))
    free = (1, LIMITS.width)
    rows = (len(first.w_q),) * 2 if first else free
    w_q = parts.matrix(
        given["W_Q"], f"{place}.W_Q", rows, (len(first.w_q[0]),) * 2 if first else free
    )
    rows, keys = (len(w_q), len(w_q)), (len(w_q[0]), len(w_q[0]))
    values = (len(first.w_v[0]),) * 2 if first else free
    w_v = parts.matrix(given["W_V"], f"{place}.W_V", rows, values)
    return Head(
        label=parts.text(given.get("label", f"head {index + 1}"), f"{place}.label"),
        w_q=w_q,
        w_k=parts.matrix(given["W_K"], f"{place}.W_K", rows, keys),
        w_v=w_v,
        b_q=_optional_row(given, place, "b_Q", keys[0]),
        b_k=_optional_row(given, place, "b_K", keys[0]),
        b_v=_optional_row(given, place, "b_V", len(w_v[0])),
    )


def _token_rows(document: dict[str, Any], dim: int) -> dict[str, Row] | None:
    if "token_embedding" not in document:
        return None
    given = parts.mapping(document["token_embedding"], "token_embedding")
    parts.check_total(len(given), LIMITS.words, "token_embedding", "tokens")
    rows: dict[str, Row] = {}
    for token, entry in given.items():
        place = joined("token_embedding", token)
        rows[parts.text(token, place)] = parts.row(entry, place, dim, dim)
    return rows


def _sequences(
    value: object,
    dim: int,
    embeddings: dict[str, Row] | None,
    positions: Matrix | None,
    vocabulary: tuple[str, ...],
) -> tuple[Sequence, ...]:
    given = parts.mapping(value, "sequences")
    parts.check_between(len(given), 1, LIMITS.sequences, "sequences", "sequences")
    read = []
    for name, entry in given.items():
        place = joined("sequences", name)
        if parts.name(name, place) in _RESERVED:
            raise WorksheetError(f"{place} has the name of a part of the form: use another name")
        parts.check_keys(
            parts.mapping(entry, place), place, ("tokens",), ("X", "target", "candidates")
        )
        read.append(_sequence(entry, name, dim, embeddings, positions))
        _check_words(read[-1], place, vocabulary)
    return tuple(read)


def _sequence(
    given: dict[str, Any],
    name: str,
    dim: int,
    embeddings: dict[str, Row] | None,
    positions: Matrix | None,
) -> Sequence:
    place = joined("sequences", name)
    tokens = parts.texts(given["tokens"], f"{place}.tokens", 1, LIMITS.positions)
    words = parts.texts(given.get("candidates", []), f"{place}.candidates", 0, LIMITS.words)
    target = parts.text(given["target"], f"{place}.target") if "target" in given else None
    keys = None
    if "X" in given:
        x = parts.matrix(given["X"], f"{place}.X", (len(tokens), len(tokens)), (dim, dim))
    else:
        keys = _token_keys(tokens, place, embeddings)
        x = _embedded(keys, place, embeddings or {}, positions)
    return Sequence(name=name, tokens=tokens, x=x, token_keys=keys, target=target, candidates=words)


def _token_keys(tokens: Row, place: str, rows: dict[str, Row] | None) -> tuple[str, ...]:
    """Find each token's row: by the token itself, else by its lower-case form."""
    if rows is None:
        raise WorksheetError(
            f"{place}.X is missing: give X, or a token_embedding with a row a token"
        )
    keys = [token if token in rows else token.lower() for token in tokens]
    for index, key in enumerate(keys):
        if key not in rows:
            raise WorksheetError(
                f"{place}.tokens[{index}] ({quoted(tokens[index])}) has no row in token_embedding: "
                f"add one, or use {listed(rows)}"
            )
    return tuple(keys)


def _embedded(
    keys: tuple[str, ...], place: str, rows: dict[str, Row], positions: Matrix | None
) -> Matrix:
    if positions is None:
        return tuple(rows[key] for key in keys)
    if len(positions) < len(keys):
        raise WorksheetError(
            f"position_embedding ({len(positions)} rows) must reach all tokens of {place}: "
            f"give {len(keys)} rows or fewer tokens"
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


def _prediction(
    document: dict[str, Any], dim: int, vocabulary: tuple[str, ...]
) -> Prediction | None:
    if "prediction" not in document:
        return None
    place, given = "prediction", parts.mapping(document["prediction"], "prediction")
    parts.check_keys(given, place, ("W_hidden", "W_vocab"), ("b_hidden", "b_vocab"))
    if not vocabulary:
        raise WorksheetError(
            "vocabulary is missing: give one word for each column of prediction.W_vocab"
        )
    w_hidden = parts.matrix(given["W_hidden"], f"{place}.W_hidden", (dim, dim), (1, LIMITS.hidden))
    width, words = len(w_hidden[0]), len(vocabulary)
    return Prediction(
        w_hidden=w_hidden,
        b_hidden=_optional_row(given, place, "b_hidden", width),
        w_vocab=parts.matrix(given["W_vocab"], f"{place}.W_vocab", (width, width), (words, words)),
        b_vocab=_optional_row(given, place, "b_vocab", words),
    )
