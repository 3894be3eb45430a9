"""Fixtures for tests of the asyncio and blocking shells of the client library."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.unit.client.fake_server import FakeServer


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with TemporaryDirectory(dir="/tmp") as directory:
        one = FakeServer(Path(directory) / "s")
        yield one
        one.close()
