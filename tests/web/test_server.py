"""The server answers this machine with the bundle's files, and with nothing else."""

import gzip
import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from manyheads.core.errors import ConfigError
from manyheads.web import server
from manyheads.web.server import open_socket
from tests.web.serving import ask, ask_raw, serving

BUNDLE = {
    "index.html": b"<!doctype html><title>t</title>",
    "assets/page.js": b"1",
    "assets/page.css": b"a{}",
    "icon.svg": b"<svg/>",
    "models/words.json": b'["a"]',
    "models/mlp.safetensors": b"\x00\x01",
    "onnx/mlp.onnx": b"\x08\x02",
    "onnx/glue.mjs": b"export default 1",
    "odd": b"\x00",
}
WASM = {"onnx/runtime.wasm": b"\x00asm"}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving(BUNDLE) as port:
        yield port


@pytest.mark.parametrize(
    ("target", "name", "kind"),
    [
        ("/", "index.html", "text/html; charset=utf-8"),
        ("/index.html", "index.html", "text/html; charset=utf-8"),
        ("/assets/page.js?v=1", "assets/page.js", "text/javascript; charset=utf-8"),
        ("/assets/page.css", "assets/page.css", "text/css; charset=utf-8"),
        ("/icon.svg", "icon.svg", "image/svg+xml"),
        ("/models/words.json", "models/words.json", "application/json"),
        ("/models/mlp.safetensors", "models/mlp.safetensors", "application/octet-stream"),
        ("/onnx/mlp.onnx", "onnx/mlp.onnx", "application/octet-stream"),
        ("/onnx/glue.mjs", "onnx/glue.mjs", "text/javascript; charset=utf-8"),
        ("/odd", "odd", "application/octet-stream"),
    ],
)
def test_each_file_comes_whole_with_its_type(port: int, target: str, name: str, kind: str) -> None:
    answer = ask(port, target)
    assert (answer.status, answer.content) == (200, BUNDLE[name])
    assert answer.headers["Content-Type"] == kind


