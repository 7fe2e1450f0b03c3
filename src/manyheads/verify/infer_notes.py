"""What inference found legal but unusual, for the report: with the fault it would be elsewhere."""

from typing import Any

from manyheads.core.config import Rotary
from manyheads.verify.infer_fit import Chosen
from manyheads.verify.subject import Subject


def note_on_reading(inferred: dict[str, Any], chosen: Chosen, subject: Subject) -> None:
    """What is legal but unusual, with the fault that it would be against another declaration."""
    if not chosen.is_exact:
        return
    if chosen.reading.fault is not None:
        add_note(inferred, chosen.reading.fault, chosen.reading.says)
    position = subject.spec.position
    if isinstance(position, Rotary) and position.style == "interleaved":
        says = (
            "rotary positions turn channel 2i with 2i + 1 (interleaved); weights made for halves "
            "need the other pairing"
        )
        add_note(inferred, "rotary-pairing", says)
    if chosen.scale_says:
        value, usual = subject.spec.factor, subject.spec.d**-0.5
        add_note(
            inferred,
            "scale",
            f"scores are multiplied by {value:.6g} = {chosen.scale_says} (divided by "
            f"{1 / value:.5g}); usual is {usual:.6g} (divided by {1 / usual:.5g})",
        )


def add_note(inferred: dict[str, Any], fault: str | None, says: str) -> None:
    """Keep a note for the report."""
    inferred.setdefault("notes", []).append({"fault": fault, "says": says})


def note_on_order(subject: Subject, inferred: dict[str, Any]) -> None:
    """That positions come first, which another declaration would call a fault."""
    if inferred.get("call.layout") == "TBE" and "call.form" in inferred:
        says = (
            "attention runs over the first axis of the input, so it is understood as (positions, "
            "samples, channels); if (samples, positions, channels) is meant, samples see each "
            "other and no token sees its own sequence"
        )
        add_note(inferred, "batch-first-confusion", says)


def note_on_masks(subject: Subject, inferred: dict[str, Any]) -> None:
    """Mask names that mean the opposite in the libraries where they come from."""
    for mask in subject.call.masks or ():
        low = mask.arg.lower()
        if "padding_mask" in low and mask.convention in ("allowed", "one_zero"):
            usual = "true means hidden, as in nn.MultiheadAttention"
        elif low == "attention_mask" and mask.convention == "blocked":
            usual = "1 means visible, as in transformers"
        else:
            continue
        says = (
            f"{mask.arg} is understood as {mask.convention}, by what it hides; by its name one "
            f"expects that {usual}"
        )
        add_note(inferred, "mask-polarity", says)
