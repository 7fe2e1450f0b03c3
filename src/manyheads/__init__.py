"""Understand, verify and measure multi-head attention, with every intermediate number visible.

Names load what they need on first use, so that `import manyheads` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from manyheads.attention.cache import KVCache
    from manyheads.attention.loop import SingleHead
    from manyheads.attention.module import MultiHeadAttention
    from manyheads.core.config import AttentionConfig, LinearBias, Rotary
    from manyheads.core.errors import ManyHeadsError
    from manyheads.core.trace import AttentionTrace
    from manyheads.core.weights import HeadWeights
    from manyheads.layouts.torch_mha import from_torch, to_torch
    from manyheads.study.plan_files import plan
    from manyheads.study.run import run_study
    from manyheads.verify.api import check
    from manyheads.verify.report import VerifyReport
    from manyheads.worksheets import worksheet, worksheet_names

_HOMES = {
    "AttentionConfig": "manyheads.core.config",
    "AttentionTrace": "manyheads.core.trace",
    "HeadWeights": "manyheads.core.weights",
    "KVCache": "manyheads.attention.cache",
    "LinearBias": "manyheads.core.config",
    "ManyHeadsError": "manyheads.core.errors",
    "MultiHeadAttention": "manyheads.attention.module",
    "Rotary": "manyheads.core.config",
    "SingleHead": "manyheads.attention.loop",
    "VerifyReport": "manyheads.verify.report",
    "check": "manyheads.verify.api",
    "from_torch": "manyheads.layouts.torch_mha",
    "plan": "manyheads.study.plan_files",
    "run_study": "manyheads.study.run",
    "to_torch": "manyheads.layouts.torch_mha",
    "worksheet": "manyheads.worksheets",
    "worksheet_names": "manyheads.worksheets",
}

__version__ = "0.1.0"
__all__ = [
    "AttentionConfig",
    "AttentionTrace",
    "HeadWeights",
    "KVCache",
    "LinearBias",
    "ManyHeadsError",
    "MultiHeadAttention",
    "Rotary",
    "SingleHead",
    "VerifyReport",
    "__version__",
    "check",
    "from_torch",
    "plan",
    "run_study",
    "to_torch",
    "worksheet",
    "worksheet_names",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'manyheads' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
