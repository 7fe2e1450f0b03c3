"""Texts and the words that the Python tokeniser makes of them; see `model_fixtures.py`."""

import unicodedata
from typing import Any

from manyheads.data.stories import generate_stories
from manyheads.data.tokens import WordTokenizer

TEXTS = (
    "",
    "   \n\t ",
    "Don't STOP! It’s 7:30, isn't it? “Yes,” she said — ‘maybe’…",
    "rock 'n' roll o'clock'' 'tis o''clock a'1 1'a",
    "ΟΔΟΣ ΣΑΣ straße STRASSE ẞ İstanbul ISPARTA ıssız ﬁn",
    "é é Å Å ñ ṩ ạ̈ ạ̈",
    "日本語 123 ٤٥ Ⅷ ½ x² 한국어 हिन्दी ภาษาไทย",
    "a\u00a0b\u0085c\ufeffd\u2028e\u200bf\u3000g\u180eh\u1680i\u001cj",
    "👩\u200d👩\u200d👧 🇫🇷 😀 ok👍🏽",
    "[BOS] [UNK] <b>&amp;</b> $5 (a) {b} 50% #1 e_mail@x.org",
    "zero\x00byte\x7fdel\x1besc",
    "१२ 12१ a१ ̀ ̀a '̀",
)


def tokenizer_cases(tokenizer: WordTokenizer) -> dict[str, Any]:
    """Texts with their words, ids and joined form, and every assigned character between letters."""
    stories = tuple(generate_stories(12, seed=3))
    texts = [
        {
            "text": text,
            "words": tokenizer.split(text),
            "ids": tokenizer.encode(text),
            "decoded": tokenizer.decode(tokenizer.encode(text)),
        }
        for text in (*TEXTS, *stories)
    ]
    return {"texts": texts, "characters": [_block(tokenizer, n) for n in range(0x110000 >> 8)]}


def _block(tokenizer: WordTokenizer, number: int) -> list[Any] | None:
    """A text with each assigned character of 256 between letters, and its words; None for none."""
    codes = [code for code in range(number << 8, number + 1 << 8) if _is_compared(chr(code))]
    if not codes:
        return None
    text = " ".join(f"q{chr(code)}x" for code in codes)
    return [text, tokenizer.split(text)]


def _is_compared(character: str) -> bool:
    """Whether a character is assigned, and no half and for no private use."""
    return unicodedata.category(character) not in ("Cn", "Cs", "Co")
