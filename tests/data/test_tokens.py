"""Words and numbers: what is kept comes back exactly, and everything is the same each time."""

import json
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.core.errors import DataError
from manyheads.data.tokens import SPECIAL_WORDS, Joiner, WordTokenizer
from manyheads.models.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID

TEXT = 'Tom said, "I don\'t see 3 cats." Tom saw 3 dogs; (one), [two]: "Look!" said Tom.'
READABLE = TEXT.lower()


def tokenizer_of(*texts: str, min_count: int = 1) -> WordTokenizer:
    return WordTokenizer.train(texts, min_count=min_count)


def test_special_words_have_the_first_ids() -> None:
    assert (PAD_ID, BOS_ID, EOS_ID, UNK_ID) == (0, 1, 2, 3)
    assert tokenizer_of(TEXT).words[:4] == SPECIAL_WORDS


def test_words_numbers_and_marks_are_cut_apart() -> None:
    assert tokenizer_of("x").split("It's 3rd--no: \u201cWe\u2019d\u2026\u201d 'Hi'") == [
        *("it's", "3", "rd", "-", "-", "no", ":", '"', "we'd", ".", ".", ".", '"'),
        *("'", "hi", "'"),
    ]


def test_ascii_words_have_letters_a_to_z_and_one_apostrophe() -> None:
    tokenizer = WordTokenizer.train(["x"], min_count=1, is_ascii=True)
    assert tokenizer.split("Zo\u00eb can't've 3rd \uff21_b \u2019tis!") == [
        *("zo", "can't", "'", "ve", "3", "rd", "a", "b", "'", "tis", "!"),
    ]


def test_readable_text_comes_back_as_it_was_in_lower_case() -> None:
    tokenizer = tokenizer_of(TEXT)
    assert tokenizer.decode(tokenizer.encode(TEXT)) == READABLE


@given(text=st.text(max_size=60))
def test_any_text_that_is_kept_makes_an_exact_round_trip(text: str) -> None:
    tokenizer = tokenizer_of(text + " x")
    ids = tokenizer.encode(text)
    assert UNK_ID not in ids
    assert tokenizer.encode(tokenizer.decode(ids)) == ids
    assert [tokenizer.words[index] for index in ids] == tokenizer.split(text)


@given(
    text=st.text(
        alphabet=string.ascii_letters
        + string.digits
        + string.punctuation
        + " \n\u2019\u201c\u0301",
        max_size=80,
    )
)
def test_any_marks_make_an_exact_round_trip(text: str) -> None:
    tokenizer = tokenizer_of(text + " x")
    ids = tokenizer.encode(text)
    assert tokenizer.encode(tokenizer.decode(ids)) == ids


def test_the_whole_sample_makes_an_exact_round_trip(shared: Path) -> None:
    from manyheads.data.text import read_stories

    stories = read_stories(shared / "data" / "tinystories-sample.jsonl", limit=300)
    tokenizer = tokenizer_of(*stories)
    for story in stories:
        ids = tokenizer.encode(story)
        assert UNK_ID not in ids
        assert tokenizer.encode(tokenizer.decode(ids)) == ids


def test_unknown_words_get_the_unknown_id_and_are_kept_by_split() -> None:
    tokenizer = tokenizer_of("the cat")
    assert tokenizer.encode("The Zebra cat") == [tokenizer.ids["the"], UNK_ID, tokenizer.ids["cat"]]
    assert tokenizer.split("The Zebra cat") == ["the", "zebra", "cat"]


def test_half_a_character_is_refused() -> None:
    with pytest.raises(DataError, match=r"text \('\\udcff x'\) must not have half of a character"):
        tokenizer_of("x").encode("\udcff x")


def test_typing_the_name_of_a_special_word_makes_none() -> None:
    tokenizer = tokenizer_of("[ pad ] [PAD] bos")
    words = [tokenizer.words[index] for index in tokenizer.encode("[PAD]")]
    assert words == ["[", "pad", "]"]


def test_words_are_kept_by_falling_count_and_then_by_alphabet() -> None:
    tokenizer = tokenizer_of("c c c b b a a d", min_count=2)
    assert tokenizer.words[4:] == ("c", "a", "b")
    assert WordTokenizer.train(["c c c b b a a d"], vocab_size=6).words[4:] == ("c", "a")


def test_training_again_gives_the_same_tokeniser_and_other_words_another() -> None:
    words = " ".join(a + b for a in string.ascii_letters for b in string.ascii_letters)
    first, second = tokenizer_of(words), tokenizer_of(words)
    assert first.to_json() == second.to_json()
    assert first.sha256 == second.sha256
    assert first.sha256 != tokenizer_of(words + " other").sha256


def test_a_saved_tokeniser_comes_back_equal(tmp_path: Path) -> None:
    tokenizer = tokenizer_of(TEXT, "caf\u00e9 \u4f60")
    tokenizer.save(tmp_path / "t.json")
    loaded = WordTokenizer.load(tmp_path / "t.json")
    assert loaded.words == tokenizer.words
    assert loaded.sha256 == tokenizer.sha256
    assert loaded.encode(TEXT) == tokenizer.encode(TEXT)
    assert loaded.vocab_size == len(tokenizer.words)


@pytest.mark.parametrize("content", ["", "{}", "not json", '{"model": 3}'])
def test_a_damaged_file_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match="tokenizer"):
        WordTokenizer.load(path)


def test_a_missing_file_and_a_binary_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.json\) cannot be read"):
        WordTokenizer.load(tmp_path / "none.json")
    (tmp_path / "b.json").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"b\.json\) cannot be read"):
        WordTokenizer.load(tmp_path / "b.json")


def test_a_tokeniser_with_other_special_words_is_refused() -> None:
    text = tokenizer_of(TEXT).to_json().replace('"[BOS]"', '"[CLS]"')
    with pytest.raises(DataError, match=r"must begin with \[PAD\], \[BOS\], \[EOS\], \[UNK\]"):
        WordTokenizer.from_json(text)


@pytest.mark.parametrize("part", ["normalizer", "pre_tokenizer"])
def test_a_tokeniser_that_cannot_cut_text_is_refused(part: str) -> None:
    rules = json.loads(WordTokenizer.train(["a a b b"]).to_json()) | {part: None}
    with pytest.raises(DataError, match="must define how text is split"):
        WordTokenizer.from_json(json.dumps(rules))


def test_a_vocabulary_without_room_for_a_word_is_refused() -> None:
    with pytest.raises(DataError, match=r"vocab_size \(4\) must be at least 5"):
        WordTokenizer.train([TEXT], vocab_size=4)


@given(text=st.text(alphabet='ab ".,!(', max_size=40))
def test_words_put_together_one_by_one_give_the_same_text(text: str) -> None:
    tokenizer = tokenizer_of(text + " x")
    joiner = Joiner()
    pieces = [joiner.piece(word) for word in tokenizer.split(text)]
    assert "".join(pieces) == tokenizer.decode(tokenizer.encode(text))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["one", ".", "two", ",", "three", "!"], "one. two, three!"),
        (['"', "hi", ",", '"', "she", "said", ".", '"', "oh", '"'], '"hi," she said. "oh"'),
        (["(", "a", ")", "b", "%"], "(a) b%"),
        (["$", "3", "#", "4"], "$3 #4"),
        ([".", "a"], ". a"),
        (["a", "-", "b"], "a - b"),
    ],
)
def test_spaces_stand_where_readers_expect_them(words: list[str], text: str) -> None:
    joiner = Joiner()
    assert "".join(map(joiner.piece, words)) == text
