"""What tests of daemons with clients share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hopd.lives import Lives
from tests.hopd.served_cluster import Served, cluster


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    config = cluster()
    with Lives(config, tmp_path, module="hopring.daemon.hopd") as lives:
        lives.start()
        lives.wait(lives.together)
        yield Served(lives, config)
