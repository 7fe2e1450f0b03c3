"""Where the `manyheads` program begins: Ctrl-C while the command line loads is no traceback."""


def main() -> int:
    """Run the command line of this process and return its exit status."""
    try:
        from manyheads.cli.main import main as run
    except KeyboardInterrupt:
        return 130
    return run()
