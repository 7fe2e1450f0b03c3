"""What a learner's file may do, and the sentence that comes back."""

from pathlib import Path

import pytest

from manyheads.core.errors import LearnError
from manyheads.practice import judge
from manyheads.practice.judging import judge_file, task_of_text
from manyheads.verify.contained import Limits

HEAD = "import math, sys, torch\n"
BODY = "def scores(q, k):\n    "
QUICK = Limits(seconds=1.0, memory=1 << 30)
FILES = {
    "sys.exit": (BODY + "sys.exit(0)", "it calls sys.exit", 3),
    "exit while loading": ("sys.exit('no')\n", "loading it: it calls sys.exit", 2),
    "no return": (BODY + "q @ k.mT", "a return is missing", None),
    "a number": (BODY + "return 3.0", "is float 3.0", None),
    "two values": (BODY + "return q, k", "returns 2 values, expected 1", None),
    "own exception": (BODY + "raise ValueError('my own')", "ValueError: my own", 3),
    "wrong shapes": (BODY + "return q @ k", "RuntimeError", 3),
    "not Python": ("def scores(q, k)\n    return 1", "is not valid Python", 2),
    "other name": ("def score(q, k):\n    return q @ k.mT", "does not define scores", None),
    "recursion": (BODY + "return scores(q, k)", "calls itself without end", None),
    "huge": (BODY + "return torch.zeros(1 << 40)", "can't allocate memory", 3),
    "in place": (BODY + "k.data.zero_(); return q @ k.mT", "expected", None),
    "cut graph": (BODY + "return (q @ k.mT).detach()", "no gradient arrives", None),
}


def write(folder: Path, code: str) -> Path:
    path = folder / "scores.py"
    path.write_text(HEAD + code + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_gets_a_sentence(name: str, tmp_path: Path) -> None:
    code, says, line = FILES[name]
    report = judge_file(write(tmp_path, code))
    assert not report.solved and report.verdict == "wrong"
    assert says in report.findings[0].says, report
    where = report.findings[0].where
    assert line is None or (where is not None and where.line == line), report
    assert "Traceback" not in str(report)


def test_an_endless_loop_is_stopped(tmp_path: Path) -> None:
    report = judge_file(write(tmp_path, BODY + "while True: pass"), limits=QUICK)
    assert "time limit of 1 s" in report.findings[0].says


def test_prints_are_shown_and_change_nothing(tmp_path: Path) -> None:
    report = judge_file(write(tmp_path, BODY + "print(q.shape); return q @ k.transpose(-2, -1)"))
    assert report.solved and "torch.Size([2, 6, 5, 4])" in report.printed
    assert "Your code printed" in str(report)


def test_a_verdict_names_mistake_step_and_line(tmp_path: Path) -> None:
    path = tmp_path / "scale.py"
    path.write_text(
        "def scaled_scores(queries, keys):\n    result = queries @ keys.mT\n    return result\n",
        encoding="utf-8",
    )
    report = judge_file(path)
    finding = report.findings[0]
    assert finding.fault == "scale" and finding.where is not None
    assert (finding.where.line, finding.where.factor) == (2, pytest.approx(2.0))
    assert "2 times what they should be" in finding.says
    assert report.card == "scale-which-width" and "> " in str(report)
    document = report.to_dict()
    assert list(document) == [
        *("task", "solved", "verdict", "findings", "steps", "constraints", "seconds")
    ]
    assert "<mark>" in report._repr_html_()


def test_a_constraint_is_checked_by_watching(tmp_path: Path) -> None:
    loop = "return torch.stack([q[:, h] @ k[:, h].mT for h in range(q.shape[1])], 1)"
    report = judge_file(write(tmp_path, BODY + loop))
    assert [(k.name, k.kept, k.line) for k in report.constraints] == [("no-head-loop", False, 3)]
    assert not report.solved and "no loop over heads" in report.findings[0].says


def test_judge_takes_an_answer_of_this_process() -> None:
    report = judge("weighted-sum", lambda weights, v: weights @ v, is_recorded=False)
    assert report.solved and report.seconds < 30
    with pytest.raises(LearnError, match=r"answer \(int\) cannot be called"):
        judge("weighted-sum", 3, is_recorded=False)


def test_the_file_names_its_task() -> None:
    assert task_of_text('print(judge("repair-scale", f, seed=4))') == ("repair-scale", 4)
    assert task_of_text("x = 1") == (None, None)
    assert task_of_text("x = (") == (None, None)


@pytest.mark.slow
def test_a_module_with_other_parameters_is_judged_by_watching(tmp_path: Path) -> None:
    path = tmp_path / "multi-head.py"
    code = """
import torch.nn as nn, torch
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h, self.d = num_heads, d_model // num_heads
        self.packed, self.last = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
    def forward(self, Q, K, V):
        def part(x, i):
            return self.packed(x).chunk(3, -1)[i].unflatten(-1, (self.h, self.d)).transpose(1, 2)
        q, k, v = part(Q, 0), part(K, 1), part(V, 2)
        w = (q @ k.mT * SCALE).softmax(-1)
        return self.last((w @ v).transpose(1, 2).flatten(2))
"""
    path.write_text(code.replace("SCALE", "self.d ** -0.5"), encoding="utf-8")
    assert judge_file(path).solved
    path.write_text(code.replace("SCALE", "1.0"), encoding="utf-8")
    report = judge_file(path)
    assert not report.solved and report.findings[0].fault == "scale"
