"""Reports for readers: verdict first, 80 columns, a picture, and nothing that steers or injects."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from manyheads.core.errors import ConfigError
from manyheads.verify.findings import CheckResult, Finding
from manyheads.verify.report import (
    VerifyReport,
    page_from_reports,
    picture_from_evidence,
    plain,
    report_from_dict,
    text_from_picture,
    text_from_report,
    text_from_reports,
    write_page,
)

NASTY = "\x1b[2J<script>alert(1)</script>\r\n&'\""
SAYS = "scores are divided by 3.4641 = sqrt(12), the model width; declared head width 4 needs 2"


def finding(**changes: Any) -> Finding:
    given: dict[str, Any] = {
        "fault": "scale",
        "check": "values",
        "severity": "error",
        "says": SAYS,
        "evidence": {"influence": [[1, 0, 0], [0.5, 1, 0]], "difference": 0.25, "gone": None},
        "fix": "divide by the square root of the head width",
    }
    return Finding(**given | changes)


def report(**changes: Any) -> VerifyReport:
    given: dict[str, Any] = {
        "id": "mine",
        "target": "a.py:A",
        "verdict": "faulty",
        "inferred": {"form": "self", "masks": [], "sizes": {"num_heads": 4, "scale": 0.35355339}},
        "findings": (finding(),),
        "checks": (
            CheckResult(name="values", status="failed", why=SAYS, figure=0.25),
            CheckResult(name="empty rows", status="skipped", why="no mask arguments"),
        ),
        "seconds": 1.234,
    }
    return VerifyReport(**given | changes)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        self.names.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tags_of(page: str) -> list[str]:
    parser = Tags()
    parser.feed(page)
    assert parser.open == []
    return parser.names


def test_the_whole_text() -> None:
    assert str(report()) == (
        "FAULTY: mine: a.py:A\n"
        "\n"
        "Inferred:\n"
        "  form: self\n"
        "  masks: none\n"
        "  sizes: num_heads 4, scale 0.35355\n"
        "\n"
        "1. scale (error)\n"
        "   scores are divided by 3.4641 = sqrt(12), the model width; declared head width\n"
        "   4 needs 2\n"
        "   Measured: difference 0.25.\n"
        "\n"
        "        input  1 2 3\n"
        "     output 1  # . .\n"
        "            2  # # .\n"
        "     (rows are output positions, columns input positions; # = the input reaches\n"
        "     the output)\n"
        "\n"
        "   Fix: divide by the square root of the head width\n"
        "\n"
        "Checked: 0 passed, 1 failed, 1 skipped.\n"
        "  failed values [0.25]\n"
        "  skipped empty rows: no mask arguments\n"
        "\n"
        "Verdict: faulty, in 1.23 s."
    )


def test_no_line_is_longer_than_80_columns() -> None:
    wide = report(
        id="x" * 300,
        target="y" * 300,
        inferred={"a" * 90: "b" * 400},
        findings=(finding(says="word " * 99, evidence={"influence": [[1] * 40] * 40}),),
    )
    text = text_from_reports([wide, report()])
    assert max(map(len, text.splitlines())) <= 80
    assert "left out: outputs 17 to 40, inputs 17 to 40" in " ".join(text.split())


def test_what_a_subject_says_cannot_steer_a_terminal_or_a_page() -> None:
    evidence = {"output": NASTY, "influence": [[1]], "rows": [NASTY], "columns": [NASTY], NASTY: 1}
    nasty = report(
        id=NASTY,
        target=NASTY,
        inferred={NASTY: NASTY},
        findings=(finding(says=NASTY, fix=NASTY, fault=NASTY, evidence=evidence),),
        checks=(CheckResult(name=NASTY, status="passed", why=NASTY),),
    )
    text = text_from_reports([nasty])
    assert all(c.isprintable() or c == "\n" for c in text)
    page = page_from_reports([nasty, nasty])
    assert "script" not in tags_of(page)
    assert "<script" not in page
    assert "\x1b" not in page
    assert "script" not in tags_of(nasty._repr_html_())


def test_the_page_holds_what_the_text_holds() -> None:
    page = page_from_reports([report()])
    tags_of(page)
    for words in (SAYS, "a.py:A", "Fix:", "num_heads 4", "no mask arguments", "difference 0.25"):
        assert words in page
    assert page.count("mh-reached'") == 3
    assert "prefers-color-scheme:dark" in page
    assert not re.search(r"https?://|url\(|@import", page)


def test_a_page_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "page.html"
    write_page(path, [report()])
    before = path.read_text(encoding="utf-8")
    assert before == page_from_reports([report()])

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("manyheads.core.files.os.fsync", full)
    with pytest.raises(ConfigError, match=r"--html \(.*\) cannot be written: No space left"):
        write_page(path, [report(id="other")])
    assert path.read_text(encoding="utf-8") == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_manifest_ends_with_a_table_and_a_count() -> None:
    sound = report(id="fine", verdict="sound", findings=())
    lost = report(id=None, target="", verdict="undetermined", findings=(finding(fault=None),))
    text = text_from_reports([report(), sound, lost])
    table = text[text.index("subject ") :].splitlines()
    assert [line.split()[:2] for line in table[1:4]] == [
        ["mine", "faulty"],
        ["fine", "sound"],
        ["(unreadable)", "undetermined"],
    ]
    assert table[1].endswith("1.23  scale")
    assert table[-1] == "3 subjects: 1 sound, 1 faulty, 1 undetermined; 3.7 s of work."
    assert "SOUND: fine" not in text


@pytest.mark.parametrize(
    "evidence",
    [{}, {"influence": 3}, {"influence": []}, {"influence": [[]]}, {"influence": [[1], [1, 2]]},
     {"influence": "ab"}, {"influence": ["ab"]}, {"influence": [["a"]]}],
)  # fmt: skip
def test_evidence_without_a_matrix_has_no_picture(evidence: dict[str, Any]) -> None:
    assert picture_from_evidence(evidence) is None


def test_given_labels_stand_beside_the_picture() -> None:
    evidence = {"influence": [[0, 1]], "rows": ["q"], "columns": ["key", "long"]}
    picture = picture_from_evidence(evidence)
    assert picture is not None
    assert text_from_picture(picture)[:2] == ["   input   key long", "output q     .    #"]


def test_a_report_goes_through_json_and_back() -> None:
    once = report_from_dict(json.loads(report().to_json()))
    assert once == report()
    assert isinstance(once.findings[0], Finding)
    assert once.is_sound is False


def test_numbers_that_json_lacks_become_text() -> None:
    given = {"a": float("nan"), "b": (float("-inf"), 1, True, None), 3: {"x"}, "p": Path("y")}
    assert plain(given) == {"a": "nan", "b": ["-inf", 1, True, None], "3": ["x"], "p": "y"}


def test_only_reports_without_verdict_show_what_was_printed() -> None:
    lines = "\n".join(f"line {i}" for i in range(30))
    text = text_from_report(report(findings=(finding(evidence={"output": lines}),)))
    assert "line 3\n     ...\n     line 26" in text
    assert "line 4" not in text
