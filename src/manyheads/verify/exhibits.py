"""One small module for each known fault: real parameters, and one step of attention changed.

The grid puts every check to them, the museum shows them, and tests see that each is found.
"""

from dataclasses import dataclass
from functools import cache

from torch import nn

from manyheads.attention.pipeline import Pipeline
from manyheads.faults.scaling import OtherScale
from manyheads.verify.diagnose import all_variants
from manyheads.verify.exhibit_module import FaultyAttention, Maker, subject_named
from manyheads.verify.exhibits_own import OWN
from manyheads.verify.subject import Subject


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """One fault as a module that can be built in any size."""

    fault: str
    """Id in the catalogue."""
    kind: str
    """Name of its declaration in SUBJECTS."""
    make: Maker
    """Builds the module for a declaration."""

    @property
    def subject(self) -> Subject:
        """Its declaration."""
        return subject_named(self.kind)


# fault, declaration, and what the reading's sentence must hold
_READINGS = """
attends-over-heads | self |
batch-first-confusion | self |
bias-dropped | self | without b_Q, b_K, b_V
blockwise-softmax | self | blocks of 2 keys whose running sum is
cache-entry-missing | cache | first cached position missing and zeros
cache-position | cache | too far
causal-alignment | asked, context | first key
causal-hint-ignored | asked | no causality
causal-off-by-one | causal | one later key
cross-source | cross | keys and values are made from the query input
folded-axes-misread | self | reading head outputs
grouped-order | grouped | h mod G
head-order | self | reading q, k, v, which lie in memory as (B, T, H, d), as (B, T, d, H) when
head-order-at-concat | self | outputs, which lie in memory as (B, T, d, H), as (B, T, H, d)
heads-averaged | self | averaging
heads-read-input-slices | self |
key-value-swapped | qkv |
linear-bias-slopes | bias | from 2^0
mask-additive-confusion | padding | 1 added to the scores of visible keys (masked
mask-after-softmax | padding | masked weights
mask-axis | padding | the mask along queries instead of keys
mask-head-order | padding | tiled over
mask-ignored | padding | no mask at all
mask-multiplied | padding | (masked
mask-polarity | padding | inverted
mask-value | padding | hidden scores set to 1e-09 (masked
merge-by-view | self | lie in memory as (B, H, T, d), as (B, T, H, d) when they are joined
output-projection-missing | self |
packed-layout | packed | being read as head by head
rotary-applied-twice | rotary cache | cached keys turned again at every step
rotary-axis | rotary | following the head index
rotary-keys-missing | rotary | only the queries turned
rotary-not-a-rotation | rotary | for neighbouring pairs applied to halves
rotary-offset | rotary cache | new tokens turned from position zero
rotary-pairing | rotary |
softmax-axis | self | over the queries
split-by-view | self | reading q, k, v, which lie in memory as (B, T, H, d), as (B, H, T, d) when
unpack-order | packed | q by W_K, k by W_Q
value-projection-unused | self |
view-on-both-sides | self | (B, T, E) memory as (B, H, T, d)
view-used-as-transpose | self | viewing (B, T, E) memory as (T, B, E) on the way in and out
weight-transposed | self | with W_Q, W_K, W_V transposed
wrong-tensor | self | v by W_K: one
"""


def _with_pipeline(pipeline: Pipeline) -> Maker:
    return lambda subject: FaultyAttention(subject, pipeline)


def _by_model_width(subject: Subject) -> nn.Module:
    return FaultyAttention(subject, OtherScale(subject.spec.width**-0.5))


def _from_readings() -> list[Exhibit]:
    found = [Exhibit(fault="scale", kind="self", make=_by_model_width)]
    for line in _READINGS.strip().splitlines():
        fault, kind, text = (part.strip() for part in f"{line} ".split("|"))
        reading = next(v for v in all_variants() if v.fault == fault and text in v.says)
        found.append(Exhibit(fault=fault, kind=kind, make=_with_pipeline(reading.pipeline)))
    return found


@cache
def exhibits() -> dict[str, Exhibit]:
    """An exhibit of every kind in the catalogue, by its id, in alphabetical order."""
    own = [Exhibit(fault=fault, kind=kind, make=make) for fault, (kind, make) in OWN.items()]
    return {e.fault: e for e in sorted([*_from_readings(), *own], key=lambda e: e.fault)}
