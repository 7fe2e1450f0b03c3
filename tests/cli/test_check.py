"""The command `manyheads check`: declarations, forms of output, exit statuses."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from manyheads.cli.check import _painted, check, declared_by
from manyheads.cli.main import main
from manyheads.verify.findings import Verdict
from manyheads.verify.report import VerifyReport
from manyheads.verify.subject import Subject
from manyheads.verify.subject_files import subject_from_declared, subject_from_dict
from tests.factories import annotations_unchecked
from tests.verify.strangers import (
    PARAMS,
    declaration,
    judge_by_one_call,
    verdict_of_one_call,
    write_strangers,
)

TARGET = "strangers_attention.py:"
SIZES = ["--embed-dim", "12", "--num-heads", "3", "--form", "self", "--params", json.dumps(PARAMS)]


@pytest.fixture(autouse=True)
def _strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    write_strangers(tmp_path)
    monkeypatch.chdir(tmp_path)
    with annotations_unchecked():  # thousands of small calls
        yield


def write_manifest(*cases: Any) -> str:
    Path("manifest.json").write_text(json.dumps({"cases": list(cases)}))
    return "manifest.json"


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a refusal."""
    assert main(["check", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1, err
    return err


def test_a_fault_is_named_and_the_status_is_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{TARGET}Drops", *SIZES]) == 1
    out, err = capsys.readouterr()
    assert out.startswith(f"FAULTY: {TARGET}Drops\n")
    assert "1. dropout-in-eval (error)" in out
    assert "Fix: " in out
    assert err == ""


def test_a_sound_subject_has_status_0_and_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{TARGET}Sound", *SIZES, "--json"]) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert list(report) == [
        *("id", "target", "verdict", "inferred", "findings", "steps", "checks", "limits"),
        "seconds",
    ]
    assert (report["verdict"], report["target"]) == ("sound", f"{TARGET}Sound")
    assert set(report["checks"][0]) == {"name", "status", "why", "figure"}
    assert err == ""


def test_a_subject_file_gives_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    judge_by_one_call(monkeypatch)
    Path("below").mkdir()
    Path("below/strangers_attention.py").write_text("from nowhere import nothing\n")
    Path("s.json").write_text(json.dumps(declaration("Sound", fault="scale", strange=1)))
    assert main(["check", "--subject", "s.json", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["id"] == "sound"
    assert err == "manyheads: warning: sound: unknown fields are ignored: strange\n"


def test_a_manifest_goes_on_whatever_one_subject_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    judge_by_one_call(monkeypatch)
    names = ("Hangs", "Sound", "Leaves", "Absent", "Raises")
    manifest = write_manifest(*map(declaration, names), {"spec": {}})
    arguments = ["check", "--subjects", manifest, "--time-limit", "2", "--html", "page.html"]
    assert main([*arguments, "--json"]) == 1
    out, err = capsys.readouterr()
    reports = json.loads(out)["reports"]
    assert err == ""
    assert [r["verdict"] == "sound" for r in reports] == [False, True, False, False, False, False]
    assert [r["id"] for r in reports[:5]] == [name.lower() for name in names]
    assert "has no Absent: use one of" in reports[3]["findings"][0]["says"]
    assert "within the time limit of 2 s" in Path("page.html").read_text()
    assert main([*arguments, "--allow-undetermined", "--jobs", "1"]) == 0
    assert "6 subjects: 1 sound, 0 nonstandard, 0 faulty, 5 undetermined" in capsys.readouterr().out


def test_a_hanging_subject_is_undetermined(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["check", f"{TARGET}Hangs", *SIZES, "--time-limit", "0.5"]
    assert main(arguments) == 1
    assert capsys.readouterr().out.startswith("UNDETERMINED: ")
    assert main([*arguments, "--allow-undetermined"]) == 0


def test_allow_undetermined_does_not_allow_faults() -> None:
    assert main(["check", f"{TARGET}Drops", *SIZES, "--allow-undetermined"]) == 1


def test_the_line_of_a_fault_has_the_path_that_was_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("below").mkdir()
    source = Path("strangers_attention.py").rename("below/attention.py").read_text()
    case = declaration("Faulty", target="attention.py:Faulty")
    Path("below/manifest.json").write_text(json.dumps({"cases": [case]}))
    assert main(["check", "--subjects", "below/manifest.json", "--json", "--html", "p.html"]) == 1
    (report,) = json.loads(capsys.readouterr().out)["reports"]
    where = report["findings"][0]["where"]
    assert (report["verdict"], where["file"]) == ("faulty", "attention.py")
    assert source.splitlines()[where["line"] - 1].strip() == where["code"]
    departing = [step for step in report["steps"] if step["status"] == "departs"]
    assert (departing[0]["step"], departing[0]["line"]) == (where["step"], where["line"])
    page = Path("p.html").read_text()
    assert "below/attention.py:" in page
    assert "class Faulty(Sound):" in page  # the source around the line


@pytest.mark.parametrize(
    ("verdict", "status"),
    [("sound", 0), ("nonstandard", 1), ("faulty", 1), ("undetermined", 1)],
)
def test_the_exit_status_of_each_verdict(
    verdict: Verdict, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge(made: Any, subject: Any, inferred: Any, known: Any) -> VerifyReport:
        one = verdict_of_one_call(made, subject, inferred, known)
        return replace(one, verdict=verdict)

    monkeypatch.setattr("manyheads.verify.run.verify", judge)
    arguments = ["check", f"{TARGET}Sound", *SIZES]
    assert main(arguments) == status
    allowed = {
        option: main([*arguments, f"--allow-{option}"])
        for option in ("nonstandard", "undetermined")
    }
    assert allowed == {option: 0 if option == verdict else status for option in allowed}


def test_the_verdict_has_a_colour_in_a_terminal_only(capsys: pytest.CaptureFixture[str]) -> None:
    report = verdict_of_one_call(lambda x: x, Subject(target="a.py:A"), {}, None)
    assert _painted("SOUND: a.py:A", report) == "\x1b[32m\x1b[1mSOUND\x1b[0m: a.py:A"
    main(["check", f"{TARGET}Absent"])
    main(["check", f"{TARGET}Raises", *SIZES])
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give one of FILE.py:NAME, --subject FILE or --subjects FILE"),
        ([f"{TARGET}Sound", "--subject", "strangers_attention.py"], "give one of"),
        (["none.py:Sound"], "there is no file .*none.py"),
        ([f"{TARGET}Absent"], "has no Absent: use one of .*Sound"),
        (["no.such.module:Sound"], "importing no.such.module raises ModuleNotFoundError"),
        (["Sound"], r"target \(Sound\) must be file.py:object"),
        (
            [f"{TARGET}Sound", "--submodule", "deep.attn"],
            r"submodule \(deep.attn\): Sound has no deep",
        ),
        ([f"{TARGET}Sound", "--num-heads", "5", "--embed-dim", "12"], "must divide"),
        ([f"{TARGET}Sound", "--num-heads", "0"], "--num-heads"),
        ([f"{TARGET}Sound", "--mask", "m:BS"], r"--mask \(m:BS\) must be ARG:AXES:CONVENTION"),
        ([f"{TARGET}Sound", "--mask", "m:SB:blocked"], r"call.masks\[0\].axes \('SB'\)"),
        ([f"{TARGET}Sound", "--arg", "bias"], r"--arg \(bias\) must be NAME=VALUE"),
        ([f"{TARGET}Sound", "--params", "{"], "--params .* is not JSON"),
        ([f"{TARGET}Sound", "--params", "1" * 5000], r"--params \(1+\.{3}\) is not JSON: .{80} "),
        ([f"{TARGET}Sound", "--params", "{}"], "params.layout is missing"),
        ([f"{TARGET}Sound", "--alibi", "--rope", "half"], "cannot be used together"),
        ([f"{TARGET}Sound", "--rope-base", "5"], "--rope-base needs --rope"),
        ([f"{TARGET}Sound", "--rope-dim", "4"], "--rope-dim needs --rope"),
        ([f"{TARGET}Sound", "--spec", "[]"], "must be a JSON object"),
        ([f"{TARGET}Sound", "--spec", '{"cap": 1}'], "cap is not known"),
        ([f"{TARGET}Sound", "--scale", "1", "--spec", '{"scale": 1}'], "an option of its own"),
        ([f"{TARGET}Sound", "--time-limit", "0"], "--time-limit"),
        ([f"{TARGET}Sound", "--html", "no/page.html"], "no folder .*: create"),
        (["model.onnx"], "is an ONNX file, and only Python code can be checked: give the PyTorch"),
        (["--subject", "none.json"], "none.json"),
        (["--subjects", "strangers_attention.py"], "is not JSON"),
    ],
)
def test_wrong_use_is_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refusal(capsys, *arguments)
    assert re.search(said, line), line


def test_declarations_beside_a_file_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.json").write_text(json.dumps(declaration("Sound")))
    line = refusal(capsys, "--subject", "s.json", "--num-heads", "4", "--arg", "a=1")
    assert "num_heads, kwargs cannot be declared together with a file" in line


def test_options_declare_what_a_file_would() -> None:
    text = (
        "a.py:A --embed-dim 24 --num-heads 6 --num-kv-heads 3 --head-dim 4 --v-head-dim 5 --kdim 7 "
        "--vdim 8 --scale 0.25 --causal always --window 9 --rope interleaved --rope-base 500 "
        "--dropout 0.1 --fully-masked zero --form qkv --layout TBE --mask pad:BS:blocked "
        "--mask m:(BH)TS:additive --causal-arg is_causal --returns out,weights --weights-axes BTS "
        "--arg bias=false --arg name=x --arg sizes=[1,2] --arg flash=True --submodule enc.attn "
        "--rope-dim 2"
    )
    more = {"qk_norm": {"type": "rms"}, "softcap": 5.0, "sinks": True}
    given = [*text.split(), "--params", json.dumps(PARAMS), "--spec", json.dumps(more)]
    options = check.make_context("check", given).params
    sizes = {"embed_dim": 24, "num_heads": 6, "num_kv_heads": 3, "head_dim": 4, "v_head_dim": 5}
    rope = {"type": "rope", "style": "interleaved", "base": 500.0, "rotary_dim": 2}
    assert subject_from_declared("a.py:A", declared_by(options)) == subject_from_dict(
        {
            "target": "a.py:A",
            "build": {"kwargs": {"bias": False, "name": "x", "sizes": [1, 2], "flash": True}},
            "spec": {
                **sizes,
                **{"kdim": 7, "vdim": 8, "scale": 0.25, "causal": "always", "window": 9},
                **{"position": rope, "dropout": 0.1, "fully_masked": "zero", **more},
            },
            "call": {
                "form": "qkv",
                "layout": "TBE",
                "masks": [
                    {"arg": "pad", "axes": "BS", "convention": "blocked"},
                    {"arg": "m", "axes": "(BH)TS", "convention": "additive"},
                ],
                **{"causal_arg": "is_causal", "returns": "out,weights", "weights_axes": "BTS"},
            },
            "params": PARAMS,
            "submodule": "enc.attn",
        }
    )


def test_help_says_that_it_runs_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--help"]) == 0
    out = capsys.readouterr().out
    assert "RUNS THE CODE" in out
    assert "\n    manyheads check my_file.py:MyAttention --embed-dim 32 --num-heads 4\n" in out


def test_page_is_written_before_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(text: str) -> None:
        raise BrokenPipeError

    judge_by_one_call(monkeypatch)
    monkeypatch.setattr("manyheads.cli.check.click.echo", gone)
    with pytest.raises(BrokenPipeError):
        check.main([f"{TARGET}Sound", *SIZES, "--html", "page.html"], standalone_mode=False)
    assert "SOUND" in Path("page.html").read_text(encoding="utf-8")
