"""Where runs take place: folder, data, processes and watchers; and models as they begin there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from manyheads.data.windows import Corpus
from manyheads.models.training import Trainable
from manyheads.study.events import Report
from manyheads.study.folder import Folder, RunKey
from manyheads.study.losses import unigram_bias
from manyheads.study.machine import Crew


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where a run takes place, and who watches."""

    folder: Folder
    """The study's folder."""
    corpus: Corpus
    """Its stories; the test split is sealed."""
    crew: Crew
    """The processes that share the work."""
    report: Report
    """Told of what happens."""
    is_stopping: Callable[[], bool]
    """Asked after each step."""
    environment: Mapping[str, Any]
    """Noted with each result."""


def fresh_model(site: Site, run: RunKey) -> Trainable:
    """A run's model with its start values, on the device."""
    plan, corpus, crew = site.folder.plan, site.corpus, site.crew
    is_unigram = plan.protocol.output_bias == "unigram"
    return Trainable.create(
        plan.config(run.model, corpus.tokenizer.vocab_size),
        seed=run.seed,
        embedding_scale=plan.protocol.embedding_scale,
        output_bias=unigram_bias(corpus).to(crew.dtype) if is_unigram else None,
        device=crew.device,
        dtype=crew.dtype,
    )
