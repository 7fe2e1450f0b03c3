"""One thread for these tests: their tensors are so small that threads only wait for each other."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    """Let torch compute with one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
