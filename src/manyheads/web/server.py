"""Serves the built page to this machine and to nobody else."""

import errno
import mimetypes
import socket
from collections.abc import Mapping
from contextlib import suppress

import uvicorn
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from manyheads.core.errors import ConfigError

LOOPBACK = "127.0.0.1"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
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
    ".svg": "image/svg+xml",
}
_NOT_FOUND = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>manyheads: no such page</title></head>
<body><main><h1>There is no such page</h1><p><a href="/">To the worksheets</a></p></main></body>
</html>
"""


def page_app(bundle: Mapping[str, bytes], port: int) -> ASGIApp:
    """Make the server's application: it answers with the files of the bundle and nothing else.

    The files are looked up by name in memory, so no path can lead out of them.

    Args:
        bundle: files by name, as `read_bundle` gives them.
        port: the port that the Host header must name.
    """
    hosts = {f"{name}:{port}" for name in ("localhost", LOOPBACK, "[::1]")}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await _answer(scope, bundle, hosts)(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})

    return app


def _answer(scope: Scope, bundle: Mapping[str, bytes], hosts: set[str]) -> Response:
    given = [host.lower() for host in Headers(scope=scope).getlist("host")]
    if len(given) != 1 or given[0] not in hosts:
        return PlainTextResponse("This Host is not served here.\n", 400, _HEADERS)
    if scope["method"] not in ("GET", "HEAD"):
        allowed = {"Allow": "GET, HEAD"} | _HEADERS
        return PlainTextResponse("Only GET and HEAD are served.\n", 405, allowed)
    name = scope["path"].removeprefix("/") or "index.html"
    content = bundle.get(name)
    if content is None:
        return Response(_NOT_FOUND, 404, _HEADERS, _TYPES[".html"])
    return Response(content, 200, _HEADERS, _type_of(name))


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
        raise ConfigError(f"port ({port}) must be 0 to 65535: pass another with --port")
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


def run_server(bundle: Mapping[str, bytes], listener: socket.socket) -> None:
    """Serve until Ctrl-C, then return.

    Args:
        bundle: files by name, as `read_bundle` gives them.
        listener: from `open_socket`; closed on return.
    """
    port = listener.getsockname()[1]
    config = uvicorn.Config(
        page_app(bundle, port),
        lifespan="off",
        log_config=None,  # uvicorn's own fails where standard output is closed
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=2,
        ws="none",
    )
    with listener, suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])
