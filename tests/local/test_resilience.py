"""Resilient messages, and sessions that require a primary view, at real daemons: one order, and a split."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hopring import MAJORITY, InDoubt, Message, NotPrimary, RequestRefused, Service, View, sync

pytestmark = pytest.mark.slow

SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sync.Cluster]:
    """Two daemons in eu and one in us."""
    directory: Path = tmp_path_factory.mktemp("cluster") / "cluster"
    with sync.local_cluster({"eu": 2, "us": 1}, directory=directory) as made:
        made.settled()
        yield made


@pytest.fixture
def whole(cluster: sync.Cluster) -> Iterator[sync.Cluster]:
    """The cluster, in one view before and after the test."""
    yield cluster
    cluster.heal()
    cluster.settled()


def wait_for_members(*groups: sync.Group) -> None:
    """Waits until all of them are in one view: a join is ordered like a message."""
    for group in groups:
        event = group.receive(timeout_seconds=SECONDS_MAX)
        while not (isinstance(event, View) and len(event.members) == len(groups)):
            event = group.receive(timeout_seconds=SECONDS_MAX)


def bodies(group: sync.Group, count: int) -> list[bytes]:
    """The next messages of a group."""
    out: list[bytes] = []
    while len(out) < count:
        event = group.receive(timeout_seconds=SECONDS_MAX)
        if isinstance(event, Message):
            out.append(event.data)
    return out


def test_messages_of_all_levels_share_one_order(whole: sync.Cluster) -> None:
    names = ("eu1", "eu2", "us1")
    sessions = {name: whole.connect(name) for name in names}
    try:
        groups = {name: session.join("levels") for name, session in sessions.items()}
        wait_for_members(*groups.values())
        for at in range(20):
            for name in names:
                for level in (0, 1, 2, MAJORITY):
                    groups[name].multicast(b"%s %d" % (name.encode(), at), resilience=level)
                groups[name].multicast(b"safe", service=Service.SAFE, resilience=1)
                groups[name].multicast(b"causal", service=Service.CAUSAL, resilience=1)
        seen = {name: bodies(group, 20 * 3 * 6) for name, group in groups.items()}
    finally:
        for session in sessions.values():
            session.close()

    assert seen["eu1"] == seen["eu2"] == seen["us1"]


def test_a_group_without_members_elsewhere_has_holders_elsewhere_too(whole: sync.Cluster) -> None:
    # The group has members at us1 only, and nobody else is in its site: the body goes to eu for its holders.
    with whole.connect("us1") as session:
        group = session.join("only here")
        receipt = group.multicast_wait(b"held by another daemon", resilience=1, timeout_seconds=SECONDS_MAX)
        group.multicast_many([b"1", b"2", b"3"], resilience=2)

        assert receipt.members == 1
        assert bodies(group, 4) == [b"held by another daemon", b"1", b"2", b"3"]


def test_more_holders_than_daemons_are_refused_and_the_session_goes_on(whole: sync.Cluster) -> None:
    with whole.connect("eu1") as session:
        group = session.join("too many")
        with pytest.raises(RequestRefused, match="3 daemons are configured: send with resilience=2 at most"):
            group.multicast_wait(b"never", resilience=3, timeout_seconds=SECONDS_MAX)
        group.multicast_wait(b"two others", resilience=2, timeout_seconds=SECONDS_MAX)

        assert bodies(group, 1) == [b"two others"]


def test_at_a_split_only_the_primary_side_takes_majority_messages(whole: sync.Cluster) -> None:
    with whole.connect("eu1") as here, whole.connect("us1") as there:
        of_eu, of_us = here.join("ledger"), there.join("ledger")
        wait_for_members(of_eu, of_us)
        of_eu.multicast_wait(b"before", resilience=MAJORITY, timeout_seconds=SECONDS_MAX)
        assert bodies(of_us, 1) == [b"before"], "after the split it would be withheld"
        whole.partition("eu", "us")
        # us1 does not know of the split yet, and takes the message: it is withheld when the view ends.
        with pytest.raises(InDoubt, match="the view ceased to be primary before it was delivered here"):
            of_us.multicast_wait(b"caught by the split", resilience=MAJORITY, timeout_seconds=SECONDS_MAX)
        whole.settled()
        of_eu.multicast_wait(b"of the majority", resilience=MAJORITY, timeout_seconds=SECONDS_MAX)
        with pytest.raises(NotPrimary):
            of_us.multicast_wait(b"of the minority", resilience=MAJORITY, timeout_seconds=SECONDS_MAX)
        of_us.multicast_wait(b"agreed here", timeout_seconds=SECONDS_MAX)
        of_us.multicast_wait(b"all that are left", resilience=1, timeout_seconds=SECONDS_MAX)
        whole.heal()
        whole.settled()
        of_us.multicast_wait(b"together again", resilience=MAJORITY, timeout_seconds=SECONDS_MAX)

        assert bodies(of_eu, 3) == [b"before", b"of the majority", b"together again"]
        assert bodies(of_us, 3) == [b"agreed here", b"all that are left", b"together again"]


def hop(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "hopring.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)


def test_a_session_that_requires_a_primary_view_gets_one_or_an_error(whole: sync.Cluster) -> None:
    whole.partition("eu", "us")
    whole.settled()
    parted, primary = whole.url("us1"), whole.url("eu1")

    with pytest.raises(
        NotPrimary, match="the daemons' view is not primary; connect to a daemon on the primary"
    ):
        sync.connect(parted, require="primary")
    with sync.connect([parted, primary], require="primary") as session:
        assert session.daemon == "eu1"
    refused = hop("groups", "--at", parted, "--require", "primary")
    assert (refused.returncode, refused.stdout) == (5, "")
    assert "the daemons' view is not primary" in refused.stderr
    assert hop("groups", "--at", primary, "--require", "primary").returncode == 0
