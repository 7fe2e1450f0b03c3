"""StudyReport: a report in every form, and the files it is written to."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from manyheads.core.extras import require
from manyheads.core.tables import text_from_table, wrapped
from manyheads.report.cautions import cautions
from manyheads.report.content import document_from_results
from manyheads.report.document import Document
from manyheads.report.pages import FIGURES, html_from_document, markdown_from_document
from manyheads.report.reading import ReportData, read_study
from manyheads.report.tables import main_table, paired_table
from manyheads.study.folder import make_folder, write_bytes


@dataclass(frozen=True, kw_only=True)
class StudyReport:
    """The report of one study; shows itself in a terminal and in Jupyter."""

    results: ReportData
    """What it is about."""

    @cached_property
    def document(self) -> Document:
        """Sections and figures."""
        return document_from_results(self.results)

    def write(self, out: Path) -> tuple[Path, ...]:
        """Write the pages and figures, each whole or not at all.

        Args:
            out: a folder; it is created if it does not exist.

        Returns:
            what was written: `report.html`, `report.md`, and the figures of the latter.

        Raises:
            StudyError: the file system refuses.
        """
        html, markdown = html_from_document(self.document), markdown_from_document(self.document)
        texts = {out / FIGURES / f"{p.name}.svg": f"{p.svg}" for p in self.document.panels}
        texts |= {out / "report.md": markdown, out / "report.html": html}
        make_folder(out / FIGURES)
        for path, text in texts.items():
            write_bytes(path, text.encode("utf-8", errors="backslashreplace"))
        return (out / "report.html", out / "report.md", *(p for p in texts if p.suffix == ".svg"))

    def to_dict(self) -> dict[str, Any]:
        """The numbers of the report as JSON holds them."""
        results = self.results
        return {
            "plan": results.name,
            "plan_sha256": results.plan_sha256,
            "data_sha256": results.document["data_sha256"],
            "seeds": list(results.seeds),
            "aggregate": results.aggregate,
            "paired": results.paired,
            "not_shown": list(cautions(results)),
        }

    def to_json(self) -> str:
        """One JSON document."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False)

    def __str__(self) -> str:
        """The main tables in 80 columns."""
        results = self.results
        blocks = [f"Study {results.name}", text_from_table(main_table(results))]
        if results.paired:
            blocks.append(text_from_table(paired_table(results)))
            notes = dict.fromkeys(pair["note"] for pair in results.paired)
            blocks += ["\n".join(wrapped(note)) for note in notes]
        return "\n\n".join(blocks)

    def _repr_html_(self) -> str:
        """The whole page, in a frame of its own."""
        from html import escape

        page = escape(html_from_document(self.document), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:40rem;border:0"></iframe>'


def report_from_folder(folder: Path) -> StudyReport:
    """Make the report of a finished study.

    Args:
        folder: the study's folder, with its `results.json`.

    Raises:
        StudyError: there is none, or it is damaged.
        MissingExtraError: the extra `study` is not installed.
    """
    require("study", "matplotlib", "scipy", purpose="a study report")
    return StudyReport(results=read_study(folder))
