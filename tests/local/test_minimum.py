"""Minimum sizes of groups at real daemons: splits, sends that wait or fail, and what the commands show."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hopring import (
    ALL,
    MAJORITY,
    Event,
    Expired,
    GroupSuspended,
    Message,
    NoReceipt,
    Suspended,
    Transition,
    View,
    sync,
)
from hopring import connect as connect_async

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


def next_of(group: sync.Group, kind: type) -> Event:
    while True:
        event: Event = group.receive(timeout_seconds=SECONDS_MAX)
        if isinstance(event, kind):
            return event


def view_with(group: sync.Group, members: int, suspended: bool) -> View:
    """The next view of this size that is suspended, or is not."""
    while True:
        event = next_of(group, View)
        if isinstance(event, View) and (len(event.members), event.suspended) == (members, suspended):
            return event


def hop(*words: str) -> str:
    command = [sys.executable, "-m", "hopring.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=True).stdout


def test_a_group_below_its_minimum_is_suspended_and_what_is_sent_waits(whole: sync.Cluster) -> None:
    with whole.connect("eu1") as anna, whole.connect("us1") as ben:
        first = anna.join("orders", minimum=2)
        assert [type(first.receive(timeout_seconds=SECONDS_MAX)) for _ in range(2)] == [View, Suspended]
        first.multicast(b"waits")
        with pytest.raises(NoReceipt):
            first.multicast_wait(b"waits too", timeout_seconds=0.3)
        with pytest.raises(Expired):
            first.multicast_wait(b"in time or never", ttl_seconds=0.1, timeout_seconds=SECONDS_MAX)

        second = ben.join("orders")

        view = view_with(first, 2, suspended=False)
        assert view.minimum == 2
        assert next_of(first, Message).data == b"waits"  # type: ignore[union-attr]
        assert next_of(first, Message).data == b"waits too"  # type: ignore[union-attr]
        assert [next_of(second, Message).data for _ in range(2)] == [b"waits", b"waits too"]  # type: ignore[union-attr]


def test_a_session_may_choose_that_its_messages_are_refused(whole: sync.Cluster) -> None:
    with whole.connect("eu1") as anna, whole.connect("eu1", when_suspended="fail") as ben:
        anna.join("orders", minimum=3)
        group = ben.join("orders")
        with pytest.raises(GroupSuspended, match="group 'orders': the group is suspended; send it again when"):
            group.multicast_wait(b"never", timeout_seconds=SECONDS_MAX)
        ben.multicast_wait("elsewhere", b"goes", timeout_seconds=SECONDS_MAX)


def test_a_session_that_closes_is_told_what_was_not_sent(whole: sync.Cluster) -> None:
    with whole.connect("eu1") as anna:
        anna.join("orders", minimum=3)
        ben = whole.connect("eu2")
        ben.multicast("orders", b"never")
        with pytest.raises(GroupSuspended):
            ben.close()


def test_of_a_split_the_side_with_the_majority_goes_on(whole: sync.Cluster) -> None:
    with whole.connect("eu1") as anna, whole.connect("us1") as ben:
        of_eu, of_us = anna.join("ledger", minimum=MAJORITY), ben.join("ledger")
        view_with(of_us, 2, suspended=False)

        whole.partition("eu", "us")
        whole.settled()

        assert [type(of_us.receive(timeout_seconds=SECONDS_MAX)) for _ in range(3)] == [
            Transition,
            Suspended,
            View,
        ]
        view_with(of_eu, 1, suspended=False)
        of_eu.multicast_wait(b"goes on", timeout_seconds=SECONDS_MAX)
        facts = json.loads(hop("view", "--at", whole.url("us1"), "--json"))
        assert (facts["primary"], facts["suspended"]) == (False, ["ledger"])
        members = ben.members("ledger", timeout_seconds=SECONDS_MAX)
        assert (members.suspended, members.minimum) == (True, MAJORITY)
        of_us.multicast(b"later")

        whole.heal()
        whole.settled()
        back = view_with(of_us, 2, suspended=False)
        assert back.minimum == MAJORITY
        assert next_of(of_us, Message).data == b"later"  # type: ignore[union-attr]


def test_all_members_have_to_be_there(whole: sync.Cluster) -> None:
    with whole.connect("eu1") as anna, whole.connect("us1") as ben:
        of_eu, of_us = anna.join("pair", minimum=ALL), ben.join("pair")
        view_with(of_us, 2, suspended=False)

        whole.partition("eu", "us")
        whole.settled()
        view_with(of_eu, 1, suspended=True)
        view_with(of_us, 1, suspended=True)

        whole.heal()
        whole.settled()
        view_with(of_eu, 2, suspended=False)
        of_us.leave(timeout_seconds=SECONDS_MAX)
        assert not view_with(of_eu, 1, suspended=False).suspended


def test_the_command_states_a_minimum(whole: sync.Cluster) -> None:
    command = [sys.executable, "-m", "hopring.cli.main", "sub", "orders", "--at", whole.url("eu1")]
    with subprocess.Popen(
        [*command, "--minimum", "2", "--views", "--count", "1"], stdout=subprocess.PIPE
    ) as sub:
        assert sub.stdout is not None
        assert sub.stdout.readline().startswith(b"-- view of orders")
        assert sub.stdout.readline() == b"-- orders is suspended: 2 of its members have to be there\n"
        assert "suspended" in hop("groups", "--at", whole.url("eu2"))
        with whole.connect("eu2") as anna:
            anna.join("orders")
            anna.multicast_wait("orders", b"now", timeout_seconds=SECONDS_MAX)
            assert sub.wait(SECONDS_MAX) == 0


def test_the_same_with_asyncio(whole: sync.Cluster) -> None:
    async def story() -> None:
        async with connect_async(whole.url("eu1"), when_suspended="fail") as anna:
            group = await anna.join("orders", minimum=2)
            assert [type(await group.receive()) for _ in range(2)] == [View, Suspended]
            with pytest.raises(GroupSuspended):
                await group.multicast_wait(b"never", timeout_seconds=SECONDS_MAX)
            async with connect_async(whole.url("us1")) as ben, ben.join("orders"):
                receipt = await group.multicast_wait(b"now", timeout_seconds=SECONDS_MAX)
                assert receipt.members == 2

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))
