"""Fixtures for tests of the client library's shells."""

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
