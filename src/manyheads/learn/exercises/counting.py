"""Kinds `parameter-count` and `byte-count`: the size of a layer, of its scores and of its cache."""

from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace

from manyheads.core.config import AttentionConfig
from manyheads.learn.exercises.drawing import Draws
from manyheads.learn.exercises.form import Draft, Kind, Misconception, facts, slip, whole
from manyheads.worksheets.sheet import Row

_HEADS = ((3, 1), (4, 2), (6, 2), (6, 3), (4, 1), (8, 2))
"""H and G."""
_WIDTHS = (3, 4, 5, 7, 9, 10)
"""d."""
_BEGINS = "That is what you get when you"


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Number of parameters of each part of a layer."""

    inputs: int
    """W_Q, W_K and W_V of all heads."""
    input_biases: int
    """b_Q, b_K and b_V."""
    output: int
    """W_O."""
    output_bias: int
    """b_O."""

    @property
    def asked(self) -> Row:
        """The weights of the input projections, and everything."""
        return whole(self.inputs, self.everything)

    @property
    def everything(self) -> int:
        """All parameters of the layer."""
        return self.inputs + self.input_biases + self.output + self.output_bias


def stored_parts(config: AttentionConfig) -> Parts:
    """Count the parameters of a layer of these sizes."""
    q, k, v = config.projection_widths
    return Parts(
        inputs=q * config.embed_dim + k * config.kdim + v * config.vdim,
        input_biases=q + k + v if config.bias else 0,
        output=config.concat_dim * config.embed_dim,
        output_bias=config.embed_dim if config.out_bias else 0,
    )


def _layer(sizes: tuple[int, int, int, int]) -> AttentionConfig:
    dim, heads, groups, width = sizes
    return AttentionConfig.of(embed_dim=dim, num_heads=heads, num_kv_heads=groups, head_dim=width)


def draw(draws: Draws) -> Draft | None:
    """Draw the heads, their width, then the model width: even, and not that of all heads."""
    (heads, groups), width = draws.choose(_HEADS), draws.choose(_WIDTHS)
    dim = 2 * draws.between(8, 30)
    if dim == heads * width:
        return None
    config = _layer((dim, heads, groups, width))
    parts = stored_parts(config)
    wide, narrow, _ = config.projection_widths
    return Draft(
        prompt=(
            f"{heads} query heads share {groups} key/value head{'s' if groups > 1 else ''}. The "
            f"head width is {width} for queries, keys and values, and all four projections have "
            "biases. How many parameters do W_Q, W_K and W_V have together, and how many does the "
            "whole layer have?"
        ),
        given=(
            facts(
                {
                    "model width": dim,
                    "query heads": heads,
                    "key/value heads": groups,
                    "head width": width,
                }
            ),
        ),
        asks=("W_Q, W_K and W_V", "whole layer"),
        answer=parts.asked,
        misconceptions=tuple(_miscounted(config, parts)),
        working=(
            f"widths: queries {wide}, keys {narrow}, values {narrow}, together {wide + 2 * narrow}",
            f"times the model width {dim}: {parts.inputs}",
            f"their biases: {parts.input_biases}",
            f"W_O: {config.concat_dim} times {dim} = {parts.output}, b_O {parts.output_bias}",
            f"together: {parts.everything}",
        ),
    )


PARAMETER_COUNT = Kind(
    name="parameter-count",
    title="The parameters of a layer",
    summary="the parameters of the input projections and of the whole layer",
    stream=109,
    draw=draw,
)


def _miscounted(config: AttentionConfig, parts: Parts) -> list[Misconception]:
    dim, heads, width = config.embed_dim, config.num_heads, config.head_dim
    joined = heads * width
    ready = [
        (
            "counted-one-head",
            replace(parts, inputs=3 * dim * width, input_biases=3 * width),
            f"count the input projections of one head; the layer has {heads}.",
        ),
        (
            "counted-queries-only",
            replace(parts, inputs=joined * dim, input_biases=joined),
            "count W_Q alone, without W_K and W_V.",
        ),
        (
            "forgot-biases",
            replace(parts, input_biases=0, output_bias=0),
            "leave out the biases.",
        ),
        (
            "forgot-output",
            replace(parts, output=0, output_bias=0),
            "leave W_O and b_O out of the whole layer.",
        ),
        (
            "square-output",
            replace(parts, output=dim * dim),
            f"take W_O as {dim} by {dim}; the concatenated heads have width {joined}.",
        ),
    ]
    return [slip(name, wrong.asked, f"{_BEGINS} {says}") for name, wrong, says in ready] + [
        slip(name, stored_parts(_layer(sizes)).asked, f"{_BEGINS} {says}")
        for name, sizes, says in _other_sizes(config)
    ]


def _other_sizes(
    config: AttentionConfig,
) -> Iterator[tuple[str, tuple[int, int, int, int], str]]:
    """Wrong sizes of the layer: name, (D, H, G, d), sentence."""
    dim, heads, groups = config.embed_dim, config.num_heads, config.num_kv_heads
    width = config.head_dim
    says = f"count keys and values for {heads} heads; they have {groups}."
    yield "full-key-value-heads", (dim, heads, heads, width), says
    says = f"take {dim}, the model width, as the head width; the head width is {width}."
    yield "model-wide-heads", (dim, heads, groups, dim), says
    if dim % heads == 0:
        says = f"take {dim}/{heads} as the head width; it is given as {width}."
        yield "divided-width", (dim, heads, groups, dim // heads), says


@dataclass(frozen=True, kw_only=True)
class Run:
    """The sizes that decide how many bytes scores and a cache take."""

    batch: int
    """B."""
    layers: int
    """Number of layers."""
    heads: int
    """H."""
    groups: int
    """G."""
    width: int
    """d, of keys and of values."""
    length: int
    """T."""
    item: int
    """Bytes per number."""

    @property
    def asked(self) -> Row:
        """Bytes of one layer's scores, (B, H, T, T), and of all layers' keys and values."""
        scores = self.batch * self.heads * self.length**2 * self.item
        cache = 2 * self.layers * self.batch * self.groups * self.length * self.width * self.item
        return whole(scores, cache)


_RUN_FACTS = (
    *("batch", "layers", "query heads", "key/value heads"),
    *("head width", "positions", "bytes per number"),
)
"""The fields of a run, for a reader."""


def draw_bytes(draws: Draws) -> Draft:
    """Draw layers, heads and groups, the head's width, batch, length and the type."""
    layers, (heads, groups) = draws.choose((3, 5, 7)), draws.choose(((8, 2), (6, 2), (8, 4)))
    width, batch = draws.choose((16, 24, 32)), draws.choose((2, 3))
    length = draws.choose((20, 50, 100))
    kind, item = draws.choose((("float16", 2), ("float32", 4)))
    run = Run(
        batch=batch,
        layers=layers,
        heads=heads,
        groups=groups,
        width=width,
        length=length,
        item=item,
    )
    return Draft(
        prompt=(
            f"A batch of sequences goes through {layers} layers in {kind} ({item} bytes per "
            "number). How many bytes do the scores of all heads of one layer take, and how many "
            "bytes does the cache of keys and values of all layers take?"
        ),
        given=(facts(dict(zip(_RUN_FACTS, astuple(run), strict=True))),),
        asks=("bytes of scores", "bytes of the cache"),
        answer=run.asked,
        misconceptions=tuple(_mismeasured(run)),
        working=(
            f"scores: {batch} * {heads} * {length} * {length} * {item} = {run.asked[0]}",
            f"cache: 2 * {layers} * {batch} * {groups} * {length} * {width} * {item} = "
            f"{run.asked[1]}",
        ),
    )


