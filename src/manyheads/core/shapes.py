"""Axis letters, shape checks, and the only place where a head axis is made, removed or repeated.

B batch, T query positions, S key positions, D embed_dim, H query heads, G key/value heads, d head
width.
"""

from dataclasses import fields
from typing import get_args

from jaxtyping import Float
from torch import Tensor

from manyheads.core.errors import ShapeError


def check_input(name: str, x: Tensor, width: int) -> None:
    """Check one of query, key and value: (B, T, width), floating point, not empty.

    Args:
        name: the argument's name, quoted in the error.
        x: the tensor that was given.
        width: what the last axis must be.

    Raises:
        ShapeError: another rank, width or dtype, or a sequence without positions.
    """
    if not isinstance(x, Tensor):
        raise ShapeError(f"{name} ({type(x).__name__}) must be a tensor: use torch.as_tensor")
    shape = tuple(x.shape)
    if x.dim() != 3:
        hint = (
            f"use {name}[None] for one sequence" if x.dim() == 2 else "use batch, position, width"
        )
        raise ShapeError(f"{name} has shape {shape}, expected (B, T, {width}): {hint}")
    if not x.is_floating_point():
        raise ShapeError(
            f"{name} has dtype {x.dtype}, expected floating point: "
            f"use {name}.float(), or embed the ids first"
        )
    if shape[2] != width:
        raise ShapeError(
            f"{name} has shape {shape}, expected (B, T, {width}): its last axis must be {width}"
        )
    if shape[1] == 0:
        raise ShapeError(f"{name} has shape {shape}, an empty sequence: give at least one position")


def declared_axes(owner: type) -> dict[str, tuple[str, ...]]:
    """The axis letters of each tensor field of a dataclass, in order, from its annotations.

    Args: owner: a dataclass with fields such as `Float[Tensor, "B T D"]` or `Float[Tensor, "B T D"]
        | None`.
    """
    axes = {}
    for field in fields(owner):
        for part in get_args(field.type) or (field.type,):
            if hasattr(part, "dim_str"):
                axes[field.name] = tuple(part.dim_str.split())
    return axes


def check_axes(
    name: str, tensor: Tensor, axes: tuple[str, ...], seen: dict[str, tuple[int, str]]
) -> None:
    """Check a tensor's rank and its sizes against those of tensors checked before it.

    Args:
        name: the tensor's name, quoted in the error.
        tensor: the tensor.
        axes: a letter for each of its axes.
        seen: size of each letter so far and the tensor that set it; new letters are added.

    Raises:
        ShapeError: another rank, or a letter of another size; the message names both tensors.
    """
    shape, letters = tuple(tensor.shape), ", ".join(axes)
    if len(shape) != len(axes):
        raise ShapeError(f"{name} has shape {shape}, expected ({letters}): give {len(axes)} axes")
    for axis, size in zip(axes, shape, strict=True):
        known, where = seen.setdefault(axis, (size, name))
        if known != size:
            raise ShapeError(
                f"{name} has shape {shape}, expected ({letters}) with {axis} = {known} as in "
                f"{where}: change one of them"
            )


def split_heads(x: Float[Tensor, "B T C"], num_heads: int) -> Float[Tensor, "B H T d"]:
    """Cut the last axis into heads and bring the head axis before the positions.

    Args:
        x: joined rows, (B, T, C) with C = H * d.
        num_heads: H, how many heads the last axis holds.

    Raises:
        ShapeError: num_heads does not divide the last axis.
    """
    width = x.shape[-1]
    if width % num_heads:
        raise ShapeError(
            f"num_heads ({num_heads}) must divide the joined width ({width}): use a divisor"
        )
    split = x.reshape(*x.shape[:2], num_heads, width // num_heads)  # (B, T, H, d)
    return split.transpose(1, 2)  # (B, H, T, d)


def merge_heads(x: Float[Tensor, "B H T d"]) -> Float[Tensor, "B T C"]:
    """Join head outputs in order: (B, H, T, d) to (B, T, C) with C = H * d.

    Positions move before heads first; a plain view would mix positions and keep every shape.
    """
    return x.transpose(1, 2).flatten(2)  # (B, T, H*d)


def repeat_kv(kv: Float[Tensor, "B G S d"], num_heads: int) -> Float[Tensor, "B H S d"]:
    """Repeat each key/value head for the query heads that share it.

    Query head h reads key/value head h // (H / G); where G == H the input is returned.

    Args:
        kv: keys or values, (B, G, S, d).
        num_heads: H, a multiple of G.

    Raises:
        ShapeError: num_heads is not a multiple of G.

    Source: Ainslie et al. 2023, arXiv:2305.13245, section 2.2.
    """
    groups = kv.shape[1]
    if num_heads % groups:
        raise ShapeError(
            f"num_heads ({num_heads}) must be a multiple of the key/value heads ({groups}): "
            f"use {groups} or a multiple"
        )
    if num_heads == groups:
        return kv
    repeated = kv.unsqueeze(2).expand(-1, -1, num_heads // groups, -1, -1)  # (B, G, H/G, S, d)
    return repeated.flatten(1, 2)  # (B, H, S, d)
