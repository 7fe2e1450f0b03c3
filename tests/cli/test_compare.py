"""The command `manyheads compare`: forms of output, exit statuses, refusals."""

import json
from pathlib import Path

import pytest

from manyheads.cli.main import main
from manyheads.verify.comparison import ComparedStep, Entry, MapRow, Source
from manyheads.verify.comparison_html import page_from_comparison
from manyheads.verify.comparison_report import Comparison
from manyheads.verify.comparison_text import text_from_comparison
from tests.verify.pairs import line_with, source_of, write_style


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_style(tmp_path, "mine", "packed")
    write_style(tmp_path, "theirs", "in_out", old="queries.shape[-1])", new="queries.shape[1])")
    monkeypatch.chdir(tmp_path)


def test_a_difference_is_shown_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["mine.py:Attention", "theirs.py:Attention"]
    outputs = ["--html", "page.html", "--conversion", "convert.py"]
    assert main(["compare", *words, "--json", *outputs]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    document = json.loads(out)
    assert (document["a"], document["b"]) == tuple(words)
    assert document["verdict"] == "different"
    step = next(s for s in document["steps"] if s["status"] == "departs")
    assert step["step"] == "scores"
    assert step["a"]["file"] == "mine.py"
    assert step["b"]["file"] == "theirs.py"
    source = source_of("in_out")
    assert step["b"]["line"] == line_with(source, "scores = torch.matmul")
    assert set(document["inferred"]) == {"a", "b"}
    page = Path("page.html").read_text(encoding="utf-8")
    assert page.count("<figure>") == 2
    assert "scaled_dot_product_attention" in page
    assert "def convert(a, b)" in Path("convert.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["mine.py:Attention"], "give a second"),
        (["mine.py:Attention", "nowhere.py:A"], "there is no file"),
        (["mine.py:Attention", "theirs.py:Nothing"], "has no Nothing"),
        (["mine.py:Attention", "theirs.py:Attention", "--dtype", "int8"], "int8"),
        (["mine.py:Attention", "theirs.py:Attention", "--html", "no/page.html"], "no folder"),
        (["mine.py:Attention", "no.json"], "no.json"),
    ],
)
def test_wrong_use_is_refused_in_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert said in err


RESULT = Comparison(
    a="a.py:A",
    b="b.py:B",
    verdict="different",
    says="Their outputs differ in 1 of 1 problems.",
    gap=0.5,
    tolerance=1e-9,
    steps=(
        ComparedStep(step="q", status="equal", gap=0.0),
        ComparedStep(
            step="scores",
            status="departs",
            gap=0.5,
            factor=2.0,
            relation="factor",
            a=Source(file="a.py", line=3, code="s = q @ k.mT"),
            b=Source(file="b.py", line=4, code="s = q @ k.mT * 2"),
            entry=Entry(index=(0, 1, 2, 3), a=1.0, b=2.0),
        ),
    ),
    matched_by="use",
    map=(MapRow(weight="W_Q", head=0, a="q[0:4, :]", b="wq[:, 0:4]", is_transposed=True),),
    unmatched={"a": ("scale",), "b": ()},
    left_out=("padding, for which only one of them has an argument",),
)


def test_the_text_has_both_lines_and_one_number_of_each() -> None:
    text = text_from_comparison(RESULT, with_map=True)
    assert "They depart at step scores: b has 2 times the numbers of a." in " ".join(text.split())
    assert "a: a.py:3" in text
    assert "4 | s = q @ k.mT * 2" in text
    assert "entry [0, 1, 2, 3] of scores: a 1, b 2" in text
    assert "W_Q of head 1  q[0:4, :]  wq[:, 0:4]  transposed" in text
    assert "Not compared: padding" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_the_page_escapes_what_it_shows() -> None:
    page = page_from_comparison(Comparison(a="<b>", b="b.py:B", verdict="equal", says="<i>"))
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
