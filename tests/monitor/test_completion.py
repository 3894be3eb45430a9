"""Shell completion with names from running daemons."""

from collections.abc import Iterator

import pytest
from click.shell_completion import ShellComplete

from hopring import sync
from hopring.cli.main import cli
from hopring.local.blocking import Cluster

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with sync.local_cluster({"eu": 2, "us": 1}, trace=False) as cluster:
        yield cluster


def complete(*arguments: str) -> list[str]:
    *before, last = arguments
    return [one.value for one in ShellComplete(cli, {}, "hop", "_HOP_COMPLETE").get_completions(before, last)]


def test_groups_are_those_of_the_daemon(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster.connect("eu1") as anna:
        anna.join("trades")
        anna.join("news")
        assert complete("sub", "--at", cluster.url("eu1"), "") == ["news", "trades"]
        monkeypatch.setenv("HOP_URL", cluster.url("eu1"))
        assert complete("members", "tr") == ["trades"]


def test_daemons_and_sites_are_those_of_the_admin_sockets(cluster: Cluster) -> None:
    admin = ["monitor", "--admin", str(cluster.admin_directory)]

    assert complete(*admin, "terminate", "") == ["eu1", "eu2", "us1"]
    assert complete(*admin, "partition", "eu") == ["eu", "eu1", "eu2"]
