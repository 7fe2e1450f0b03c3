"""Understand, verify and measure multi-head attention, with every intermediate number visible.

Names load what they need on first use, so that `import manyheads` stays light.
"""

from typing import TYPE_CHECKING

from manyheads.core.lazy import lazy_names

if TYPE_CHECKING:
    from manyheads import attention as attention
    from manyheads import checkpoints as checkpoints
    from manyheads import core as core
    from manyheads import data as data
    from manyheads import faults as faults
    from manyheads import heads as heads
    from manyheads import layouts as layouts
    from manyheads import learn as learn
    from manyheads import looking as looking
    from manyheads import models as models
    from manyheads import report as report
    from manyheads import study as study
    from manyheads import verify as verify
    from manyheads import web as web
    from manyheads import worksheets as worksheets
    from manyheads.attention.cache import KVCache
    from manyheads.attention.module import MultiHeadAttention
    from manyheads.attention.single_head import SingleHead
    from manyheads.core.config import AttentionConfig, LinearBias, Rotary
    from manyheads.core.errors import ManyHeadsError
    from manyheads.core.trace import AttentionTrace
    from manyheads.core.variants import QKNorm, RotaryScaling
    from manyheads.core.weights import HeadWeights
    from manyheads.layouts.torch_mha import from_torch, to_torch
    from manyheads.looking.reading import Look, look
    from manyheads.study.plan import plan
    from manyheads.study.run import run_study
    from manyheads.verify.api import check, compare
    from manyheads.verify.report import VerifyReport
    from manyheads.worksheets import worksheet, worksheet_names

_HOMES = {
    "AttentionConfig": "core.config",
    "AttentionTrace": "core.trace",
    "HeadWeights": "core.weights",
    "KVCache": "attention.cache",
    "LinearBias": "core.config",
    "Look": "looking.reading",
    "ManyHeadsError": "core.errors",
    "MultiHeadAttention": "attention.module",
    "QKNorm": "core.variants",
    "Rotary": "core.config",
    "RotaryScaling": "core.variants",
    "SingleHead": "attention.single_head",
    "VerifyReport": "verify.report",
    "check": "verify.api",
    "compare": "verify.api",
    "from_torch": "layouts.torch_mha",
    "look": "looking.reading",
    "plan": "study.plan",
    "run_study": "study.run",
    "to_torch": "layouts.torch_mha",
    "worksheet": "worksheets",
    "worksheet_names": "worksheets",
}

__version__ = "0.1.0"
__all__ = [
    "AttentionConfig",
    "AttentionTrace",
    "HeadWeights",
    "KVCache",
    "LinearBias",
    "Look",
    "ManyHeadsError",
    "MultiHeadAttention",
    "QKNorm",
    "Rotary",
    "RotaryScaling",
    "SingleHead",
    "VerifyReport",
    "__version__",
    "check",
    "compare",
    "from_torch",
    "look",
    "plan",
    "run_study",
    "to_torch",
    "worksheet",
    "worksheet_names",
]

if not TYPE_CHECKING:  # so that a type checker finds a mistyped name
    __getattr__, __dir__ = lazy_names(__name__, _HOMES, subpackages=True)
