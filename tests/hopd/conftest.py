"""Fixtures of tests that connect clients to daemons."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hopd.daemon_processes import DaemonProcesses
from tests.hopd.served_cluster import ServedCluster, cluster


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedCluster]:
    config = cluster()
    with DaemonProcesses(config, tmp_path, module="hopring.daemon.hopd") as daemons:
        daemons.start()
        daemons.wait(daemons.together)
        yield ServedCluster(daemons, config)
