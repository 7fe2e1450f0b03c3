"""Generated stories: an unlimited corpus of short, coherent texts whose structure is known.

A story is a plot of `story_plots.toml` filled with words. A slot is one free choice of a story,
such as its colour; the value of a slot gives one word for each form that follows from it (a lamp
helps where it is dark and makes you safe). A word written `kite/kites` has two readings, chosen by
a second slot. Because the origin of each word is known, a story also carries labelled tests: a
word, and the earlier word that determines it.
"""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from manyheads.core.errors import DataError

_NAMES = """
Lily/Tom Mia/Ben Anna/Sam Lucy/Max Sara/Leo Emma/Tim Ella/Jack Zoe/Finn Nora/Noah Clara/Oscar
Maya/Peter Alice/Paul Molly/David Amy/Henry Jane/Simon Kate/Adam Lena/Luke Nina/Oliver
Tina/Daniel Eva/Eric Ruth/Felix Sally/Hugo Wendy/Ivan Polly/Jonas Hanna/Karl Julia/Martin
Laura/Nico Maria/Otto Olga/Victor Greta/Walter Rosa/Marco Freya/Anton Ida/Emil Nelly/Ralf
Vera/Boris Iris/Edgar Dora/Hector Flora/Conrad Stella/Gustav Bella/Rufus Ada/Milo Thea/Jasper
Cora/Silas Elsa/Bruno Lotte/Fritz Gina/Pablo Hazel/Dexter Ivy/Linus June/Otis Pearl/Wilbur
"""


def _values(forms: str, rows: str) -> tuple[dict[str, str], ...]:
    """Values of a slot: one for each comma-separated row, its words in the order of the forms."""
    names = forms.split()
    return tuple(
        dict(zip(names, row.split(), strict=True)) for row in rows.replace("\n", " ").split(",")
    )


def _words(form: str, words: str) -> tuple[dict[str, str], ...]:
    """Values of a slot that has a single form."""
    return tuple({form: word} for word in words.split())


