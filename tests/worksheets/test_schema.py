"""The worksheet form: every violation is a WorksheetError that names its place."""

import copy
import json
import random
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads.core.errors import WorksheetError
from manyheads.worksheets.files import document_from_bytes
from manyheads.worksheets.library import Worksheet, schema_text, worksheet, worksheet_names
from manyheads.worksheets.parts import Limits
from tests.worksheets.samples import damaged, full_document, mutated, sheet_of, small_document

SCHEMA = json.loads(schema_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
DOCUMENTS = [
    small_document(),
    full_document(),
    *(json.loads(worksheet(name).to_json()) for name in worksheet_names()),
]


def test_schema_is_a_schema_and_accepts_what_the_reader_accepts() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for document in DOCUMENTS:
        VALIDATOR.validate(document)
        assert sheet_of(document).name == document["name"]


def test_schema_has_the_readers_limits() -> None:
    limits, parts, defs = Limits(), SCHEMA["properties"], SCHEMA["$defs"]
    assert parts["sequences"]["maxProperties"] == limits.sequences
    assert defs["sequence"]["properties"]["tokens"]["maxItems"] == limits.positions
    assert parts["features"]["maxItems"] == limits.width
    assert parts["heads"]["maxItems"] == limits.heads
    assert parts["W_O"]["maxItems"] == limits.joined
    assert defs["prediction"]["properties"]["b_hidden"]["maxItems"] == limits.hidden
    assert parts["vocabulary"]["maxItems"] == limits.words


def changed(document: dict[str, Any], *path: Any, to: Any = None, drop: bool = False) -> Any:
    """A copy of a document with one place changed or removed."""
    document = copy.deepcopy(document)
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    if drop:
        del holder[path[-1]]
    else:
        holder[path[-1]] = to
    return document


SMALL, FULL = small_document(), full_document()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (changed(SMALL, "heads", drop=True), r"^heads is missing: add it"),
        (changed(SMALL, "is_causal", drop=True), r"^is_causal is missing"),
        (changed(SMALL, "head", to=1), r"^head is no part of the form: use name, sequences"),
        (changed(SMALL, "name", to="no name"), r"^name \('no name'\) must be a short name"),
        (changed(SMALL, "name", to=5), r"^name \(5\) must be a short name"),
        (changed(SMALL, "title", to=""), r"^title \(''\) must have 1 to 80 characters"),
        (changed(SMALL, "title", to="a\x1b[2J"), r"^title \('a\\x1b\[2J'\) must be printable"),
        (changed(SMALL, "is_causal", to="yes"), r"^is_causal \('yes'\) must be true or false"),
        (changed(SMALL, "is_causal", to=1), r"^is_causal \(1\) must be true or false"),
        (changed(SMALL, "scale", to=0), r"^scale \(0\) must be positive"),
        (changed(SMALL, "scale", to="-sqrt(2)"), r"^scale \('-sqrt\(2\)'\) must be positive"),
        (changed(SMALL, "heads", to={}), r"^heads \(an object\) must be a list: give 1 to 8 heads"),
        (changed(SMALL, "heads", to=[]), r"^heads \(0 heads\) must have 1 to 8"),
        (changed(SMALL, "heads", 0, to=3), r"^heads\[0\] \(3\) must be an object"),
        (changed(SMALL, "heads", 0, "W_K", drop=True), r"^heads\[0\]\.W_K is missing"),
        (changed(SMALL, "heads", 0, "W_k", to=[]), r"^heads\[0\]\.W_k is no part of the form"),
        (
            changed(SMALL, "heads", 0, "W_K", to=[[1], [2], [3]]),
            r"^heads\[0\]\.W_K \(3 rows\) must have 2: give 2 rows",
        ),
        (
            changed(SMALL, "heads", 0, "W_K", 1, to=[1, 2]),
            r"^heads\[0\]\.W_K\[1\] \(2 numbers\) must have 1: give 1 numbers",
        ),
        (changed(SMALL, "heads", 0, "W_K", 1, 0, to="log(2)"), r"^heads\[0\]\.W_K\[1\]\[0\] "),
        (changed(SMALL, "heads", 0, "W_K", 1, 0, to=None), r"^heads\[0\]\.W_K\[1\]\[0\] \(null\)"),
        (changed(SMALL, "heads", 0, "W_K", 1, 0, to=True), r"^heads\[0\]\.W_K\[1\]\[0\] \(true\)"),
        (changed(SMALL, "W_O", to=[[1, 2], [3, 4]]), r"^W_O \(2 rows\) must have 1"),
        (changed(SMALL, "W_O", 0, to=[1]), r"^W_O\[0\] \(1 numbers\) must have 2"),
        (changed(SMALL, "b_O", to=[1]), r"^b_O \(1 numbers\) must have 2"),
        (changed(SMALL, "features", to=["a"]), r"^features \(1 texts\) must have 2"),
        (changed(SMALL, "sequences", to={}), r"^sequences \(0 sequences\) must have 1 to 8"),
        (
            changed(SMALL, "sequences", "main", "X", drop=True),
            r"^sequences\.main\.X is missing: give X, or a token_embedding",
        ),
        (
            changed(SMALL, "sequences", "main", "X", to=[[1, 2]]),
            r"^sequences\.main\.X \(1 rows\) must have 2",
        ),
        (
            changed(SMALL, "sequences", "main", "tokens", to=[]),
            r"^sequences\.main\.tokens \(0 texts\) must have 1 to 32",
        ),
        (
            changed(SMALL, "sequences", "main", "tokens", to=[1, "b"]),
            r"^sequences\.main\.tokens\[0\] \(1\) must be text",
        ),
        (
            changed(SMALL, "sequences", "heads", to={"tokens": ["a"], "X": [[1, 2]]}),
            r"^sequences\.heads has the name of a part of the form",
        ),
        (
            changed(SMALL, "sequences", "a b", to={"tokens": ["a"], "X": [[1, 2]]}),
            r'^sequences\["a b"\] \(\'a b\'\) must be a short name',
        ),
        (
            changed(FULL, "sequences", "main", "tokens", 1, to="halt"),
            r"^sequences\.main\.tokens\[1\] \('halt'\) has no row in token_emb.* use go, to be",
        ),
        (
            changed(FULL, "position_embedding", to=[[0, 0, 0]]),
            r"^position_embedding \(1 rows\) must reach all tokens of sequences\.main: give 2 rows",
        ),
        (
            changed(FULL, "token_embedding", "to be", to=[1]),
            r'^token_embedding\["to be"\] \(1 numbers\) must have 3',
        ),
        (changed(FULL, "token_embedding", to=None), r"^token_embedding \(null\) must be an object"),
        (changed(FULL, "prediction", to=None), r"^prediction \(null\) must be an object"),
        (changed(FULL, "vocabulary", drop=True), r"^vocabulary is missing: give one word for each"),
        (
            changed(FULL, "vocabulary", to=["stop", "x.y"]),
            r"^prediction\.W_vocab\[0\] \(4 numbers\) must have 2",
        ),
        (
            changed(FULL, "sequences", "main", "target", to="left"),
            r"^sequences\.main\.target \('left'\) is not in vocabulary: use go, stop",
        ),
        (
            changed(FULL, "sequences", "main", "candidates", 1, to="left"),
            r"^sequences\.main\.candidates\[1\] \('left'\) is not in vocabulary",
        ),
        (
            changed(FULL, "heads", 1, "W_V", 0, to=[1, 2, 3]),
            r"^heads\[1\]\.W_V\[0\] \(3 numbers\) must have 2",
        ),
        (
            changed(SMALL, "heads", 0, "W_V", to=[[1] * 33, [1] * 33]),
            r"^heads\[0\]\.W_V\[0\] \(33 numbers\) must have 1 to 32",
        ),
        (
            changed(SMALL, "heads", to=[{k: [[1] * 32] * 2 for k in ("W_Q", "W_K", "W_V")}] * 3),
            r"^heads \(joined value width 96\) must not exceed 64",
        ),
    ],
)
def test_violation_names_its_place(document: Any, message: str) -> None:
    with pytest.raises(WorksheetError, match=message):
        sheet_of(document)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "line 1, column 1 is no JSON"),
        (b'{\n "name": "a",\n}', "line 3, column 1 is no JSON|line 2, column 14 is no JSON"),
        (b"[1]", "must be one JSON object"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b'{\n"name": "\xff"}', r"byte 11 \(line 2\) is not UTF-8"),
        ('{"name": "a"}'.encode("utf-16"), "is not UTF-8"),
        (b'{"heads": [{"W_Q": 1, "W_Q": 2}]}', r"^heads\[0\]\.W_Q stands twice"),
        (b'{"scale": NaN}', r"^scale \(NaN\) is no finite number"),
        (b'{"W_O": [[1, -Infinity]]}', r"^W_O\[0\]\[1\] \(-Infinity\) is no finite number"),
        (b'{"expected": ' + b"[" * 30 + b"]" * 30 + b"}", "nested deeper than 12"),
        (b"[" * 100_000 + b"]" * 100_000, "nested deeper than 12"),
        (b'{"name": "' + b"x" * 1_000_001 + b'"}', "larger than 1,000,000 bytes"),
    ],
)
def test_what_is_no_document_is_named(data: bytes, message: str) -> None:
    with pytest.raises(WorksheetError, match=message):
        document_from_bytes(data)


