"""Reports for readers: verdict first, 80 columns, a picture, and nothing that steers or injects."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from manyheads.core.errors import ConfigError
from manyheads.verify.findings import READING, CheckResult, Finding, Step, Where
from manyheads.verify.report import VerifyReport, plain
from manyheads.verify.report_html import page_from_reports, write_page
from manyheads.verify.report_picture import picture_from_evidence, text_from_picture
from manyheads.verify.report_text import text_from_report, text_from_reports
from manyheads.verify.report_words import relation_words, understood

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
            CheckResult(name="masks kept", status="skipped", why="no mask arguments"),
            CheckResult(name="strides", status="passed", why="all agree", figure=0.0),
        ),
        "seconds": 1.234,
    }
    return VerifyReport(**given | changes)


SOURCE = """import torch


def attend(q, k, v):
    scores = q @ k.mT
    if scores < 3 and "</pre><script>":
        pass
    return scores.softmax(-1) @ v
"""
STEPS = (
    Step(step="q", status="equal", line=4, gap=0.0),
    Step(step="scores", status="equal", line=5, gap=0.0),
    Step(step="masked_scores", status="not seen"),
    Step(step="attn_weights", status="not seen"),
    Step(step="head_outputs", status="not seen"),
)


def place_in(folder: Path, **changes: Any) -> Where:
    (folder / "a.py").write_text(SOURCE)
    given = {"file": str(folder / "a.py"), "line": 5, "code": "scores = q @ k.mT"}
    return Where(**{"step": "scores", "relation": "factor", "factor": 2.0} | given | changes)


def located(folder: Path, **changes: Any) -> VerifyReport:
    """A report with a place in `a.py` of a folder."""
    evidence = {"entry": [0, 1, 2], "expected": 0.5, "found": 1.0}
    found = finding(fault=None, where=place_in(folder), evidence=evidence)
    return report(**{"findings": (found,), "steps": STEPS, "folder": str(folder)} | changes)


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
        "1. scale (error)\n"
        "   scores are divided by 3.4641 = sqrt(12), the model width; declared head width\n"
        "   4 needs 2\n"
        "\n"
        "        input  1 2 3\n"
        "     output 1  # . .\n"
        "            2  # # .\n"
        "     (rows are output positions, columns input positions; # = the input reaches\n"
        "     the output)\n"
        "\n"
        "   Fix: divide by the square root of the head width\n"
        "   Measured: difference 0.25\n"
        "\n"
        "I understood:\n"
        "  form   self\n"
        "  masks  none\n"
        "  sizes  num_heads 4, scale 0.35355\n"
        "\n"
        "Checked: 1 passed, 1 failed, 2 skipped.\n"
        "  failed   values: see 1 [0.25]\n"
        "  passed   strides\n"
        "  skipped  empty rows, masks kept: no mask arguments\n"
        "\n"
        "Verdict: faulty, in 1.23 s."
    )


def test_the_place_of_a_fault_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = text_from_report(located(tmp_path, checks=(), inferred={}, limits=("float16 ends.",)))
    assert text == (
        "FAULTY: mine: a.py:A\n"
        "\n"
        "1. step scores departs (error)\n"
        "   scores are divided by 3.4641 = sqrt(12), the model width; declared head width\n"
        "   4 needs 2\n"
        "\n"
        "   At step scores: the right numbers times 2.\n"
        "   a.py:5\n"
        "     5 | scores = q @ k.mT\n"
        "   entry [0, 1, 2]: expected 0.5, found 1\n"
        "\n"
        "   Fix: divide by the square root of the head width\n"
        "\n"
        "Steps:\n"
        "  q       equal    line 4\n"
        "  scores  departs  line 5  a multiple of the right numbers\n"
        "  Not seen: masked_scores, attn_weights, head_outputs (no result of the call\n"
        "    holds these numbers, as after a step that departs).\n"
        "\n"
        "Limits:\n"
        "  float16 ends.\n"
        "\n"
        "Verdict: faulty, in 1.23 s."
    )


def test_a_long_remark_on_a_step_stays_in_80_columns() -> None:
    given = {"status": "departs", "relation": "arrangement", "line": 12345, "gap": 0.123}
    text = text_from_report(report(steps=(Step(step="masked_scores", **given),)))
    assert max(map(len, text.splitlines())) <= 80
    assert "another arrangement; largest difference 0.123" in " ".join(text.split())


def test_a_path_from_elsewhere_is_absolute_and_is_not_broken(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 20)
    folder.mkdir()
    assert f"\n   {folder}/a.py:5\n" in text_from_report(located(folder))


def test_the_page_shows_the_source_around_the_line_as_text(tmp_path: Path) -> None:
    page = page_from_reports([located(tmp_path)])
    assert "script" not in tags_of(page)
    assert "<mark>&gt; 5      scores = q @ k.mT</mark>" in page
    assert "<code>  1  import torch</code>" in page
    assert "&lt;/pre&gt;&lt;script&gt;" in page
    assert "<code>  8      return scores.softmax(-1) @ v</code></pre>" in page
    assert "expected 0.5, found 1" in page
    assert "<td>departs</td>" in page
    assert "mark" in tags_of(located(tmp_path)._repr_html_())


def test_a_source_that_has_changed_shows_the_code_that_was_run(tmp_path: Path) -> None:
    gone = located(tmp_path)
    (tmp_path / "a.py").write_text("# something else\n" * 20)
    page = page_from_reports([gone])
    assert "<mark>&gt; 5  scores = q @ k.mT</mark>" in page
    assert "something else" not in page


def test_a_number_that_is_not_finite_is_named() -> None:
    where = Where(step="masked_scores", relation="part")
    evidence = {"entry": [0], "expected": None, "found": 0.25}
    text = text_from_report(report(findings=(finding(where=where, evidence=evidence),)))
    assert "entry [0]: expected -inf (hidden), found 0.25" in text


def test_close_numbers_are_shown_with_the_digits_that_differ() -> None:
    evidence = {"entry": [0], "expected": 0.123456789, "found": 0.123456111}
    text = text_from_report(report(findings=(finding(evidence=evidence),)))
    assert "entry" not in text  # without a place there is nothing that it is an entry of
    where = Where(step="q", relation="other")
    text = text_from_report(report(findings=(finding(where=where, evidence=evidence),)))
    assert "expected 0.12345679, found 0.12345611" in text


def test_look_alikes_show_place_and_picture_once(tmp_path: Path) -> None:
    one = finding(where=place_in(tmp_path))
    text = text_from_report(report(findings=(one, finding(fault="other", where=one.where))))
    assert text.count("a.py:5\n") == 1
    assert text.count("output 1") == 1
    assert "2. other (error)" in text


def test_errors_come_first_and_readings_before_other_warnings() -> None:
    kinds = [("note", "a"), ("warning", "b"), ("warning", READING), ("error", "d"), ("error", "e")]
    found = tuple(finding(severity=kind, check=check) for kind, check in kinds)
    assert [f.check for f in report(findings=found).findings] == ["d", "e", READING, "b", "a"]


def test_a_reading_is_called_nonstandard_and_asks_for_a_declaration() -> None:
    reading = finding(severity="warning", check=READING)
    text = text_from_report(report(verdict="nonstandard", findings=(reading,)))
    assert text.startswith("NONSTANDARD: mine: a.py:A\nIt equals attention only under another")
    assert "1. scale (nonstandard)" in text


def test_only_what_passed_is_called_passed() -> None:
    for verdict in ("sound", "faulty"):
        text = text_from_report(report(verdict=verdict))
        passed = [line for line in text.splitlines() if line.startswith("  passed")]
        assert len(passed) == 1
        assert "strides" in passed[0]


def test_relations_are_said_in_words() -> None:
    assert relation_words("factor", 0.5) == "the right numbers times 0.5"
    assert relation_words("arrangement") == "the same numbers in another arrangement"
    assert relation_words("of its own") == "of its own"


def test_what_was_understood_is_said_in_words() -> None:
    mask = {"arg": "pad", "axes": "BS", "convention": "blocked"}
    inferred = {
        "build.kwargs": {"d_model": 12, "bias": False},
        "call.form": "qkv f(query, key, value)",
        "call.layout": "TBE",
        "call.masks": [mask],
        "call.returns": "out,weights",
        "spec": {"dropout": 0.1},
        "notes": [],
    }
    assert understood(inferred) == [
        ("built with", "d_model=12, bias=False"),
        ("called as", "f(query, key, value)"),
        ("axes of the input", "positions, batch, channels"),
        ("masks", "pad BS, True = hidden"),
        ("returns", "the output and the weights"),
        ("settings", "dropout 0.1"),
    ]


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
    write_page(path, page_from_reports([report()]))
    before = path.read_text(encoding="utf-8")
    assert before == page_from_reports([report()])

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("manyheads.core.files.os.fsync", full)
    with pytest.raises(ConfigError, match=r"--html \(.*\) cannot be written: No space left"):
        write_page(path, page_from_reports([report(id="other")]))
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
    counts = "1 sound, 0 nonstandard, 1 faulty, 1 undetermined"
    assert table[-1] == f"3 subjects: {counts}; 3.7 s of work."
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
    once = TypeAdapter(VerifyReport).validate_json(report().to_json())
    assert once == report()
    assert isinstance(once.findings[0], Finding)
    assert once.is_sound is False


def test_json_has_the_fields_of_the_design_and_the_path_that_was_given(tmp_path: Path) -> None:
    document = json.loads(located(tmp_path).to_json())
    assert list(document) == [
        *("id", "target", "verdict", "inferred", "findings", "steps", "checks", "limits"),
        "seconds",
    ]
    first = document["findings"][0]
    assert list(first) == [
        *("fault", "check", "severity", "says", "where", "evidence", "fix"),
    ]
    code = "scores = q @ k.mT"
    place = {"step": "scores", "relation": "factor", "file": "a.py", "line": 5, "code": code}
    assert first["where"] == place | {"factor": 2.0}
    assert document["steps"][1] == {
        **{"step": "scores", "status": "departs", "relation": "factor", "line": 5, "gap": None}
    }
    assert document["limits"] == []


def test_json_has_the_absolute_path_of_any_other_file(tmp_path: Path) -> None:
    where = place_in(tmp_path, relation="other", factor=None)
    other = report(target="b.py:B", findings=(finding(where=where),), folder=str(tmp_path))
    written = other.to_dict()["findings"][0]["where"]
    assert written["file"] == str(tmp_path / "a.py")
    assert "factor" not in written
    unknown = report(findings=(finding(where=where),))
    assert unknown.to_dict()["findings"][0]["where"]["file"] == str(tmp_path / "a.py")
    assert report().to_dict()["findings"][0]["where"] is None


def test_numbers_that_json_lacks_become_text() -> None:
    given = {"a": float("nan"), "b": (float("-inf"), 1, True, None), 3: {"x"}, "p": Path("y")}
    assert plain(given) == {"a": "nan", "b": ["-inf", 1, True, None], "3": ["x"], "p": "y"}


def test_only_reports_without_verdict_show_what_was_printed() -> None:
    lines = "\n".join(f"line {i}" for i in range(30))
    text = text_from_report(report(findings=(finding(evidence={"output": lines}),)))
    assert "line 3\n     ...\n     line 26" in text
    assert "line 4" not in text
