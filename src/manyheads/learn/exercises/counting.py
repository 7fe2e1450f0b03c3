"""Kinds `parameter-count` and `byte-count`: what a layer stores, what scores and cache take."""

from dataclasses import dataclass, replace
from fractions import Fraction

from manyheads.core.config import AttentionConfig
from manyheads.learn.exercises.drawing import Draws
from manyheads.learn.exercises.form import Draft, Misconception, Numbers, Table, slip

_HEADS = ((3, 1), (4, 2), (6, 2), (6, 3), (4, 1), (8, 2))
"""H and G."""
_WIDTHS = (3, 4, 5, 7, 9, 10)
"""d."""


def facts(values: dict[str, int]) -> Table:
    """Named whole numbers, one a row."""
    return Table(
        name="facts",
        rows=tuple((Fraction(value),) for value in values.values()),
        row_labels=tuple(values),
        column_labels=("value",),
    )


def whole(*numbers: int) -> Numbers:
    """Whole numbers as exact ones."""
    return tuple(Fraction(number) for number in numbers)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Numbers stored by each part of a layer."""

    inputs: int
    """W_Q, W_K and W_V of all heads."""
    input_biases: int
    """b_Q, b_K and b_V."""
    output: int
    """W_O."""
    output_bias: int
    """b_O."""

    @property
    def asked(self) -> Numbers:
        """The weights of the input projections, and everything."""
        return whole(self.inputs, self.everything)

    @property
    def everything(self) -> int:
        """All parameters of the layer."""
        return self.inputs + self.input_biases + self.output + self.output_bias


def stored_parts(config: AttentionConfig) -> Parts:
    """Count what a layer of these sizes stores."""
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
    """Draw the heads, their width, then the model's width: even, and not that of all heads."""
    (heads, groups), width = draws.choose(_HEADS), draws.choose(_WIDTHS)
    dim = 2 * draws.between(8, 30)
    if dim == heads * width:
        return None
    config = _layer((dim, heads, groups, width))
    parts = stored_parts(config)
    return Draft(
        prompt=(
            f"{config.num_heads} query heads share {groups} key/value head"
            f"{'s' if groups > 1 else ''}; each is {width} wide, for queries, keys and values. All "
            "four projections have biases. How many numbers do W_Q, W_K and W_V hold together, and "
            "how many does the whole layer hold?"
        ),
        given=(
            facts(
                {
                    "model width": config.embed_dim,
                    "query heads": heads,
                    "key/value heads": groups,
                    "head width": width,
                }
            ),
        ),
        asks=("W_Q, W_K and W_V", "whole layer"),
        answer=parts.asked,
        misconceptions=tuple(_miscounted(config, parts)),
        working=_parts_working(config, parts),
    )


def _parts_working(config: AttentionConfig, parts: Parts) -> tuple[str, ...]:
    wide, narrow, _ = config.projection_widths
    return (
        f"widths: queries {wide}, keys {narrow}, values {narrow}, together {wide + 2 * narrow}",
        f"times the model width {config.embed_dim}: {parts.inputs}",
        f"their biases: {parts.input_biases}",
        f"W_O: {config.concat_dim} times {config.embed_dim} = {parts.output}, b_O "
        f"{parts.output_bias}",
        f"together: {parts.asked[1]}",
    )


