"""Sizes that are read off a built subject, and weights that a function takes as arguments."""

from dataclasses import replace
from typing import Any

from torch import nn

from manyheads.core.errors import SubjectError
from manyheads.verify.infer_build import read_sizes
from manyheads.verify.infer_form import weight_arguments
from manyheads.verify.infer_inventory import take_inventory
from manyheads.verify.infer_names import Stranger
from manyheads.verify.infer_params import params_words
from manyheads.verify.infer_trial import Argument
from manyheads.verify.subject import Subject


def check_divides(subject: Subject) -> None:
    """Refuse heads that do not divide the width where no head width is known.

    Raises:
        SubjectError: they do not.
    """
    spec = subject.spec
    if spec.embed_dim and spec.num_heads and not spec.head_dim and spec.embed_dim % spec.num_heads:
        raise SubjectError(
            f"spec.num_heads ({spec.num_heads}) must divide spec.embed_dim ({spec.embed_dim}): "
            "declare head_dim"
        )


def with_sizes(made: Stranger, subject: Subject, inferred: dict[str, Any]) -> Subject:
    """Width and heads off the built object, or off the arguments that it was built with."""
    spec = subject.spec
    known = read_sizes(made, spec)
    guessed = inferred.get("build.kwargs", {})
    for size, names in (
        ("embed_dim", ("embed_dim", "d_model", "dim", "n_embd", "hidden_size")),
        ("num_heads", ("num_heads", "n_heads", "heads")),
    ):
        if size not in known and getattr(spec, size) is None:
            value = next((guessed[n] for n in names if isinstance(guessed.get(n), int)), None)
            known |= {} if value is None else {size: value}
    known = {
        n: v
        for n, v in known.items()
        if n != "num_kv_heads" or (known.get("num_heads") or spec.num_heads or 0) % v == 0
    }
    if spec.num_heads is None and "num_heads" not in known:
        raise SubjectError(
            "spec.num_heads is missing and no attribute of the subject says it: declare --num-heads"
        )
    if spec.embed_dim is None and "embed_dim" not in known and spec.head_dim is None:
        raise SubjectError(
            "spec.embed_dim is missing and no attribute of the subject says it: declare --embed-dim"
        )
    if known:
        inferred["spec"] = dict(known)
    return subject.with_spec(**known)


def with_weight_arguments(
    made: Stranger, subject: Subject, arguments: list[Argument], inferred: dict[str, Any]
) -> Subject:
    """Names of the weights where a function takes them as arguments."""
    if isinstance(made, nn.Module) or subject.params is not None:
        return subject
    params = weight_arguments(arguments)
    if params is None:
        return subject
    inferred["params"] = params_words(params)
    return replace(subject, params=params)


def with_context_width(made: Stranger, subject: Subject) -> Subject:
    """The width of a context, where keys or values are read from another width than queries."""
    spec = subject.spec
    if spec.kdim is not None or not isinstance(made, nn.Module):
        return subject
    inventory = take_inventory(made, spec.heads, spec.num_kv_heads)
    if inventory.multihead is not None:
        inner = made.get_submodule(inventory.multihead)
        if not isinstance(inner, nn.MultiheadAttention):
            return subject
        kdim = inner.kdim if inner.kdim != spec.width else None
        vdim = inner.vdim if inner.vdim != inner.kdim else None
        return subject.with_spec(kdim=kdim, vdim=spec.vdim or vdim)
    items = [
        i
        for i in inventory.items
        if i.role in ("k", "kv") and i.is_module and i.count == 1 and len(i.shape) == 2
    ]
    narrow = spec.width // spec.heads
    if items and items[0].columns not in (spec.width, narrow):
        subject = subject.with_spec(kdim=items[0].columns)
    values = [
        i
        for i in inventory.items
        if i.role == "v" and i.is_module and i.count == 1 and len(i.shape) == 2
    ]
    usual = subject.spec.kdim or spec.width
    if values and spec.vdim is None and values[0].columns not in (usual, narrow):
        subject = subject.with_spec(vdim=values[0].columns)
    return subject
