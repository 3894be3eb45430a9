"""Retained values at real daemons: joiners in other sites, daemons that start later, splits and merges."""

from collections.abc import Iterator

import pytest
from tests.support.waiting import until

from hopring import Message, Service, WrongValue, sync
from hopring.sync import Cluster

pytestmark = pytest.mark.slow
SECONDS = 60.0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with sync.local_cluster({"eu": 2, "us": 1}) as cluster:
        cluster.settled()
        yield cluster


def first_value(session: sync.Session) -> Message | None:
    """The value that the session gets when it joins, if it gets one before a message that is sent then."""
    with session.join("prices", timeout_seconds=SECONDS) as group:
        group.multicast(b"after")
        for event in group:
            if isinstance(event, Message):
                return event if event.retained else None
    raise AssertionError("the loop ended")


def test_joiners_of_all_sites_get_the_last_value_also_where_nobody_was_interested(
    cluster: Cluster,
) -> None:
    with cluster.connect("eu1") as sender, cluster.connect("us1") as far, cluster.connect("eu2") as near:
        sender.multicast("prices", b"1", retain=True)
        sender.multicast_wait("prices", b"2", retain=True, headers={"key": "EURUSD"})
        for session in (far, near, sender):
            value = first_value(session)
            assert value is not None
            assert (value.data, dict(value.headers), value.sender) == (
                b"2",
                {"key": "EURUSD"},
                sender.private_group,
            )
        sender.multicast_wait("prices", b"", retain=True)
        assert first_value(far) is None


def test_after_a_merge_all_have_the_same_value_and_members_of_the_other_side_are_told(
    cluster: Cluster,
) -> None:
    with cluster.connect("eu1") as eu, cluster.connect("us1") as us:
        eu_group, us_group = eu.join("prices"), us.join("prices")
        cluster.partition(["eu1", "eu2"], ["us1"])
        until(lambda: len(eu.members("prices").members) == len(us.members("prices").members) == 1)
        eu.multicast_wait("prices", b"eu", retain=True)
        us.multicast_wait("prices", b"us", retain=True)
        cluster.heal()
        cluster.settled()

        seen: dict[str, list[bytes]] = {"eu": [], "us": []}

        def last() -> bool:
            for name, group in (("eu", eu_group), ("us", us_group)):
                events = group.receive_many(max_wait_seconds=0.05)
                seen[name] += [one.data for one in events if isinstance(one, Message)]
            return seen["eu"][-1:] == seen["us"][-1:] != []

        until(last)
        with cluster.connect("eu2") as joiner:
            value = first_value(joiner)
        assert value is not None
        assert value.data == seen["eu"][-1]


def test_wrong_arguments_are_refused_at_the_call(cluster: Cluster) -> None:
    with cluster.connect("eu1") as session:
        for groups, data, service in (
            ("prices", b"x", Service.FIFO),
            (["a", "b"], b"x", Service.AGREED),
            (session.private_group, b"x", Service.AGREED),
            ("prices", bytes(20_000), Service.AGREED),
        ):
            with pytest.raises(WrongValue):
                session.multicast(groups, data, service=service, retain=True)