def read(data: bytes) -> Worksheet | None:
    """A worksheet, or None where it is refused in one clear line; anything else raises."""
    try:
        return Worksheet.from_document(document_from_bytes(data))
    except WorksheetError as error:
        message = str(error)
        assert message.isprintable() and ": " in message and len(message) < 700, message
        return None


@pytest.mark.parametrize("seed", range(10))
def test_documents_with_one_broken_place_are_refused_or_sound(seed: int) -> None:
    dice, refused = random.Random(seed), 0
    for _ in range(60):
        document = dice.choice(DOCUMENTS[:2] if dice.random() < 0.7 else DOCUMENTS)
        data = json.dumps(mutated(document, dice)).encode()
        sheet = read(data)
        if sheet is None:
            refused += 1
        else:
            VALIDATOR.validate(json.loads(data))
            for sequence in sheet.sequence_names:
                sheet.solve(sequence, exact=len(data) < 2000).to_json()
    assert refused > 15


@pytest.mark.parametrize("seed", range(10))
def test_files_with_broken_bytes_are_refused_or_sound(seed: int) -> None:
    dice, refused = random.Random(1000 + seed), 0
    for _ in range(60):
        document = dice.choice(DOCUMENTS[:2])
        sheet = read(damaged(json.dumps(document).encode(), dice))
        refused += sheet is None
        if sheet is not None:
            sheet.solve().to_json()
    assert refused > 30


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.sampled_from(sorted(SCHEMA["properties"])), json_values)
@settings(max_examples=150)
def test_any_value_in_any_part_is_refused_or_sound(part: str, value: Any) -> None:
    read(json.dumps(changed(FULL, part, to=value)).encode())


@given(st.binary(max_size=60))
@settings(max_examples=60)
def test_any_bytes_are_refused(data: bytes) -> None:
    assert read(data) is None


def test_written_worksheet_reads_back_as_the_same() -> None:
    for document in DOCUMENTS:
        sheet = sheet_of(document)
        again = Worksheet.from_text(sheet.to_json())
        assert again == sheet
        assert json.loads(sheet.to_json()) == document


def test_sheet_has_every_given_part() -> None:
    sheet = sheet_of(FULL)
    assert (sheet.embed_dim, sheet.head_dim, sheet.v_head_dim, sheet.num_heads) == (3, 1, 2, 2)
    assert sheet.sequences[0].token_keys == ("go", "to be")
    assert [head.label for head in sheet.heads] == ["first", "head 2"]
    assert sheet.expected == {"anything": [1, None, "goes"]}
    assert sheet_of(SMALL).features == ("feature 1", "feature 2")
    assert sheet_of(SMALL).title == "small"