def _miscounted(config: AttentionConfig, parts: Parts) -> list[Misconception]:
    dim, heads, groups = config.embed_dim, config.num_heads, config.num_kv_heads
    width, begins = config.head_dim, "That is what you get when "
    one = replace(parts, inputs=3 * dim * width, input_biases=3 * width)
    once = replace(parts, inputs=heads * width * dim, input_biases=heads * width)
    full = stored_parts(_layer((dim, heads, heads, width)))
    model_wide = stored_parts(_layer((dim, heads, groups, dim)))
    ready = (
        ("counted-one-head", one, f"the input projections are counted for one head of {heads}."),
        (
            "full-key-value-heads",
            full,
            f"keys and values are counted for {heads} heads; they have {groups}.",
        ),
        ("counted-queries-only", once, "W_Q alone is counted, without W_K and W_V."),
        (
            "forgot-biases",
            replace(parts, input_biases=0, output_bias=0),
            "the biases are left out.",
        ),
        (
            "forgot-output",
            replace(parts, output=0, output_bias=0),
            "W_O and b_O are left out of the whole layer.",
        ),
        (
            "square-output",
            replace(parts, output=dim * dim),
            f"W_O is taken to be {dim} by {dim}; the joined heads are {heads * width} wide.",
        ),
        (
            "model-wide-heads",
            model_wide,
            f"every head is taken to be {dim} wide, like the model; each is {width} wide.",
        ),
    )
    found = [slip(name, wrong.asked, begins + says) for name, wrong, says in ready]
    return [*found, *_divided(config)]


def _divided(config: AttentionConfig) -> list[Misconception]:
    """A head taken to be D / H wide, where that is a whole number."""
    dim, heads = config.embed_dim, config.num_heads
    if dim % heads:
        return []
    divided = stored_parts(_layer((dim, heads, config.num_kv_heads, dim // heads)))
    says = (
        f"That is what you get when a head is taken to be {dim}/{heads} wide; it is "
        f"{config.head_dim} wide, as given."
    )
    return [slip("divided-width", divided.asked, says)]


@dataclass(frozen=True, kw_only=True)
class Run:
    """What decides how many bytes scores and a cache take."""

    batch: int
    """B."""
    layers: int
    """Layers."""
    heads: int
    """H."""
    groups: int
    """G."""
    width: int
    """d, of keys and of values."""
    length: int
    """T."""
    item: int
    """Bytes of one number."""

    @property
    def asked(self) -> Numbers:
        """Bytes of one layer's scores, (B, H, T, T), and of all layers' keys and values."""
        scores = self.batch * self.heads * self.length**2 * self.item
        cache = 2 * self.layers * self.batch * self.groups * self.length * self.width * self.item
        return whole(scores, cache)


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
            f"A batch of sequences goes through {layers} layers in {kind} ({item} bytes a number). "
            "How many bytes do the scores of one layer take, all heads, and how many does the "
            "cache of keys and values take, all layers?"
        ),
        given=(_run_facts(run),),
        asks=("bytes of scores", "bytes of the cache"),
        answer=run.asked,
        misconceptions=tuple(_mismeasured(run)),
        working=(
            f"scores: {batch} * {heads} * {length} * {length} * {item} = {run.asked[0]}",
            f"cache: 2 * {layers} * {batch} * {groups} * {length} * {width} * {item} = "
            f"{run.asked[1]}",
        ),
    )


def _run_facts(run: Run) -> Table:
    return facts(
        {
            "batch": run.batch,
            "layers": run.layers,
            "query heads": run.heads,
            "key/value heads": run.groups,
            "head width": run.width,
            "positions": run.length,
            "bytes a number": run.item,
        }
    )


def _mismeasured(run: Run) -> list[Misconception]:
    scores, cache = run.asked
    begins = "That is what you get when "
    one_head = replace(run, heads=1, groups=1).asked
    one_sample = replace(run, batch=1).asked
    numbers = replace(run, item=1).asked
    rows = (
        ("counted-one-head", one_head, "one head is counted; there is a table for each."),
        ("forgot-batch", one_sample, f"one sequence is counted; the batch has {run.batch}."),
        ("counted-numbers", numbers, f"numbers are counted; each takes {run.item} bytes."),
        (
            "cache-for-every-query-head",
            (scores, replace(run, groups=run.heads).asked[1]),
            f"all {run.heads} heads have keys and values of their own; {run.groups} do.",
        ),
        ("forgot-values", (scores, cache / 2), "keys alone are cached; values are too."),
        ("one-layer-cached", (scores, cache / run.layers), "one layer's cache is counted."),
        (
            "row-for-table",
            (scores / run.length, cache),
            f"each query has one score; it has one with each of {run.length} sources.",
        ),
    )
    return [slip(name, values, begins + says) for name, values, says in rows]
