"""A plugin of pytest: real daemons by `hop_cluster`, peers by `hop_peers`, joined clusters by `hop_wide`.

All end with the test. Pytest loads this file by itself wherever hopring is installed. So it imports nothing
before it is used, and it is not in the package: importing any part of that chooses between compiled modules and
sources.
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
    from hopring.wide.local_clusters.blocking import LocalWide

    HopCluster = Callable[..., Cluster]
    HopPeers = Callable[..., Peers]
    HopWide = Callable[..., LocalWide]


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


@pytest.fixture
def hop_wide(tmp_path: Path) -> "Iterator[HopWide]":
    """Makes joined clusters: `world = hop_wide({"hub": 1, "norway": 1}, members=3)`.

    The arguments are those of `hopring.wide.sync.local`. Files and logs are in the test's `tmp_path`, a
    directory for each call.
    """
    with ExitStack() as every:
        count = 0

        def make(*arguments: Any, **options: Any) -> "LocalWide":
            nonlocal count
            count += 1
            options.setdefault("directory", tmp_path / f"wide{count}")
            blocking: Any = import_module("hopring.wide.local_clusters.blocking")
            world: LocalWide = every.enter_context(blocking.LocalWide(*arguments, **options))
            return world

        yield make