@pytest.mark.parametrize(("target", "status"), [("/", 200), ("/nothing", 404)])
def test_every_answer_carries_the_strict_headers(port: int, target: str, status: int) -> None:
    answer = ask(port, target)
    assert answer.status == status
    policy = answer.headers["Content-Security-Policy"].split("; ")
    assert policy[:3] == ["default-src 'none'", "script-src 'self'", "style-src 'self'"]
    assert {"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} < set(policy)
    assert {"connect-src 'self'", "worker-src 'self' blob:"} < set(policy)
    assert not any("unsafe" in rule for rule in policy)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Server"] is None


def test_only_a_page_that_carries_webassembly_may_compile_it() -> None:
    with serving(BUNDLE | WASM) as port:
        answer = ask(port, "/onnx/runtime.wasm")
        policy = ask(port, "/").headers["Content-Security-Policy"].split("; ")
    assert answer.headers["Content-Type"] == "application/wasm"
    assert policy[1] == "script-src 'self' 'wasm-unsafe-eval'"
    assert sum("unsafe" in rule for rule in policy) == 1


@pytest.mark.parametrize(
    ("accepted", "is_packed"),
    [
        ("gzip, deflate, br", True),
        ("br;q=1.0, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip;q=0.000", False),
        ("xgzip", False),
        ("identity", False),
        ("", False),
    ],
)
def test_texts_are_compressed_for_clients_that_accept_gzip(
    port: int, accepted: str, is_packed: bool
) -> None:
    answer = ask(port, "/assets/page.css", headers={"Accept-Encoding": accepted})
    assert answer.headers["Vary"] == "Accept-Encoding"
    assert (answer.headers["Content-Encoding"] == "gzip") == is_packed
    content = gzip.decompress(answer.content) if is_packed else answer.content
    assert content == BUNDLE["assets/page.css"]


@pytest.mark.parametrize("name", ["models/mlp.safetensors", "onnx/mlp.onnx", "odd"])
def test_what_is_no_text_is_sent_as_it_is(port: int, name: str) -> None:
    answer = ask(port, f"/{name}", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["Content-Encoding"] is None
    assert answer.content == BUNDLE[name]


@pytest.mark.parametrize("host", ["localhost:{}", "127.0.0.1:{}", "[::1]:{}", "LOCALHOST:{}"])
def test_this_machine_s_names_are_served(port: int, host: str) -> None:
    assert ask(port, "/", host.format(port)).status == 200


@pytest.mark.parametrize(
    "host",
    ["example.org", "example.org:{}", "127.0.0.1", "127.0.0.1:1", "localhost:{}.example.org", ""],
)
def test_another_host_is_refused(port: int, host: str) -> None:
    answer = ask(port, "/", host.format(port))
    assert answer.status == 400
    assert BUNDLE["index.html"] not in answer.content


def test_two_hosts_or_none_are_refused(port: int) -> None:
    good = f"localhost:{port}"
    assert ask(port, "/", good, "example.org").status == 400
    assert ask_raw(port, b"GET / HTTP/1.0\r\n\r\n").split()[1] == b"400"


@pytest.mark.parametrize(
    "target",
    [
        "/../pyproject.toml",
        "/assets/../../site.py",
        "/%2e%2e/site.py",
        "/%2e%2e%2fsite.py",
        "/..%5csite.py",
        "/assets\\..\\index.html",
        "//etc/passwd",
        "/%2fetc/passwd",
        "/index.html%00.js",
        "/%00",
        "/assets/",
        "/assets",
        "/ind%C3%A9x",
        "/%ff%fe",
        "/" + "a/" * 4000,
    ],
)
def test_no_path_leads_out_of_the_bundle(port: int, target: str) -> None:
    assert ask(port, target).status == 404


def test_an_absolute_target_gives_the_bundle_or_nothing(port: int) -> None:
    line = f"GET http://127.0.0.1:{port}/etc/passwd HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
    assert ask_raw(port, line.encode()).split()[1] == b"404"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_only_reading_is_served(port: int, method: str) -> None:
    answer = ask(port, "/", method=method)
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, HEAD"


def test_head_has_the_headers_and_no_content(port: int) -> None:
    answer = ask(port, "/", method="HEAD")
    assert answer.content == b""
    assert answer.headers["Content-Length"] == str(len(BUNDLE["index.html"]))


def test_a_missing_page_is_named(port: int) -> None:
    assert b"Page not found" in ask(port, "/nothing").content


def test_a_head_of_a_megabyte_is_answered_and_not_reset(port: int) -> None:
    answer = ask(port, "/", headers={"X-Long": "a" * 1_000_000})
    assert answer.status == 431
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; ")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert ask(port, "/").status == 200


@pytest.mark.parametrize(("length", "status"), [(15_000, 200), (300_000, 431)])
def test_a_head_within_16_kib_is_read(port: int, length: int, status: int) -> None:
    assert ask(port, "/", headers={"X-Long": "a" * length}).status == status


def test_a_request_that_cannot_be_read_is_refused_under_the_strict_policy(port: int) -> None:
    head, _, _ = ask_raw(port, b"no request\r\n\r\n").partition(b"\r\n\r\n")
    assert head.split()[1] == b"400"
    assert b"default-src 'none'" in head


@pytest.mark.parametrize("pause", [0.0, 0.3], ids=["at once", "after the answer"])
def test_a_body_that_cannot_be_read_is_refused_without_a_failure_in_the_server(
    pause: float, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    head = b"POST / HTTP/1.1\r\nHost: localhost:%d\r\nTransfer-Encoding: chunked\r\n\r\n" % port
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        client.sendall(head if pause else head + b"no chunk\r\n")
        if pause:
            time.sleep(pause)
            client.sendall(b"no chunk\r\n")
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert answer.split()[1] == (b"405" if pause else b"400")
    assert answer.count(b"HTTP/1.1") == 1
    time.sleep(0.1)
    assert not caplog.records
    assert ask(port, "/").status == 200


@pytest.mark.parametrize(
    "part",
    [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nHost: x\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc",
    ],
)
def test_a_client_that_never_finishes_its_request_is_closed(
    part: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_SECONDS_TO_ASK", 0.3)
    with serving(BUNDLE) as port, socket.create_connection(("127.0.0.1", port), 10) as client:
        client.sendall(part)
        while client.recv(65536):
            pass  # an answer is read; the end of the connection is b""


def test_a_client_that_sends_byte_by_byte_gets_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_SECONDS_TO_ASK", 0.3)
    with serving(BUNDLE) as port, socket.create_connection(("127.0.0.1", port), 10) as client:
        client.settimeout(0.05)
        begun = time.monotonic()
        with pytest.raises(OSError, match="reset|pipe|closed"):
            while time.monotonic() < begun + 10:
                client.sendall(b"G")
                with suppress(TimeoutError):
                    if client.recv(1) == b"":
                        raise OSError("closed")


def test_a_connection_is_kept_for_the_next_request(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_SECONDS_TO_ASK", 0.3)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with closing(connection):
        for _ in range(3):
            connection.request("GET", "/")
            assert connection.getresponse().read() == BUNDLE["index.html"]
            time.sleep(0.2)


def test_a_port_that_is_taken_is_named_with_the_way_out() -> None:
    with open_socket(0) as first:
        taken = first.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"port \({taken}\) is taken: .*--port"):
            open_socket(taken)


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_does_not_exist_is_refused(port: int) -> None:
    with pytest.raises(ConfigError, match=rf"port \({port}\) must be from 0 to 65535: .*--port"):
        open_socket(port)


def test_only_the_loopback_address_listens() -> None:
    with open_socket(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
        assert listener.family == socket.AF_INET
