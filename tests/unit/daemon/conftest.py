"""Fixture: an event loop for each test."""

from collections.abc import Iterator

import pytest

from hopring.daemon.loop.event_loop import Loop


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()
