"""Names of queries and keys: tokens, patches of an image, or positions."""

from typing import Any

from torch import Tensor

from manyheads.looking.seen import Seen


def axis_names(seen: Seen, count: int) -> list[str]:
    """A name for each position of an axis.

    Tokens if the axis has as many positions as the text, or only the last; patches by row and
    column, after the class token and registers, if the input is an image; else numbers from 1.

    Args:
        seen: the look.
        count: number of positions.
    """
    if seen.tokens and len(seen.tokens[0]) == count:
        return seen.tokens[0]
    if seen.tokens and count == 1:
        return seen.tokens[0][-1:]
    patches = _patches(seen)
    if patches is not None:
        rows, columns = patches
        first = count - rows * columns
        if first >= 0:
            head = ["class", *(f"register {i}" for i in range(1, first))][:first]
            grid = [f"patch {r + 1},{c + 1}" for r in range(rows) for c in range(columns)]
            return head + grid
    return [str(i + 1) for i in range(count)]


def _patches(seen: Seen) -> tuple[int, int] | None:
    """Rows and columns of patches of an image."""
    pixels = seen.call.kwargs.get("pixel_values")
    size: Any = _vision(seen.subject.config, "patch_size")
    if not isinstance(pixels, Tensor) or pixels.ndim != 4 or size is None:
        return None
    sizes = (size, size) if isinstance(size, int) else tuple(size)
    return int(pixels.shape[2]) // int(sizes[0]), int(pixels.shape[3]) // int(sizes[1])


def _vision(config: Any, name: str) -> Any:  # noqa: ANN401 - a configuration's value
    found = getattr(config, name, None)
    return (
        found if found is not None else getattr(getattr(config, "vision_config", None), name, None)
    )