BYTE_COUNT = Kind(
    name="byte-count",
    title="Bytes of scores and cache",
    summary="the bytes of one layer's scores and of the cache of keys and values",
    stream=110,
    draw=draw_bytes,
)


def _mismeasured(run: Run) -> list[Misconception]:
    scores, cache = run.asked
    rows = (
        (
            "counted-one-head",
            replace(run, heads=1, groups=1).asked,
            f"count one head; there are {run.heads} query heads and {run.groups} key/value heads.",
        ),
        (
            "forgot-batch",
            replace(run, batch=1).asked,
            f"count one sequence; the batch has {run.batch}.",
        ),
        (
            "counted-numbers",
            replace(run, item=1).asked,
            f"count numbers; each number takes {run.item} bytes.",
        ),
        (
            "cache-for-every-query-head",
            (scores, replace(run, groups=run.heads).asked[1]),
            f"cache keys and values for {run.heads} heads; there are {run.groups} key/value heads.",
        ),
        ("forgot-values", (scores, cache / 2), "cache the keys alone; values are cached too."),
        ("one-layer-cached", (scores, cache / run.layers), "count the cache of one layer."),
        (
            "row-for-table",
            (scores / run.length, cache),
            f"count one score per query; each query has a score for each of {run.length} sources.",
        ),
    )
    return [slip(name, values, f"{_BEGINS} {says}") for name, values, says in rows]