SLOTS: dict[str, tuple[dict[str, str], ...]] = {
    "gender": _values(
        "child he him his himself fchild fhe fhim fhis",
        "girl she her her herself boy he him his, boy he him his himself girl she her her",
    ),
    "number": _values(
        "a is was it them this", "a is was it it this, some are were they them these"
    ),
    "hero": _words("hero", _NAMES),
    "friend": tuple({"friend": "/".join(pair.split("/")[::-1])} for pair in _NAMES.split()),
    "age": _words("age", "three four five six seven eight nine ten"),
    "trait": _words(
        "trait",
        """kind brave clever curious cheerful gentle quiet lively patient careful honest polite shy
        funny dreamy stubborn helpful merry""",
    ),
    "time": _words("time", "morning afternoon evening day"),
    "days": _words("days", "two three four five six seven"),
    "sky": _words("sky", "fine bright quiet lovely lazy ordinary pleasant calm misty golden busy"),
    "thing": _words(
        "thing",
        """kite/kites ball/balls drum/drums doll/dolls bell/bells shell/shells stone/stones
        button/buttons marble/marbles ring/rings book/books feather/feathers balloon/balloons
        coin/coins ribbon/ribbons trumpet/trumpets crayon/crayons flag/flags pebble/pebbles
        spoon/spoons cup/cups hammer/hammers ticket/tickets map/maps mask/masks mirror/mirrors
        magnet/magnets pencil/pencils robot/robots rocket/rockets sticker/stickers top/tops
        whistle/whistles candle/candles brush/brushes""",
    ),
    "colour": _words(
        "colour", "red blue green yellow pink purple orange brown black white golden silver grey"
    ),
    "quality": _words(
        "quality", "old new small big shiny pretty lovely tiny round dusty heavy light strange"
    ),
    "place": _words(
        "place",
        """garden park forest meadow yard barn village field valley market orchard square street
        castle library museum zoo playground station stable vineyard jungle desert attic cellar""",
    ),
    "spot": _words(
        "spot",
        """tree bench gate well pond bridge fence hill rocks flowers bushes stairs trees steps
        river lake wall cave fountain statue signpost haystack shed hedge tower ditch
        lighthouse stream""",
    ),
    "container": _words(
        "container",
        "basket box bag drawer jar chest bucket cupboard trunk pot suitcase sack barrel tin",
    ),
    "animal": _values(
        "animal sound",
        """cat purred, dog barked, duck quacked, bird sang, frog croaked, lamb bleated,
        pony neighed, owl hooted, mouse squeaked, hen clucked, pig grunted, bear growled,
        bee buzzed, cow mooed, goose hissed, donkey brayed, wolf howled, crow cawed, pigeon cooed,
        lion roared, snake rattled, puppy whined, parrot whistled, elephant trumpeted""",
    ),
    "food": _words(
        "food",
        """bread cheese cake honey corn rice pie pudding jam fruit soup porridge butter chocolate
        popcorn toast yoghurt lemonade""",
    ),
    "parent": _words("parent", "mother father grandmother grandfather aunt uncle"),
    "vehicle": _words(
        "vehicle", "boat train car cart wagon bus truck van tractor sledge coach ferry"
    ),
    "glad": _words("glad", "happy glad proud pleased delighted thankful joyful excited"),
    "sad": _words("sad", "sad upset worried unhappy lonely gloomy"),
    "trouble": _values(
        "tool weather comfort",
        """lamp dark safe, umbrella rainy dry, scarf cold warm, fan hot cool, boots muddy clean,
        blanket frosty cosy, tent stormy sheltered""",
    ),
    "plant": _words(
        "plant",
        """tulip/tulips pumpkin/pumpkins carrot/carrots bean/beans melon/melons berry/berries
        rose/roses onion/onions daisy/daisies cucumber/cucumbers""",
    ),
    "craft": _values(
        "gift stuff",
        """card paper, mat straw, bowl clay, puppet cloth, stool wood, crown cardboard,
        necklace string, pillow wool""",
    ),
    "work": _values(
        "worker workplace",
        """baker bakery, farmer farm, sailor harbour, gardener greenhouse, teacher school,
        doctor hospital, miller mill, painter studio, nurse clinic, cook kitchen, fisher pier,
        smith forge""",
    ),
    "season": _words("season", "spring summer autumn winter"),
    "hobby": _words("hobby", "run hop skip draw hum read hike explore dig count"),
    "garment": _words("garment", "hat coat cap jacket sweater hood cape apron vest belt"),
    "skill": _words("skill", "swim dance sing skate juggle climb paint knit write dive ski row"),
    "dish": _words("dish", "stew salad sauce custard spaghetti pizza curry omelette jelly tart"),
    "spice": _words("spice", "salt sugar pepper cinnamon flour milk oil vinegar"),
    "structure": _words("structure", "hut castle raft swing dam ladder nest cabin maze slide"),
    "material": _words("material", "timber sand mud rope bamboo gravel cement bark"),
}
"""Every slot and its values, in the order in which they are drawn."""

SECOND_SLOTS = {"hero": "gender", "friend": "gender", "thing": "number", "plant": "number"}
"""The slot that chooses between the two readings of a form's word."""

SLOT_OF_FORM = {form: slot for slot, values in SLOTS.items() for form in values[0]}
"""The slot that a form belongs to."""

_ONES = ("hero",)
_OTHERS = ("friend",)
_NAMED = ("thing", "plant")
SOURCES = {
    **dict.fromkeys(("he", "him", "his", "himself", "child"), _ONES),
    **dict.fromkeys(("fhe", "fhim", "fhis", "fchild"), _OTHERS),
    **dict.fromkeys(("a", "is", "was", "it", "them", "this"), _NAMED),
    "sound": ("animal",),
    "weather": ("tool",),
    "comfort": ("weather", "tool"),
    "workplace": ("worker",),
    "stuff": ("gift",),
}
"""The form that is the source of a labelled form; a form that is not listed returns itself."""

KINDS = {
    **dict.fromkeys(("hero", "friend"), "name"),
    **dict.fromkeys(("he", "him", "his", "himself", "fhe", "fhim", "fhis"), "pronoun"),
    **dict.fromkeys(("is", "was", "it", "them", "this"), "number"),
    **dict.fromkeys(("place", "spot", "container"), "place"),
    **dict.fromkeys(("sound", "weather", "comfort", "workplace", "stuff"), "association"),
    **dict.fromkeys(("animal", "parent", "worker"), "character"),
    **dict.fromkeys(
        ("dish", "food", "garment", "gift", "material", "plant", "spice", "structure", "thing"),
        "object",
    ),
    **dict.fromkeys(("tool", "vehicle"), "object"),
    "skill": "action",
    "colour": "colour",
}
"""The usual kind of agreement of each labelled form."""


