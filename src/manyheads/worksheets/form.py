"""The building blocks of JSON forms that people write: texts, names, exact numbers, objects.

Errors of pydantic become one line here: the place, the value, the rule and what to do.
"""

import unicodedata
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    GetPydanticSchema,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import ErrorDetails, core_schema
from typing_extensions import TypeAliasType

from manyheads.core.errors import WorksheetError
from manyheads.worksheets.numbers import Literal, number_from, shown
from manyheads.worksheets.places import joined, listed, written


class _FailFast(FailFast):
    """Can be hashed, so that `typing` accepts it in a union."""

    __hash__ = object.__hash__


FIRST_ERROR = _FailFast()
"""Stop reading a list at its first wrong entry."""


class RefusalError(ValueError):
    """What is wrong with a value, and what to do; the place is added later."""

    def __init__(self, reason: str, key: str | None = None) -> None:
        super().__init__(reason)
        self.key = key


def _checked_text(value: object) -> str:
    if not isinstance(value, str) or isinstance(value, Literal):
        raise RefusalError("must be text: write it in quotes")
    if not 1 <= len(value) <= 80:
        raise RefusalError("must have 1 to 80 characters: change its length")
    # U+200C and U+200D join or separate letters in Persian, Hindi and other scripts.
    plain = value.replace("\u200c", "").replace("\u200d", "")
    if not plain.isprintable() or not plain.strip():
        raise RefusalError("must be printable: use letters, digits and punctuation")
    return value


def _checked_name(value: object) -> str:
    is_text = isinstance(value, str) and not isinstance(value, Literal)
    if not is_text or not _is_name(str(value)):
        raise RefusalError("must be a short name: use up to 40 letters, digits, - and _")
    return str(value)


def _is_name(text: str) -> bool:
    """Whether a text has only letters, digits, - and _, in any script; accents count as letters."""
    plain = all(c in "-_" or unicodedata.category(c)[0] in "LMN" for c in text)
    return 1 <= len(text) <= 40 and text[0].isalnum() and plain


_T = TypeVar("_T")
Optional = Annotated[
    _T | None, GetPydanticSchema(lambda union, handler: handler(get_args(union)[0]))
]
"""An optional part; null is not allowed."""

ExactNumber = TypeAliasType(
    "ExactNumber",
    Annotated[
        Any,
        PlainValidator(number_from),
        WithJsonSchema(
            {
                "title": "number",
                "description": "A JSON number, read as written (0.1 is one tenth), or a text such "
                'as "1/7", "-sqrt(2)", "ln(2)", "1 + 2*sqrt(3)/5": numerals, + - * / ( ), and ln '
                "and sqrt of a fraction.",
                "anyOf": [
                    {"type": "number"},
                    {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": 100,
                        "pattern": "^[-+*/().0-9eElnsqrt\N{MINUS SIGN}\\s]+$",
                    },
                ],
            }
        ),
    ],
)
Text = TypeAliasType(
    "Text",
    Annotated[
        str,
        PlainValidator(_checked_text),
        WithJsonSchema({"title": "text", "type": "string", "minLength": 1, "maxLength": 80}),
    ],
)
Name = TypeAliasType(
    "Name",
    Annotated[
        str,
        PlainValidator(_checked_name),
        WithJsonSchema(
            {
                "title": "name",
                "description": "Up to 40 letters and digits of any script, - and _.",
                "type": "string",
                "pattern": r"^[^\s!-/:-@\[-`{-~]([^\s!-,./:-@\[-^`{-~]){0,39}$",
            }
        ),
    ],
)


class Axes(NamedTuple):
    """The letters of a shape, written at a field; "" is free."""

    letters: tuple[str, ...]


class Part(BaseModel):
    """An object of the form: it has these keys and no others."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @classmethod
    def key_names(cls) -> tuple[str, ...]:
        """The keys of the object in a file."""
        return tuple(field.alias or name for name, field in cls.model_fields.items())

    @model_validator(mode="before")
    @classmethod
    def _known(cls, value: object) -> object:
        for key in value if isinstance(value, dict) else ():
            if key not in cls.key_names():
                use = listed(cls.key_names(), 20)
                raise RefusalError(f"is not a part of a worksheet: use {use}", str(key))
        return value


class PlainSchema(GenerateJsonSchema):
    """JSON Schema without titles made of field names and without defaults of null."""

    def field_title_should_be_set(self, schema: object) -> bool:
        """Leave the field's title out."""
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Leave a default of null or of an empty text out."""
        made = super().default_schema(schema)
        return {key: value for key, value in made.items() if key != "default" or value}


_RULES = {
    "model_type": "must be an object: write it in { }",
    "dict_type": "must be an object: write it in { }",
    "mapping_type": "must be an object: write it in { }",
    "tuple_type": "must be a list: write it in [ ]",
    "bool_type": "must be true or false: use one of them",
}


def message_from(error: ErrorDetails) -> str:
    """Name the place of an error in a document, the rule, and what to do."""
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, WorksheetError):
        return str(cause)
    place = written([key for key in error["loc"] if key != "[key]"])
    if error["type"] == "missing":
        return f"{place} is missing: add it"
    if error["type"] in ("too_short", "too_long"):
        return _count_message(place, error["ctx"])
    if isinstance(cause, RefusalError) and cause.key is not None:
        return f"{joined(place, cause.key)} {cause}"
    reason = cause or _RULES[error["type"]]
    return f"{place} ({shown(error['input'])}) {reason}"


def _count_message(place: str, found: Mapping[str, Any]) -> str:
    if "min_length" in found:
        return f"{place} has no entries: give at least {found['min_length']}"
    count, most = found["actual_length"], found["max_length"]
    return f"{place} ({count} entries) must have at most {most}: use a smaller worksheet"
