"""Primary views of real daemons: a split, a client that sees which side counts, and restarts."""

import subprocess
import sys
from pathlib import Path

import pytest

from hopring import Event, View, sync

pytestmark = pytest.mark.slow

SECONDS_MAX = 60.0


def view_with(group: sync.Group, members: int, primary: bool) -> View:
    """The next view of this size that is primary, or is not."""
    while True:
        event: Event = group.receive(timeout_seconds=SECONDS_MAX)
        if isinstance(event, View) and (len(event.members), event.primary) == (members, primary):
            return event


def primaries(cluster: sync.Cluster) -> dict[str, str]:
    """Why the view of each living daemon is primary."""
    seen: dict[str, str] = {}
    for name in cluster.living:
        with cluster.connect(name) as session:
            seen[name] = session.view(timeout_seconds=SECONDS_MAX).primary_by
    return seen


def test_the_majority_is_primary_through_a_split_and_a_restart(tmp_path: Path) -> None:
    with sync.local_cluster({"eu": 2, "us": 1}, directory=tmp_path / "cluster") as cluster:
        cluster.settled()
        assert set(primaries(cluster).values()) <= {"first", "majority", "all"}
        with cluster.connect("eu1") as here, cluster.connect("us1") as there:
            of_eu, of_us = here.join("eu only"), there.join("us only")
            view_with(of_eu, 1, primary=True)
            view_with(of_us, 1, primary=True)

            cluster.partition("eu", "us")
            cluster.settled()
            assert primaries(cluster) == {"eu1": "majority", "eu2": "majority", "us1": ""}
            parted = view_with(of_us, 1, primary=False)
            assert (parted.cause, [one.name for one in parted.together]) == ("network", [there.name])

            cluster.heal()
            cluster.settled()
            assert set(primaries(cluster).values()) == {"majority"}
            view_with(of_us, 1, primary=True)
        # Two of three lives of the last primary end: those that come back have forgotten it.
        cluster.crash("eu2")
        cluster.settled()
        cluster.partition("eu", "us")
        cluster.settled()
        assert set(primaries(cluster).values()) == {""}
        cluster.crash("us1")
        cluster.restart("us1")
        cluster.restart("eu2")
        cluster.settled()
        assert primaries(cluster) == {"eu1": "", "eu2": "", "us1": ""}
        cluster.heal()
        cluster.settled()
        assert set(primaries(cluster).values()) == {"all"}


def test_a_restarted_cluster_has_no_primary_until_all_are_there(tmp_path: Path) -> None:
    with sync.local_cluster({"eu": 3}, directory=tmp_path / "cluster") as cluster:
        cluster.settled()
        for name in ("eu1", "eu2", "eu3"):
            cluster.crash(name)
        cluster.restart("eu1")
        cluster.restart("eu2")
        cluster.settled()
        assert primaries(cluster) == {"eu1": "", "eu2": ""}, "they have marks on their disks"
        cluster.restart("eu3")
        cluster.settled()
        assert set(primaries(cluster).values()) == {"all"}


def monitor(cluster: sync.Cluster, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "hopring.cli.main", "monitor", "--admin", str(cluster.admin_directory)]
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )


def test_an_operator_makes_a_view_primary_when_the_last_one_is_gone(tmp_path: Path) -> None:
    with sync.local_cluster({"eu": 2, "us": 1}, directory=tmp_path / "cluster") as cluster:
        cluster.settled()
        refused = monitor(cluster, "primary", "eu1", "--yes")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "the view of eu1, eu2, us1 is primary; heal the network instead" in refused.stderr

        for name in ("eu1", "eu2", "us1"):
            cluster.crash(name)
        cluster.restart("eu1")
        cluster.settled()
        assert primaries(cluster) == {"eu1": ""}
        assert monitor(cluster, "primary", "eu9", "--yes").returncode == 1
        done = monitor(cluster, "primary", "eu1", "--yes")
        assert (done.returncode, done.stdout) == (0, "eu1  primary by operator: eu1\n")
        assert primaries(cluster) == {"eu1": "operator"}

        cluster.restart("eu2")
        cluster.settled()
        assert primaries(cluster) == {"eu1": "majority", "eu2": "majority"}
