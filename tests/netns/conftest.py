"""A lab for each test, where the machine allows one."""

from collections.abc import Iterator

import pytest
from tests.netns.lab import Lab, why_not

from hopring.daemon.loop import Loop


@pytest.fixture(scope="session")
def namespaces() -> None:
    """Skips, with the reason, where there can be no lab."""
    if reason := why_not():
        pytest.skip(reason)


@pytest.fixture
def lab(namespaces: None) -> Iterator[Lab]:
    with Lab() as lab:
        yield lab


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()
