"""Known mistakes: each changes one step of attention, so that its numbers can be recognised."""

from manyheads.faults.catalogue import FAULT_KINDS, FaultKind, Variant, fault_kind

__all__ = ["FAULT_KINDS", "FaultKind", "Variant", "fault_kind"]
