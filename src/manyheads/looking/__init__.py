"""Looking into the heads of real models: reading, proof, labels, ablation, circuits, statistics."""

from typing import TYPE_CHECKING

from manyheads.core.lazy import lazy_names

if TYPE_CHECKING:
    from manyheads.looking.ablation import Ablation, GreedyAblation, ablate, ablate_greedily
    from manyheads.looking.behaviours import BEHAVIOURS
    from manyheads.looking.card import Card
    from manyheads.looking.comparing import LookComparison, compare_looks
    from manyheads.looking.labels import HeadLabel, Labels, label_heads
    from manyheads.looking.logits import LogitParts
    from manyheads.looking.opening import Opened, open_model
    from manyheads.looking.proof import NotAdditive, Proof
    from manyheads.looking.qk_ov import Circuits, circuits, composition
    from manyheads.looking.reading import Look, look
    from manyheads.looking.streaming import CorpusStatistics, corpus_statistics, merged

_HOMES = {
    "Ablation": "ablation",
    "BEHAVIOURS": "behaviours",
    "Card": "card",
    "Circuits": "qk_ov",
    "CorpusStatistics": "streaming",
    "GreedyAblation": "ablation",
    "HeadLabel": "labels",
    "Labels": "labels",
    "LogitParts": "logits",
    "Look": "reading",
    "LookComparison": "comparing",
    "NotAdditive": "proof",
    "Opened": "opening",
    "Proof": "proof",
    "ablate": "ablation",
    "ablate_greedily": "ablation",
    "circuits": "qk_ov",
    "compare_looks": "comparing",
    "composition": "qk_ov",
    "corpus_statistics": "streaming",
    "label_heads": "labels",
    "look": "reading",
    "merged": "streaming",
    "open_model": "opening",
}

__all__ = [
    "Ablation",
    "BEHAVIOURS",
    "Card",
    "Circuits",
    "CorpusStatistics",
    "GreedyAblation",
    "HeadLabel",
    "Labels",
    "LogitParts",
    "Look",
    "LookComparison",
    "NotAdditive",
    "Opened",
    "Proof",
    "ablate",
    "ablate_greedily",
    "circuits",
    "compare_looks",
    "composition",
    "corpus_statistics",
    "label_heads",
    "look",
    "merged",
    "open_model",
]

if not TYPE_CHECKING:  # so that a type checker finds a mistyped name
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
