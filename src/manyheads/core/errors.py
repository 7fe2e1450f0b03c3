"""The errors that users see, and the rule for their messages.

A message reads `<argument> (<value>) <the rule it breaks>: <what to do>`, for instance
`num_heads (3) must divide embed_dim (8): use 1, 2, 4 or 8, or pass head_dim`.
"""


class ManyHeadsError(Exception):
    """Base of every error that a user can cause; the command line prints it in one line."""


class ConfigError(ManyHeadsError, ValueError):
    """A size or flag that an attention layer cannot have."""


class ShapeError(ManyHeadsError, ValueError):
    """A tensor of the wrong shape, rank or dtype."""


class LayoutError(ManyHeadsError, ValueError):
    """Weights that cannot be read from, or written to, another arrangement."""


class WorksheetError(ManyHeadsError, ValueError):
    """A worksheet file, or an edit of one, that breaks the worksheet form."""


class CheckpointError(ManyHeadsError, ValueError):
    """A weights file that is damaged, incomplete or of another kind."""


class SubjectError(ManyHeadsError, ValueError):
    """A module under verification that cannot be loaded or described."""


class TraceError(ManyHeadsError, ValueError):
    """Trace numbers that contradict each other, or a trace file that cannot be read."""


class LabError(ManyHeadsError, ValueError):
    """A part or experiment that the lab does not have, or a number printed without an assertion."""


class DataError(ManyHeadsError, ValueError):
    """Text that cannot be read, tokenised or split."""


class PlanError(ManyHeadsError, ValueError):
    """A study plan that is incomplete, contradictory or not the one that was frozen."""


class StudyError(ManyHeadsError, ValueError):
    """A study that cannot continue: a damaged state, changed data, or a loss that is not finite."""


class LearnError(ManyHeadsError, ValueError):
    """A question, exercise or answer that cannot be read, or a learner's file that is damaged."""


class LookError(ManyHeadsError, ValueError):
    """A model that cannot be read, or a question about its heads that it cannot answer."""


class MissingExtraError(ManyHeadsError, ImportError):
    """An optional package is not installed; the text names the extra that installs it."""
