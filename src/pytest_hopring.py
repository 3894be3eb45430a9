"""A plugin of pytest: `hop_cluster` makes clusters of real daemons, `hop_peers` peers; they end with the test.

pytest loads this file by itself wherever hopring is installed. So it imports nothing before it is used, and it
is not in the package: importing any part of that chooses between compiled modules and sources.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hopring.local.blocking import Cluster
    from hopring.local.blocking_peers import Peers

    HopCluster = Callable[..., Cluster]
    HopPeers = Callable[..., Peers]


@pytest.fixture
def hop_cluster(tmp_path: Path) -> "Iterator[HopCluster]":
    """Makes clusters: `cluster = hop_cluster({"eu": 2, "us": 2}, {("eu", "us"): "40ms"})`.

    The arguments are those of `hopring.sync.local_cluster`. Configuration, logs and traces are in the test's
    `tmp_path`, a directory for each cluster.
    """
    with ExitStack() as clusters:
        count = 0

        def make(*arguments: Any, **options: Any) -> "Cluster":
            nonlocal count
            count += 1
            options.setdefault("directory", tmp_path / f"cluster{count}")
            blocking: Any = import_module("hopring.local.blocking")
            cluster: Cluster = clusters.enter_context(blocking.local_cluster(*arguments, **options))
            return cluster

        yield make


@pytest.fixture
def hop_peers(tmp_path: Path) -> "Iterator[HopPeers]":
    """Makes peers: `peers = hop_peers(5, minimum=MAJORITY)`, with the arguments of `hopring.sync.local_peers`.

    Their traces are in the test's `tmp_path`, a directory for each set of peers.
    """
    with ExitStack() as every:
        count = 0

        def make(*arguments: Any, **options: Any) -> "Peers":
            nonlocal count
            count += 1
            options.setdefault("directory", tmp_path / f"peers{count}")
            blocking: Any = import_module("hopring.local.blocking_peers")
            peers: Peers = every.enter_context(blocking.local_peers(*arguments, **options))
            return peers

        yield make
