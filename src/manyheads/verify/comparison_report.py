"""The comparison of two implementations: its text, its HTML and its JSON."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from manyheads.verify.comparison import Compared
from manyheads.verify.comparison_html import html_from_comparison
from manyheads.verify.comparison_text import text_from_comparison
from manyheads.verify.report import plain


@dataclass(frozen=True, kw_only=True)
class Comparison(Compared):
    """The comparison of two implementations; with a text for terminals and HTML for Jupyter."""

    def to_dict(self) -> dict[str, Any]:
        """The comparison for JSON."""
        document: dict[str, Any] = plain(asdict(self))
        return document

    def to_json(self) -> str:
        """One JSON document."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def __str__(self) -> str:
        """The comparison in 80 columns."""
        return text_from_comparison(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The comparison for Jupyter."""
        return html_from_comparison(self)
