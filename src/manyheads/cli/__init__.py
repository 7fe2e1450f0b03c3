"""The command line: `manyheads`, one file a command group."""
