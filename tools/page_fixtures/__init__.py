"""Writes what the page's tests compare with: `python -m tools.page_fixtures OUT`."""
