"""The card of a model: what the run and the configuration say about its attention."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from manyheads.looking.subject import Subject
from manyheads.looking.watching import Site

_POSITIONS = (
    ("rope_parameters", "rotary"),
    ("rope_theta", "rotary"),
    ("rotary_dim", "rotary"),
    ("alibi", "linear bias"),
    ("relative_attention_num_buckets", "relative bias"),
    ("max_position_embeddings", "embedding"),
    ("n_positions", "embedding"),
)


@dataclass(frozen=True, kw_only=True)
class Card:
    """Facts of a model's attention."""

    type: str
    """Type of the model: `model_type` of its configuration, else its class."""
    layers: int
    """Attention calls in one forward pass."""
    modules: int
    """Modules that make them; fewer than `layers` where layers share their weights."""
    heads: tuple[int, ...]
    """Query heads of each layer."""
    groups: tuple[int, ...]
    """Key/value heads of each layer."""
    kinds: tuple[str, ...]
    """"self" or "cross" for each layer."""
    positions: str
    """How positions enter, as the configuration says; "not stated" where it does not."""
    window: int | None
    """Keys that a query of a local layer may see."""
    softcap: float | None
    """c of the soft-cap of the scores, c tanh(score / c)."""
    sinks: bool
    """Whether a learned sink takes part in the softmax, so that weights do not sum to 1."""
    norms: str
    """"pre": the messages join the residual stream as they are; "post": a norm stands between;
    "unknown": no sum with a residual stream was seen."""
    dtype: str
    """Type of the parameters."""
    read_by: tuple[str, ...]
    """"interface", "functions" or "layout"."""
    implementation: str | None
    """Attention implementation with which the model was handed over."""
    output_gap: float
    """Largest difference of the output with and without the probe, both in eager attention."""
    found_gap: float | None
    """The same against the model as it was handed over; None if that was not measured."""
    first_token: str | None
    """The first token, because sinks depend on it."""

    def to_dict(self) -> dict[str, Any]:
        """The card as JSON holds it."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    def rows(self) -> list[tuple[str, str]]:
        """Names and values for readers."""
        return [
            ("type", self.type),
            ("layers", _counted(self.layers, self.modules)),
            ("heads per layer", _range(self.heads)),
            ("key/value heads", _range(self.groups)),
            ("kind", " and ".join(sorted(set(self.kinds)))),
            ("positions", self.positions),
            ("window", "none" if self.window is None else f"{self.window} tokens"),
            ("soft-cap", "none" if self.softcap is None else f"{self.softcap:g}"),
            ("sinks", "yes: weights sum to less than 1" if self.sinks else "no"),
            ("norms", self.norms),
            ("dtype", self.dtype),
            ("read by", ", ".join(self.read_by)),
            ("handed over with", self.implementation or "no setting"),
            ("output with and without the probe", f"differs by {self.output_gap:.2g}"),
            ("output as handed over", _gap(self.found_gap)),
            ("first token", self.first_token or "not a text"),
        ]


def card_from(
    subject: Subject,
    sites: Sequence[Site],
    *,
    gaps: tuple[float, float | None],
    first_token: str | None,
) -> Card:
    """Write the card of a model after a run.

    Args:
        subject: the model.
        sites: its attention calls.
        gaps: output with the probe against eager attention without it, and against the model as
            it was handed over.
        first_token: the first token of the text.
    """
    reaches = [site.projection.reach for site in sites if site.projection]
    known = [reach for reach in reaches if reach is not None]
    norms = "post" if any(reach.normed for reach in known) else "pre" if known else "unknown"
    options = [site.options for site in sites]
    windows = [option["window"] for option in options if option.get("window")]
    caps = [option["softcap"] for option in options if option.get("softcap")]
    has_layout = subject.implementation is None
    return Card(
        type=getattr(subject.config, "model_type", None) or type(subject.model).__name__,
        layers=len(sites),
        modules=len({id(site.module) for site in sites}),
        heads=tuple(site.num_heads for site in sites),
        groups=tuple(site.num_groups for site in sites),
        kinds=tuple("cross" if is_cross(site) else "self" for site in sites),
        positions=_positions(subject.config),
        window=windows[0] if windows else None,
        softcap=caps[0] if caps else None,
        sinks=any(option.get("sinks") for option in options),
        norms=norms,
        dtype=str(subject.dtype).removeprefix("torch."),
        read_by=("layout",) if has_layout else tuple(sorted({site.read_by for site in sites})),
        implementation=subject.implementation,
        output_gap=gaps[0],
        found_gap=gaps[1],
        first_token=first_token,
    )


def is_cross(site: Site) -> bool:
    """Whether a call attends to another sequence than its queries'."""
    marked = any(getattr(site.module, n, False) is True for n in ("is_cross_attention", "is_cross"))
    return marked or site.shape[1] not in (1, site.shape[2])


def _positions(config: Any) -> str:  # noqa: ANN401 - a configuration of transformers, or None
    for name, says in _POSITIONS:
        if getattr(config, name, None):
            return says
    return "not stated"


def _counted(layers: int, modules: int) -> str:
    shared = f" ({modules} modules: weights are shared)" if modules < layers else ""
    return f"{layers}{shared}"


def _range(counts: tuple[int, ...]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def _gap(gap: float | None) -> str:
    return "not measured" if gap is None else f"differs by {gap:.2g}"
