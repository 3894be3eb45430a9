"""Fixtures that make labs of network namespaces, where the machine allows them."""

from collections.abc import Iterator

import pytest
from tests.netns.namespace_lab import Lab, why_not
from tests.netns.three_sites import ThreeSites

from hopring.daemon.loop.event_loop import Loop


@pytest.fixture(scope="session")
def namespaces() -> None:
    """Skips the test, with the reason, where namespaces are not available."""
    if reason := why_not():
        pytest.skip(reason)


@pytest.fixture
def lab(namespaces: None) -> Iterator[Lab]:
    with Lab() as lab:
        yield lab


@pytest.fixture(scope="module")
def shared_world(namespaces: None) -> Iterator[ThreeSites]:
    with Lab() as lab:
        yield ThreeSites(lab)


@pytest.fixture
def world(shared_world: ThreeSites) -> Iterator[ThreeSites]:
    """Three sites of two hosts, 30 ms apart; shared by the tests of a module and reset before each."""
    yield shared_world
    shared_world.reset()


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()
