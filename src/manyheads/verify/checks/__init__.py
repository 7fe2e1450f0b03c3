"""Checks of a subject, a family a file; each records what it found in the context."""
