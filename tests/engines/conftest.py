"""The two engines below the same programs: daemons on this machine, and peers."""

import os
import threading
from collections.abc import Iterator
from itertools import count

import pytest
from tests.engines.engines import DaemonEngine, Engine, PeerEngine
from tests.support.waiting import until

from hopring import sync

_count = count()


@pytest.fixture(scope="session")
def daemons() -> Iterator[sync.Cluster]:
    """Three daemons for all tests of this directory; each test has groups of its own."""
    with sync.local_cluster({"eu": 2, "us": 1}, trace=False) as cluster:
        cluster.settled()
        yield cluster


@pytest.fixture(params=["hop", "rmp"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Daemons or peers, with names of groups that no other test uses."""
    mark = f"{os.getpid()}-{next(_count)}"
    if request.param == "hop":
        yield DaemonEngine(request.getfixturevalue("daemons"), mark)
        return
    yield PeerEngine(mark)
    until(lambda: not [one for one in threading.enumerate() if one.name == "hopring-peer"])
