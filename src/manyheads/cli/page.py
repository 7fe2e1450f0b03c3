"""`manyheads serve` and `manyheads site`: the page on this machine, or as a folder."""

import threading
import webbrowser
from pathlib import Path

import click

from manyheads.cli.types import FilePath, IntRange


@click.command()
@click.option(
    "--port",
    type=IntRange(0, 65535),
    default=8765,
    show_default=True,
    help="Port to serve on; 0 picks a free port.",
)
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
def serve(port: int, no_open: bool) -> None:
    """Serve the page on this computer until Ctrl-C.

    Example: manyheads serve --port 8000 --no-open
    """
    from manyheads.web.server import LOOPBACK, open_socket, run_server
    from manyheads.web.site import read_bundle

    bundle = read_bundle()
    listener = open_socket(port)
    address = f"http://{LOOPBACK}:{listener.getsockname()[1]}/"
    click.echo(f"The page is at {address} (press Ctrl-C to stop)")
    if not no_open:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    run_server(bundle, listener)


@click.command()
@click.argument("out", type=FilePath())
def site(out: Path) -> None:
    """Write the page to the folder OUT.

    The folder works on any web server and when opened from disk.

    Example: manyheads site lesson
    """
    from manyheads.web.site import write_site

    files = write_site(out)
    click.echo(f"wrote {len(files)} files to {out}: open {out / 'index.html'}")
