"""From a text, token ids or a batch to the arguments of a forward pass."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from manyheads.core.errors import LookError
from manyheads.data.tokens import WordTokenizer
from manyheads.looking.subject import Call, Subject

_CACHES = frozenset({"cache", "past_key_values"})
"""Names of a cache among the arguments of a model."""


def call_from(
    subject: Subject,
    text: str | Sequence[str] | None,
    inputs: Any,  # noqa: ANN401 - ids, a mapping or a tuple
    tokenizer: Any,  # noqa: ANN401 - of transformers, or our own
) -> tuple[Call, list[list[str]] | None]:
    """The arguments of a forward pass, and the tokens of each sample where they are known.

    Args:
        subject: the model.
        text: one text or several.
        inputs: token ids (B, T), a mapping of named arguments, or a tuple of arguments.
        tokenizer: turns text into ids.

    Raises:
        LookError: neither or both are given, or a text without a tokeniser.
    """
    if (text is None) == (inputs is None):
        raise LookError("text and inputs: give exactly one of them")
    if text is not None:
        inputs = _encoded(text, tokenizer)
    if isinstance(inputs, tuple):
        call = Call(args=inputs)
    elif isinstance(inputs, Mapping):
        call = Call(kwargs=dict(inputs))
    elif isinstance(inputs, Tensor):
        call = _positional(subject, inputs)
    else:
        raise LookError(
            f"inputs ({type(inputs).__name__}) must be a tensor, a mapping or a tuple: pass for "
            "instance token ids (B, T)"
        )
    call = _completed(subject, call)
    return call, _tokens(call, tokenizer)


def _encoded(text: str | Sequence[str], tokenizer: Any) -> Any:  # noqa: ANN401 - as above
    texts = [text] if isinstance(text, str) else list(text)
    if tokenizer is None:
        raise LookError("tokenizer is missing: pass tokenizer=, or token ids as inputs=")
    if not texts or not all(texts):
        raise LookError("text must be a text with at least one character, or a list of such texts")
    if isinstance(tokenizer, WordTokenizer):
        return _rows_of_words(texts, tokenizer)
    if len(texts) > 1 and getattr(tokenizer, "pad_token", "none") is None:
        ids = [tokenizer(one, return_tensors="pt")["input_ids"] for one in texts]
        if len({row.shape for row in ids}) == 1:
            return {"input_ids": torch.cat(ids)}
        raise LookError("texts have different lengths and the tokenizer cannot pad: give one text")
    found = dict(tokenizer(texts, return_tensors="pt", padding=len(texts) > 1))
    if found.get("input_ids") is None or not found["input_ids"].numel():
        raise LookError("text gives no tokens: give a longer one")
    mask = found.get("attention_mask")
    if mask is not None and bool(mask.all()):
        del found["attention_mask"]  # nothing is padding
    return found


def _rows_of_words(texts: list[str], tokenizer: WordTokenizer) -> Tensor:
    rows = [tokenizer.encode(one) for one in texts]
    if len({len(row) for row in rows}) != 1 or not rows[0]:
        raise LookError("texts must have the same number of words, at least one, with this model")
    return torch.tensor(rows)


def _positional(subject: Subject, tensor: Tensor) -> Call:
    name = getattr(subject.model, "main_input_name", None)
    if isinstance(name, str) and subject.config is not None:
        return Call(kwargs={name: tensor})
    return Call(args=(tensor,))


def _completed(subject: Subject, call: Call) -> Call:
    """Add what a forward pass needs and leave out what it does not take; move to the device."""
    device = next((p.device for p in subject.model.parameters()), torch.device("cpu"))
    args = tuple(value.to(device) if isinstance(value, Tensor) else value for value in call.args)
    kwargs = {
        name: value.to(device) if isinstance(value, Tensor) else value
        for name, value in call.kwargs.items()
    }
    if subject.config is None:
        return Call(args=args, kwargs=kwargs)
    takes = inspect.signature(subject.model.forward).parameters
    if "token_type_ids" in kwargs and "token_type_ids" not in takes:
        del kwargs["token_type_ids"]
    ids = kwargs.get("input_ids")
    start = getattr(subject.config, "decoder_start_token_id", None)
    has_decoder = getattr(subject.config, "is_encoder_decoder", False)
    needs = has_decoder and "decoder_input_ids" in takes
    if needs and ids is not None and not any(name.startswith("decoder_input") for name in kwargs):
        begin = torch.full_like(ids[:, :1], start or 0)
        kwargs["decoder_input_ids"] = torch.cat([begin, ids[:, :-1]], dim=1)
    if "use_cache" in takes and not has_decoder and not _CACHES & kwargs.keys():
        kwargs.setdefault("use_cache", False)
    return Call(args=args, kwargs=kwargs)


def without_logits(subject: Subject, call: Call) -> Call:
    """The call with the last logits only, where the model can leave logits out."""
    takes = inspect.signature(subject.model.forward).parameters
    if "logits_to_keep" not in takes or call.args:
        return call
    return Call(kwargs={"logits_to_keep": 1, **call.kwargs})


def _tokens(call: Call, tokenizer: Any) -> list[list[str]] | None:  # noqa: ANN401 - as above
    ids = call.ids
    if ids is None:
        return None
    rows = ids.tolist()
    if isinstance(tokenizer, WordTokenizer):
        return [[tokenizer.words[i] for i in row] for row in rows]
    names = getattr(tokenizer, "convert_ids_to_tokens", None)
    if names is None:
        return [[str(i) for i in row] for row in rows]
    return [[shown(tokenizer, str(name)) for name in names(row)] for row in rows]


def shown(tokenizer: Any, name: str) -> str:  # noqa: ANN401 - as above
    """A token as readers know it: the marks of byte-level and sentence pieces become spaces."""
    if name in getattr(tokenizer, "all_special_tokens", ()):
        return name
    try:
        text = str(tokenizer.convert_tokens_to_string([name]))
    except Exception:  # a token that is part of a character
        return name
    space = " " if name[:1] in ("\u0120", "\u2581") and not text.startswith(" ") else ""
    return space + text if text and "\N{REPLACEMENT CHARACTER}" not in text else name