_PLOTS_FILE = Path(__file__).parent / "story_plots.toml"
_FIELD = re.compile(r"\{(\w+)(!?)(\w*)\}")
_WORD = re.compile(r"[^\W\d_]+|[^\w\s]")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiou])")
_SLOT_INDEX = {slot: index for index, slot in enumerate(SLOTS)}


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """A labelled test: to predict the target, a head must find what determines it."""

    kind: str
    """One of "name", "pronoun", "number", "object", "character", "owner", "colour", "place",
    "action" or "association" (a duck quacked; the baker's workplace is the bakery)."""
    target: str
    """The word to predict, in lower case."""
    target_index: int
    """Its index among the story's words, from 0."""
    source: str
    """The earlier word that determines it, in lower case."""
    source_index: int
    """Index of the first occurrence of the source."""
    mentions: tuple[int, ...]
    """Indices of all earlier words that show the same choice, including the source."""
    slot: str
    """The choice of the story that is tested, such as "colour"."""

    @property
    def distance(self) -> int:
        """Distance from the source to the target, in words."""
        return self.target_index - self.source_index


@dataclass(frozen=True, kw_only=True)
class StoryChoices:
    """The choices that determine a story; equal choices give equal texts."""

    plot: int
    """Index of the plot, from 0."""
    wordings: tuple[int, ...]
    """Index of the sentence chosen for each beat, from 0."""
    values: tuple[int, ...]
    """Index of the value of each slot, in the order of `SLOTS`."""


@dataclass(frozen=True, kw_only=True)
class Story:
    """A generated story with its labels and choices."""

    text: str
    """The text, one paragraph."""
    words: tuple[str, ...]
    """Its words and marks in lower case, as `WordTokenizer.split` cuts them."""
    labels: tuple[Agreement, ...]
    """The labelled tests, in the order of their targets."""
    choices: StoryChoices
    """The choices that determine it."""

    def swapped(self, label: Agreement) -> "Story":
        """The same story with another source, and therefore another target.

        All words keep their positions. Only words of the tested choice, and an article before one,
        differ.

        Args:
            label: one of this story's labels.

        Raises:
            DataError: the label belongs to another story.
        """
        if label not in self.labels:
            raise DataError(f"label ({label.target}) must be one of the story's own labels")
        values = list(self.choices.values)
        place = _SLOT_INDEX[label.slot]
        values[place] = (values[place] + 1) % len(SLOTS[label.slot])
        return _told(
            StoryChoices(
                plot=self.choices.plot, wordings=self.choices.wordings, values=tuple(values)
            )
        )


def tell_story(index: int, *, seed: int = 0) -> Story:
    """Generate one story; it depends only on the seed and its index.

    Args:
        index: index of the story, from 0.
        seed: random seed.

    Raises:
        DataError: index is negative.
    """
    if index < 0:
        raise DataError(f"index ({index}) must not be negative: use 0 or more")
    return _told(_choices(index, seed))


def generate_stories(count: int, *, seed: int = 0) -> list[str]:
    """Generate the first `count` stories of a seed, as texts.

    Args:
        count: number of stories; a larger count begins with the same stories.
        seed: random seed.

    Raises:
        DataError: count is negative.
    """
    if count < 0:
        raise DataError(f"count ({count}) must not be negative: use 0 or more")
    return [_text(_choices(index, seed))[0] for index in range(count)]


@dataclass(frozen=True, kw_only=True)
class _Field:
    """A placeholder for a word in a sentence."""

    form: str
    is_capital: bool
    kind: str  # empty if the word is not a labelled test
    sources: tuple[str, ...]  # forms, one of which determines the word
    slot: str


@dataclass(frozen=True, kw_only=True)
class _Sentence:
    """One sentence for a beat: literal texts, and the fields between them."""

    literals: tuple[str, ...]
    literal_counts: tuple[int, ...]  # words of each literal
    fields: tuple[_Field, ...]
    forms: frozenset[str]
    needs: tuple[tuple[str, ...], ...]  # of each row, one form must be named before the sentence


