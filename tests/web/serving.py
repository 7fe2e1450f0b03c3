"""A running server, and requests to it written byte by byte."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Thread

from manyheads.web.server import make_server, open_socket

COMMAND = (sys.executable, "-m", "manyheads.cli.main")


@contextmanager
def serving(bundle: Mapping[str, bytes]) -> Iterator[int]:
    """Serve a bundle on a free port, which is yielded."""
    listener = open_socket(0)
    port = int(listener.getsockname()[1])
    server = make_server(bundle, port)
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield port
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        listener.close()
        assert not thread.is_alive()


@contextmanager
def serve_command() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `manyheads serve` on a free port; yields the process and the printed address."""
    process = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0", "--no-open"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    with process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+/", line)
            assert found, line
            yield process, found.group()
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            process.wait(timeout=10)


class Answer:
    """Status, headers and content of one answer."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.content = response.read()


def ask(
    port: int,
    target: str,
    *hosts: str,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Send one request exactly as written, with these Host headers (none: the right one)."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for host in hosts or (f"127.0.0.1:{port}",):
            connection.putheader("Host", host)
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        connection.endheaders()
        return Answer(connection.getresponse())
    finally:
        connection.close()


def ask_raw(port: int, request: bytes) -> bytes:
    """Send bytes that no client would send; returns the beginning of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(request)
        return connection.recv(65536)
