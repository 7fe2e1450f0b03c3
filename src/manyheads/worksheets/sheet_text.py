"""The given numbers of a worksheet as tables; heads and columns count from 1."""

from collections.abc import Iterable, Sequence
from itertools import chain

from manyheads.core.tables import Table, shortened, text_from_table, wrapped
from manyheads.worksheets.arithmetic import ZERO, Number
from manyheads.worksheets.display import given_text
from manyheads.worksheets.sheet import Head, Prediction, Row, Sheet


def text_from_sheet(sheet: Sheet) -> str:
    """Write the given numbers of a worksheet as tables in 80 columns."""
    heading = f"{sheet.name}: {sheet.title}"
    parts = ["\n".join([heading, "=" * min(len(heading), 80), *_lines(sheet)])]
    return "\n\n".join([*parts, *(text_from_table(table) for table in tables_from_sheet(sheet))])


def _lines(sheet: Sheet) -> Iterable[str]:
    scale = f"1/sqrt({sheet.head_dim})" if sheet.scale is None else given_text(sheet.scale)
    seen = (
        "causal: a receiver does not see later sources"
        if sheet.is_causal
        else "every receiver sees every source"
    )
    heads = f"{sheet.num_heads} heads of width {sheet.head_dim}"
    yield f"Width {sheet.embed_dim}; {heads}; scale {scale}."
    yield f"{seen[0].upper()}{seen[1:]}."
    if sheet.has_residual:
        yield "Residual: updated row = x + output."
    for sequence in sheet.sequences:
        yield from wrapped(f"Sequence {sequence.name}: {' '.join(sequence.tokens)}")


def tables_from_sheet(sheet: Sheet) -> Iterable[Table]:
    """The given numbers of a worksheet, one table per matrix."""
    yield from _input_tables(sheet)
    for index, head in enumerate(sheet.heads):
        yield _head_table(sheet, index, head)
    names = [f"h{h + 1}.{i + 1}" for h in range(sheet.num_heads) for i in range(sheet.v_head_dim)]
    yield _matrix(
        "W_O: from concatenated heads to output",
        names,
        output_columns(sheet),
        sheet.w_o,
        sheet.b_o,
        "b_O",
    )
    if sheet.prediction is not None:
        yield from _prediction_tables(sheet, sheet.prediction)


def feature_columns(sheet: Sheet) -> tuple[str, ...]:
    """The features' names as columns."""
    return tuple(shortened(name, 14) for name in sheet.features)


def output_columns(sheet: Sheet) -> tuple[str, ...]:
    """The names of the output's numbers as columns."""
    return tuple(shortened(name, 14) for name in sheet.output_names)


def head_title(sheet: Sheet, index: int) -> str:
    """The head's number from 1, and its label if it has one."""
    plain, label = f"Head {index + 1}", sheet.heads[index].label
    return plain if label.lower() == plain.lower() else f"{plain}, {label}"


def _input_tables(sheet: Sheet) -> Iterable[Table]:
    features = feature_columns(sheet)
    for sequence in sheet.sequences:
        if sequence.token_keys is None:
            names = [f"{i + 1:>2} {shortened(t, 12)}" for i, t in enumerate(sequence.tokens)]
            yield _matrix(f"X of sequence {sequence.name}", names, features, sequence.x, None)
    if sheet.token_embedding is not None:
        names = [shortened(token, 14) for token in sheet.token_embedding]
        rows = list(sheet.token_embedding.values())
        yield _matrix("Token rows", names, features, rows, None)
    if sheet.position_embedding is not None:
        names = [f"{i + 1:>2}" for i in range(len(sheet.position_embedding))]
        yield _matrix("Position rows", names, features, sheet.position_embedding, None)


def _head_table(sheet: Sheet, index: int, head: Head) -> Table:
    parts = {"Q": (head.w_q, head.b_q), "K": (head.w_k, head.b_k), "V": (head.w_v, head.b_v)}
    columns = [f"W_{part}.{i + 1}" for part, (w, _) in parts.items() for i in range(len(w[0]))]
    rows = [
        tuple(chain.from_iterable(w[j] for w, _ in parts.values())) for j in range(sheet.embed_dim)
    ]
    bias: Row | None = None
    if any(b is not None for _, b in parts.values()):
        given = ((ZERO,) * len(w[0]) if b is None else b for w, b in parts.values())
        bias = tuple(chain.from_iterable(given))
    return _matrix(head_title(sheet, index), feature_columns(sheet), columns, rows, bias)


def _prediction_tables(sheet: Sheet, prediction: Prediction) -> Iterable[Table]:
    width = len(prediction.w_hidden[0])
    units = [f"u{j + 1}" for j in range(width)]
    yield _matrix(
        "W_hidden: from row to hidden units u1, u2, ...",
        output_columns(sheet),
        units,
        prediction.w_hidden,
        prediction.b_hidden,
    )
    rows: list[tuple[Number, ...]] = list(zip(*prediction.w_vocab, strict=True))
    if prediction.b_vocab is not None:
        rows = [(*row, bias) for row, bias in zip(rows, prediction.b_vocab, strict=True)]
        units.append("bias")
    words = [shortened(word, 14) for word in sheet.vocabulary]
    yield _matrix(
        "W_vocab, transposed: from hidden units to the logit of a word", words, units, rows, None
    )


def _matrix(
    title: str,
    names: Sequence[str],
    columns: Sequence[str],
    rows: Sequence[Row],
    bias: Row | None,
    bias_name: str = "bias",
) -> Table:
    cells = [(name, *map(given_text, row)) for name, row in zip(names, rows, strict=True)]
    if bias is not None:
        cells.append((bias_name, *map(given_text, bias)))
    return Table(title=title, columns=("", *columns), rows=tuple(cells), has_total=bias is not None)
