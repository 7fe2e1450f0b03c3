"""Serves the built page to this machine only.

The content policy: scripts and styles are the page's own files, nothing is inline, and no text
becomes a script. The page's engine may run in a worker made from a text of the page (`blob:`), with
the same policy. WebAssembly may be compiled only if the page contains ONNX Runtime.
"""

import asyncio
import errno
import gzip
import mimetypes
import re
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

import h11
import uvicorn
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from manyheads.core.errors import ConfigError

LOOPBACK = "127.0.0.1"
_POLICY = (
    "default-src 'none'; script-src 'self'{wasm}; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; worker-src 'self' blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_MOST_PACKED = 4_000_000
"""Bytes of the largest text that is compressed, once, when the server starts."""
_SECONDS_TO_ASK = 10.0
"""Seconds after which a client without a complete request is closed."""
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".onnx": "application/octet-stream",
    ".ipynb": "application/x-ipynb+json",
    ".pdf": "application/pdf",
    ".safetensors": "application/octet-stream",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
}
_NOT_FOUND = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>manyheads: page not found</title></head>
<body><main><h1>Page not found</h1><p><a href="/">Go to the lesson</a></p></main></body>
</html>
"""


def page_app(bundle: Mapping[str, bytes], port: int) -> ASGIApp:
    """Make the server's application, which serves only the files of the bundle.

    The files are looked up by name in memory, so no path can lead out of them.

    Args:
        bundle: files by name, as `read_bundle` gives them.
        port: the port that the Host header must name.
    """
    hosts = {f"{name}:{port}" for name in ("localhost", LOOPBACK, "[::1]")}
    packed = {name: _packed(name, content) for name, content in bundle.items()}
    headers = {"Content-Security-Policy": _policy(bundle)} | _HEADERS

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            answer = _refusal(scope, hosts, headers) or _answer(scope, bundle, packed, headers)
            await answer(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})

    return app


def _policy(bundle: Mapping[str, bytes]) -> str:
    carries_wasm = any(name.endswith(".wasm") for name in bundle)
    return _POLICY.format(wasm=" 'wasm-unsafe-eval'" if carries_wasm else "")


def _refusal(scope: Scope, hosts: set[str], headers: Mapping[str, str]) -> Response | None:
    """The refusal of a request: another Host, or a method other than GET and HEAD."""
    given = [host.lower() for host in Headers(scope=scope).getlist("host")]
    if len(given) != 1 or given[0] not in hosts:
        return PlainTextResponse("This server answers requests for localhost only.\n", 400, headers)
    if scope["method"] not in ("GET", "HEAD"):
        allowed = {"Allow": "GET, HEAD", **headers}
        return PlainTextResponse("Only GET and HEAD are served.\n", 405, allowed)
    return None


def _answer(
    scope: Scope,
    bundle: Mapping[str, bytes],
    packed: Mapping[str, bytes | None],
    headers: Mapping[str, str],
) -> Response:
    name = scope["path"].removeprefix("/") or "index.html"
    if name not in bundle:
        return Response(_NOT_FOUND, 404, headers, _TYPES[".html"])
    content, small = bundle[name], packed[name]
    if small is not None:
        headers = {"Vary": "Accept-Encoding", **headers}
        if _takes_gzip(Headers(scope=scope).getlist("accept-encoding")):
            content, headers = small, {"Content-Encoding": "gzip", **headers}
    return Response(content, 200, headers, _type_of(name))


def _packed(name: str, content: bytes) -> bytes | None:
    """The compressed text; None for files that are sent as they are."""
    is_text = any(word in _type_of(name) for word in ("text/", "json", "svg"))
    return gzip.compress(content, mtime=0) if is_text and len(content) <= _MOST_PACKED else None


def _takes_gzip(accepted: Sequence[str]) -> bool:
    offers = [offer.strip().lower() for line in accepted for offer in line.split(",")]
    return any(re.fullmatch(r"gzip(\s*;\s*q=(1(\.0*)?|0\.\d*[1-9]\d*))?", o) for o in offers)


def _type_of(name: str) -> str:
    ending = name[name.rfind(".") :] if "." in name else ""
    return _TYPES.get(ending) or mimetypes.guess_type(name)[0] or "application/octet-stream"


def open_socket(port: int) -> socket.socket:
    """Listen on the loopback address.

    Args:
        port: 1 to 65535, or 0 for any free one.

    Raises:
        ConfigError: no such port, or it is taken or not allowed.
    """
    if not 0 <= port <= 65535:
        raise ConfigError(f"port ({port}) must be from 0 to 65535: pass another with --port")
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        why = (
            "is taken"
            if error.errno == errno.EADDRINUSE
            else f"is refused ({error.strerror or error})"
        )
        raise ConfigError(f"port ({port}) {why}: pass another with --port") from error
    return listener


def make_server(bundle: Mapping[str, bytes], port: int) -> uvicorn.Server:
    """Make the server of a bundle; it listens when it runs.

    Args:
        bundle: files by name, as `read_bundle` gives them.
        port: the port that the Host header must name.
    """
    config = uvicorn.Config(
        page_app(bundle, port),
        http=_PageProtocol,
        lifespan="off",
        log_config=None,  # uvicorn's own fails where standard output is closed
        log_level="error",
        server_header=False,
        timeout_graceful_shutdown=2,
        ws="none",
    )
    return uvicorn.Server(config)


def run_server(bundle: Mapping[str, bytes], listener: socket.socket) -> None:
    """Serve until Ctrl-C, then return.

    Args:
        bundle: files by name, as `read_bundle` gives them.
        listener: from `open_socket`; closed on return.
    """
    with listener, suppress(KeyboardInterrupt):
        make_server(bundle, listener.getsockname()[1]).run(sockets=[listener])


class _PageProtocol(H11Protocol):
    """HTTP/1.1 that closes clients which never finish a request, and explains refusals. uvicorn
    itself waits forever for the rest of a request. It answers a request that it cannot parse with
    400 and closes at once, so a client that is still sending sees a reset.
    """

    _timer: asyncio.TimerHandle | None = None
    _is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        super().connection_made(transport)
        self._limit_time()

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return  # read and dropped, so that the client can read the answer
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._limit_time()
        elif not self._is_refused:
            self._stop_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer a request that cannot be read; uvicorn calls this while it handles the error."""
        if self.cycle is not None:  # its answer would be a second one
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return self.transport.close()
        error = sys.exception()
        status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        headers = {
            "Content-Type": "text/plain; charset=utf-8",
            "Connection": "close",
            "Content-Security-Policy": _POLICY.format(wasm=""),
            **_HEADERS,
        }
        answer = h11.Response(
            status_code=status, headers=list(headers.items()), reason=STATUS_PHRASES[status]
        )
        for event in (answer, h11.Data(data=f"{msg}\n".encode()), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.write_eof()
        self._is_refused = True
        self._limit_time()

    def _limit_time(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(_SECONDS_TO_ASK, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
