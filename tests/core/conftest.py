"""One thread for these tests, as for those of attention."""

from tests.attention.conftest import one_thread  # noqa: F401 - a fixture, found by its name
