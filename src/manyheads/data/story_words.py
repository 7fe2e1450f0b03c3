"""The words of generated stories: what each part of a story may be.

A slot is one free choice of a story, such as its colour; a value of a slot gives one word for each
form that follows from the choice (a lamp helps where it is dark and makes you safe). A word
written `kite/kites` has two readings, chosen by a second slot. Every form is a single word, so
another value never moves the other words of a story.
"""

_NAMES = """
Lily/Tom Mia/Ben Anna/Sam Lucy/Max Sara/Leo Emma/Tim Ella/Jack Zoe/Finn Nora/Noah Clara/Oscar
Maya/Peter Alice/Paul Molly/David Amy/Henry Jane/Simon Kate/Adam Lena/Luke Nina/Oliver
Tina/Daniel Eva/Eric Ruth/Felix Sally/Hugo Wendy/Ivan Polly/Jonas Hanna/Karl Julia/Martin
Laura/Nico Maria/Otto Olga/Victor Greta/Walter
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
        "trait", "kind brave clever curious cheerful gentle quiet lively patient careful"
    ),
    "time": _words("time", "morning afternoon evening day"),
    "days": _words("days", "two three four five six seven"),
    "sky": _words("sky", "fine bright quiet lovely lazy ordinary pleasant calm"),
    "thing": _words(
        "thing",
        """kite/kites ball/balls drum/drums doll/dolls bell/bells shell/shells stone/stones
        button/buttons marble/marbles ring/rings book/books feather/feathers balloon/balloons
        coin/coins ribbon/ribbons trumpet/trumpets crayon/crayons flag/flags""",
    ),
    "colour": _words(
        "colour", "red blue green yellow pink purple orange brown black white golden silver grey"
    ),
    "quality": _words("quality", "old new small big shiny pretty lovely tiny"),
    "place": _words(
        "place", "garden park forest meadow yard barn village field valley market orchard square"
    ),
    "spot": _words(
        "spot",
        """tree bench gate well pond bridge fence hill rocks flowers bushes stairs trees steps
        river lake wall cave""",
    ),
    "container": _words("container", "basket box bag drawer jar chest bucket cupboard trunk pot"),
    "animal": _values(
        "animal sound",
        """cat purred, dog barked, duck quacked, bird sang, frog croaked, lamb bleated,
        pony neighed, owl hooted, mouse squeaked, hen clucked, pig grunted, bear growled,
        bee buzzed, cow mooed, goose hissed, donkey brayed""",
    ),
    "food": _words("food", "bread cheese cake honey corn rice pie pudding jam fruit soup porridge"),
    "parent": _words("parent", "mother father grandmother grandfather aunt uncle"),
    "vehicle": _words("vehicle", "boat train car cart wagon bus truck van"),
    "glad": _words("glad", "happy glad proud pleased delighted thankful"),
    "sad": _words("sad", "sad upset worried unhappy lonely"),
    "trouble": _values(
        "tool weather comfort",
        """lamp dark safe, umbrella rainy dry, scarf cold warm, fan hot cool, boots muddy clean,
        blanket frosty cosy, tent stormy sheltered""",
    ),
    "plant": _words(
        "plant",
        """tulip/tulips pumpkin/pumpkins carrot/carrots bean/beans melon/melons berry/berries""",
    ),
    "craft": _values(
        "gift stuff",
        """card paper, mat straw, bowl clay, puppet cloth, whistle wood, crown cardboard""",
    ),
    "work": _values(
        "worker workplace",
        """baker bakery, farmer farm, sailor harbour, gardener greenhouse, teacher school,
        doctor hospital, miller mill, painter studio""",
    ),
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
"""Where the source of a labelled form stands; a form that is not listed returns itself."""

KINDS = {
    **dict.fromkeys(("hero", "friend"), "name"),
    **dict.fromkeys(("he", "him", "his", "himself", "fhe", "fhim", "fhis"), "pronoun"),
    **dict.fromkeys(("is", "was", "it", "them", "this"), "number"),
    **dict.fromkeys(("place", "spot", "container"), "place"),
    **dict.fromkeys(("sound", "weather", "comfort", "workplace", "stuff"), "association"),
    **dict.fromkeys(("animal", "parent", "worker"), "character"),
    **dict.fromkeys(("food", "gift", "plant", "thing", "tool", "vehicle"), "object"),
    "colour": "colour",
}
"""The usual kind of agreement of each labelled form."""
