"""The worksheet form: every violation is a WorksheetError that names its place."""

import copy
import json
import random
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from manyheads.core.errors import WorksheetError
from manyheads.worksheets.files import document_from_bytes, document_from_file
from manyheads.worksheets.library import Worksheet, worksheet, worksheet_names
from manyheads.worksheets.sheet import Sheet, schema_text
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
        (
            changed(SMALL, "head", to=1),
            r"^head is not a part of a worksheet: use name, title, heads",
        ),
        (changed(SMALL, "name", to="no name"), r"^name \('no name'\) must be a short name"),
        (changed(SMALL, "name", to=5), r"^name \(5\) must be a short name"),
        (changed(SMALL, "title", to=""), r"^title \(''\) must have 1 to 80 characters"),
        (changed(SMALL, "title", to="a\x1b[2J"), r"^title \('a\\x1b\[2J'\) must be printable"),
        (changed(SMALL, "is_causal", to="yes"), r"^is_causal \('yes'\) must be true or false"),
        (changed(SMALL, "is_causal", to=1), r"^is_causal \(1\) must be true or false"),
        (changed(SMALL, "scale", to=0), r"^scale \(0\) must be positive"),
        (changed(SMALL, "scale", to="-sqrt(2)"), r"^scale \('-sqrt\(2\)'\) must be positive"),
        (changed(SMALL, "heads", to={}), r"^heads \(an object\) must be a list: write it in \[ \]"),
        (changed(SMALL, "heads", to=[]), r"^heads has no entries: give at least 1"),
        (changed(SMALL, "heads", 0, to=3), r"^heads\[0\] \(3\) must be an object"),
        (changed(SMALL, "heads", 0, "W_K", drop=True), r"^heads\[0\]\.W_K is missing"),
        (
            changed(SMALL, "heads", 0, "W_k", to=[]),
            r"^heads\[0\]\.W_k is not a part of a worksheet",
        ),
        (
            changed(SMALL, "heads", 0, "W_K", to=[[1], [2], [3]]),
            r"^heads\[0\]\.W_K \(3 rows\) must have 2 rows: remove 1$",
        ),
        (
            changed(SMALL, "heads", 0, "W_K", 1, to=[1, 2]),
            r"^heads\[0\]\.W_K\[1\] \(2 numbers\) must have 1 number: remove 1$",
        ),
        (changed(SMALL, "heads", 0, "W_K", 1, 0, to="log(2)"), r"^heads\[0\]\.W_K\[1\]\[0\] "),
        (changed(SMALL, "heads", 0, "W_K", 1, 0, to=None), r"^heads\[0\]\.W_K\[1\]\[0\] \(null\)"),
        (changed(SMALL, "heads", 0, "W_K", 1, 0, to=True), r"^heads\[0\]\.W_K\[1\]\[0\] \(true\)"),
        (changed(SMALL, "W_O", to=[[1, 2], [3, 4]]), r"^W_O \(2 rows\) must have 1 row: remove 1$"),
        (changed(SMALL, "W_O", 0, to=[1]), r"^W_O\[0\] \(1 number\) must have 2"),
        (changed(SMALL, "b_O", to=[1]), r"^b_O \(1 number\) must have 2"),
        (changed(SMALL, "features", to=["a"]), r"^features \(1 text\) must have 2 texts: add 1$"),
        (changed(SMALL, "sequences", to={}), r"^sequences has no entries: give at least 1"),
        (
            changed(SMALL, "sequences", "main", "X", drop=True),
            r"^sequences\.main\.X is missing: give X, or a token_embedding",
        ),
        (
            changed(SMALL, "sequences", "main", "X", to=[[1, 2]]),
            r"^sequences\.main\.X \(1 row\) must have 2 rows: add 1$",
        ),
        (
            changed(SMALL, "sequences", "main", "tokens", to=[]),
            r"^sequences\.main\.tokens has no entries: give at least 1",
        ),
        (
            changed(SMALL, "sequences", "main", "tokens", to=[1, "b"]),
            r"^sequences\.main\.tokens\[0\] \(1\) must be text",
        ),
        (
            changed(SMALL, "sequences", "heads", to={"tokens": ["a"], "X": [[1, 2]]}),
            r"^sequences\.heads has the name of a worksheet part",
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
            r"^position_embedding \(1 row\) must have a row for each token of sequences\.main: ",
        ),
        (
            changed(FULL, "token_embedding", "to be", to=[1]),
            r'^token_embedding\["to be"\] \(1 number\) must have 3',
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
            r"^heads\[0\]\.W_V\[0\] \(33 entries\) must have at most 32",
        ),
        (
            changed(SMALL, "heads", to=[{k: [[1] * 32] * 2 for k in ("W_Q", "W_K", "W_V")}] * 3),
            r"^heads \(concatenated width 96\) must not exceed 64",
        ),
    ],
)
def test_violation_names_its_place(document: Any, message: str) -> None:
    with pytest.raises(WorksheetError, match=message):
        sheet_of(document)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "line 1, column 1 is not JSON"),
        (b'{\n "name": "a",\n}', "line 3, column 1 is not JSON|line 2, column 14 is not JSON"),
        (b"[1]", "must be one JSON object"),
        (b'{\n"name": "\xff"}', r"byte 11 \(line 2\) is not UTF-8"),
        ('{"name": "a"}'.encode("utf-16"), "is not UTF-8"),
        (b'{"heads": [{"W_Q": 1, "W_Q": 2}]}', r"^heads\[0\]\.W_Q is given twice"),
        (b'{"scale": NaN}', r"^scale \(NaN\) is not a finite number"),
        (b'{"W_O": [[1, -Infinity]]}', r"^W_O\[0\]\[1\] \(-Infinity\) is not a finite number"),
        (b'{"expected": ' + b"[" * 30 + b"]" * 30 + b"}", "nested deeper than 12"),
        (b"[" * 100_000 + b"]" * 100_000, "nested deeper than 12"),
        (b'{"name": "' + b"x" * 1_000_001 + b'"}', "larger than 1,000,000 bytes"),
    ],
)
def test_bytes_that_are_not_a_document_are_refused(data: bytes, message: str) -> None:
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


