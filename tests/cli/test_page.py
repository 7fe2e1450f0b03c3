"""`manyheads serve` and `manyheads site` as a user meets them."""

import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from manyheads.cli.main import main
from manyheads.web import site
from manyheads.web.site import MANIFEST, read_bundle
from tests.web.serving import COMMAND, serve_command


class Outcome(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Runs a command in this process."""
    return lambda *arguments: Outcome(main(list(arguments)), *capsys.readouterr())


def test_serve_prints_the_address_and_ends_cleanly_on_ctrl_c(static_page: Path) -> None:
    with serve_command() as (process, address):
        with urllib.request.urlopen(address, timeout=5) as answer:
            assert answer.read() == (static_page / "index.html").read_bytes()
        process.send_signal(signal.SIGINT)
        process.wait(timeout=10)
        assert process.returncode == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_a_taken_port_gives_one_line_and_status_2(
    static_page: Path, run: Callable[..., Outcome]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run("serve", "--no-open", "--port", str(port))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert f"port ({port}) is taken: pass another with --port" in result.stderr


@pytest.mark.parametrize("port", ["-1", "65536", "eight", "1.5"])
def test_a_port_that_is_none_gives_one_line_and_status_2(
    port: str, run: Callable[..., Outcome]
) -> None:
    result = run("serve", "--no-open", "--port", port)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "--port" in result.stderr
    assert port in result.stderr


def test_site_writes_the_static_folder(
    static_page: Path, tmp_path: Path, run: Callable[..., Outcome]
) -> None:
    out = tmp_path / "lesson"
    result = run("site", str(out))
    assert result.returncode == 0, result.stderr
    assert str(out / "index.html") in result.stdout
    written = read_bundle(out)
    assert written.pop(MANIFEST)
    for name, content in read_bundle(static_page).items():
        assert written.pop(name) == content
    assert all(name.startswith("models/") and name.endswith(".js") for name in written)


def test_site_refuses_a_file_and_a_folder_of_others(
    static_page: Path, tmp_path: Path, run: Callable[..., Outcome]
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for out in (tmp_path, tmp_path / "notes.txt"):
        result = run("site", str(out))
        assert result.returncode == 2
        assert result.stderr.count("\n") == 1
        assert f"OUT ({out})" in result.stderr
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("arguments", [["serve", "--no-open", "--port", "0"], ["site", "out"]])
def test_a_page_that_is_not_built_gives_the_remedy(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(site, "STATIC", tmp_path / "static")
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "run `make page`" in error
    assert list(tmp_path.iterdir()) == []


def test_serve_runs_where_stdout_is_closed(static_page: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line = ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, "serve", "--no-open", "--port", str(port)]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert answers(port), "no answer in 30 seconds"
        finally:
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=20)
    assert (process.returncode, error) == (0, "")


def answers(port: int) -> bool:
    """Whether the page is served on a port, now or soon."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            time.sleep(0.1)
    return False
