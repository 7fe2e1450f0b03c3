"""Writes the data that is built into the page: `python -m tools.page web/src/generated`."""