def test_byte_order_mark_is_accepted() -> None:
    text = json.dumps(SMALL)
    assert Worksheet.from_document(document_from_bytes(text.encode("utf-8-sig"))) == sheet_of(SMALL)


@pytest.mark.parametrize("name", ["река", "हिन्दी", "銀行", "می_خواهم", "Straße-2", "x"])
def test_names_in_any_script_are_accepted_and_found(name: str) -> None:
    document = copy.deepcopy(SMALL)
    document["name"] = document["heads"][0]["label"] = name
    document["sequences"] = {name: {**SMALL["sequences"]["main"], "tokens": [name, "b"]}}
    document["features"] = [name, "b"]
    sheet = sheet_of(document)
    VALIDATOR.validate(document)
    assert (sheet.name, sheet.sequence_names, sheet.features[0]) == (name, (name,), name)
    assert sheet.explain(f"{name}.output[0][0]").quantity == f"{name}.output[0][0]"
    assert name in str(sheet) and name in str(sheet.solve(name, exact=True))


@pytest.mark.parametrize("token", ["\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "क्\u200dष"])
def test_tokens_may_have_joiners_of_their_script(token: str) -> None:
    assert sheet_of(changed(SMALL, "sequences", "main", "tokens", 0, to=token)).sequence().tokens[0]
    with pytest.raises(WorksheetError, match="must be printable"):
        sheet_of(changed(SMALL, "sequences", "main", "tokens", 0, to=f"{token}\u202e"))


@pytest.mark.parametrize("text", ["1_0", "\u0663", "\uff11", "1\u0660", "\u00bd"])
def test_digits_of_other_scripts_and_underscores_are_not_numbers(text: str) -> None:
    message = r"^W_O\[0\]\[0\] \('.*'\) cannot be read at character"
    with pytest.raises(WorksheetError, match=message):
        sheet_of(changed(SMALL, "W_O", 0, 0, to=text))
    with pytest.raises(WorksheetError, match=message):
        sheet_of(SMALL).edit({"W_O[0][0]": text})


def wide(heads: int, width: int) -> dict[str, Any]:
    """The small document with more heads, each with wider values."""
    head = SMALL["heads"][0] | {"W_V": [[1] * width] * 2}
    return SMALL | {"heads": [head] * heads, "W_O": [[1, 0]] * (heads * width)}


def long(tokens: int) -> dict[str, Any]:
    """The small document with more tokens."""
    return changed(
        SMALL, "sequences", "main", to={"tokens": ["a"] * tokens, "X": [[1, 0]] * tokens}
    )


def predicting(hidden: int, words: int) -> dict[str, Any]:
    """The small document with a prediction of so many hidden units and words."""
    layers = {"W_hidden": [[1] * hidden] * 2, "W_vocab": [[1] * words] * hidden}
    return SMALL | {"prediction": layers, "vocabulary": [f"w{i}" for i in range(words)]}


@pytest.mark.parametrize(
    ("largest", "too_large", "place"),
    [
        (SMALL | {"sequences": {f"s{i}": SMALL["sequences"]["main"] for i in range(8)}},
         SMALL | {"sequences": {f"s{i}": SMALL["sequences"]["main"] for i in range(9)}},
         "sequences"),
        (long(32), long(33), "tokens"),
        (wide(8, 1), wide(9, 1), "heads"),
        (wide(1, 32), wide(1, 33), "W_V"),
        (wide(4, 16), wide(5, 13), "heads|W_O"),
        (predicting(64, 2), predicting(65, 2), "W_hidden"),
        (predicting(2, 128), predicting(2, 129), "vocabulary|W_vocab"),
        (SMALL | {"name": "n" * 40}, SMALL | {"name": "n" * 41}, "name"),
        (SMALL | {"title": "t" * 80}, SMALL | {"title": "t" * 81}, "title"),
    ],
)  # fmt: skip
def test_limit_of_size_is_kept_on_both_sides(
    largest: dict[str, Any], too_large: dict[str, Any], place: str
) -> None:
    VALIDATOR.validate(largest)
    sheet_of(largest)
    with pytest.raises(WorksheetError, match=place):
        sheet_of(too_large)


def test_file_may_have_a_million_bytes_and_no_more() -> None:
    data = json.dumps(SMALL).encode()
    assert document_from_bytes(data + b" " * (1_000_000 - len(data)))["name"] == "small"
    with pytest.raises(WorksheetError, match="larger than 1,000,000 bytes"):
        document_from_bytes(data + b" " * (1_000_001 - len(data)))


@pytest.mark.parametrize(("size", "is_read"), [(1_000_000, True), (1_000_001, False)])
def test_worksheet_file_may_have_a_million_bytes_and_no_more(
    size: int, is_read: bool, tmp_path: Path
) -> None:
    path = tmp_path / "sheet.json"
    path.write_bytes(json.dumps(SMALL).encode().ljust(size))
    refusal = pytest.raises(WorksheetError, match="larger than 1,000,000 bytes")
    with nullcontext() if is_read else refusal:
        assert document_from_file(path)["name"] == SMALL["name"]


def test_document_may_be_nested_twelve_deep_and_no_deeper() -> None:
    deepest = b'{"expected": ' + b"[" * 12 + b"]" * 12 + b"}"
    assert document_from_bytes(deepest)
    with pytest.raises(WorksheetError, match="nested deeper than 12"):
        document_from_bytes(deepest.replace(b"[]", b"[[]]"))


def test_reading_a_list_stops_at_its_first_wrong_entry() -> None:
    with pytest.raises(ValidationError) as refused:
        Sheet.model_validate(SMALL | {"W_O": [["x"] * 9, ["y"]], "features": [1, 2]})
    wrong = [e["loc"] for e in refused.value.errors() if e["type"] == "value_error"]
    assert wrong == [("features", 0), ("W_O", 0, 0)]