@cache
def _plots() -> tuple[tuple[tuple[_Sentence, ...], ...], ...]:
    """Every plot: its beats, and the sentences for each."""
    given = tomllib.loads(_PLOTS_FILE.read_text(encoding="utf-8"))
    return tuple(
        tuple(
            tuple(map(_sentence, beat))
            for beat in (given["openings"], given["habits"], *plot["beats"], given["endings"])
        )
        for plot in given["plots"]
    )


def _sentence(template: str) -> _Sentence:
    pieces = _FIELD.split(template)  # literal, name, mark, kind, literal, ...
    fields = tuple(map(_field, pieces[1::4], pieces[2::4], pieces[3::4]))
    needs: list[tuple[str, ...]] = []
    named: set[str] = set()
    for field in fields:
        if field.kind and named.isdisjoint(field.sources):
            needs.append(field.sources)
        named.add(field.form)
    return _Sentence(
        literals=tuple(pieces[::4]),
        literal_counts=tuple(len(_WORD.findall(literal)) for literal in pieces[::4]),
        fields=fields,
        forms=frozenset(named),
        needs=tuple(needs),
    )


def _field(name: str, mark: str, kind: str) -> _Field:
    form = name.lower()
    return _Field(
        form=form,
        is_capital=name[0].isupper(),
        kind=kind or KINDS[form] if mark else "",
        sources=SOURCES.get(form, (form,)),
        slot=SLOT_OF_FORM[form],
    )


def _choices(index: int, seed: int) -> StoryChoices:
    # `Random.random` is the only method whose numbers Python guarantees not to change.
    draw = Random(f"manyheads story {seed} {index}").random
    values = tuple(int(draw() * len(slot_values)) for slot_values in SLOTS.values())
    plot = int(draw() * len(_plots()))
    named: set[str] = set()
    wordings = []
    for beat in _plots()[plot]:
        possible = [
            number
            for number, sentence in enumerate(beat)
            if not any(named.isdisjoint(need) for need in sentence.needs)
        ]
        wordings.append(possible[int(draw() * len(possible))])
        named |= beat[wordings[-1]].forms
    return StoryChoices(plot=plot, wordings=tuple(wordings), values=values)


def _words_by_form(values: tuple[int, ...]) -> dict[str, str]:
    words: dict[str, str] = {}
    for slot_values, value in zip(SLOTS.values(), values, strict=True):
        words.update(slot_values[value])
    for form, slot in SECOND_SLOTS.items():
        words[form] = words[form].split("/")[values[_SLOT_INDEX[slot]]]
    return words


def _text(choices: StoryChoices) -> tuple[str, list[tuple[int, _Field]]]:
    """The text of a story, and the position of each field's word."""
    words = _words_by_form(choices.values)
    pieces: list[str] = []
    placed: list[tuple[int, _Field]] = []
    count = 0
    for beat, wording in zip(_plots()[choices.plot], choices.wordings, strict=True):
        sentence = beat[wording]
        pieces.append(sentence.literals[0])
        count += sentence.literal_counts[0]
        for number, field in enumerate(sentence.fields, start=1):
            placed.append((count, field))
            word = words[field.form]
            pieces += [word.capitalize() if field.is_capital else word, sentence.literals[number]]
            count += 1 + sentence.literal_counts[number]
        pieces.append(" ")
    return _ARTICLE.sub(r"\1n ", "".join(pieces).rstrip()), placed


def _told(choices: StoryChoices) -> Story:
    text, placed = _text(choices)
    words = tuple(_WORD.findall(text.lower()))
    return Story(text=text, words=words, labels=_labels(words, placed), choices=choices)


def _labels(words: tuple[str, ...], placed: list[tuple[int, _Field]]) -> tuple[Agreement, ...]:
    labels = []
    first_places: dict[str, int] = {}  # of each form
    slot_places: dict[str | None, list[int]] = {slot: [] for slot in SLOTS}
    for index, field in placed:
        if field.kind:
            source_index = min(first_places[form] for form in field.sources if form in first_places)
            labels.append(
                Agreement(
                    kind=field.kind,
                    target=words[index],
                    target_index=index,
                    source=words[source_index],
                    source_index=source_index,
                    mentions=tuple(slot_places[field.slot]),
                    slot=field.slot,
                )
            )
        first_places.setdefault(field.form, index)
        for slot in (field.slot, SECOND_SLOTS.get(field.form)):
            slot_places.setdefault(slot, []).append(index)
    return tuple(labels)
