"""The calls of the flush library at running daemons: joins, leaves, a split and a merge, wrong calls."""

from collections.abc import Iterator

import pytest

from hopring import sync
from hopring.compat import fl, sp
from hopring.compat.constants import AGREED_MESS, FIFO_MESS, ILLEGAL_GROUP, SAFE_MESS

WAIT_S = 60.0

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster() -> Iterator[sync.Cluster]:
    with sync.local_cluster({"eu": 1, "us": 1}, spread=True, trace=False) as found:
        yield found


def connected(cluster: sync.Cluster, daemon: str, name: str) -> int:
    found = sp.SP_connect_timeout(cluster.spread(daemon), name, 0, 1, WAIT_S)
    assert found.ret == sp.ACCEPT_SESSION
    return found.mbox


def view(mbox: int, members: str) -> tuple[str, list[str]]:
    """The next view, which has these members; returns its cause and the names that come along."""
    got = fl.FL_receive(mbox)
    assert sp.Is_reg_memb_mess(got.service_type), got
    assert " ".join(got.groups) == members
    assert got.groups[got.mess_type] in members
    info = fl.FL_get_memb_info(got.mess, got.service_type)
    if not sp.Is_caused_network_mess(got.service_type):
        return info.changed_member, []
    sets = fl.FL_get_vs_sets_info(got.mess).vs_sets
    return "", [" ".join(fl.FL_get_vs_set_members(got.mess, one).member_names) for one in sets]


def asked(mbox: int, members: str) -> None:
    """The next message asks to flush."""
    got = fl.FL_receive(mbox)
    assert fl.Is_flush_req_mess(got.service_type), got
    assert (got.sender, " ".join(got.groups)) == ("g", members)


def message(mbox: int) -> tuple[str, bytes, int, tuple[str, ...]]:
    got = fl.FL_receive(mbox)
    assert sp.Is_regular_mess(got.service_type), got
    return got.sender, got.mess, got.mess_type, got.groups


def test_two_members_flush_through_a_join_a_split_a_merge_and_a_leave(cluster: sync.Cluster) -> None:
    ann, bob = connected(cluster, "eu1", "ann"), connected(cluster, "us1", "bob")
    assert fl.FL_join(ann, "g") == 0
    assert view(ann, "#ann#eu1") == ("#ann#eu1", [])
    assert fl.FL_flush(ann, "g") == fl.ILLEGAL_STATE
    assert fl.FL_flush(ann, "h") == ILLEGAL_GROUP

    assert fl.FL_join(bob, "g") == 0
    assert fl.FL_multicast(bob, AGREED_MESS, "g", 1, b"too early") == fl.ILLEGAL_STATE
    asked(ann, "#ann#eu1")
    assert fl.FL_multicast(ann, FIFO_MESS, "g", 7, b"last") == 4
    assert fl.FL_flush(ann, "g") == 0
    assert fl.FL_multicast(ann, FIFO_MESS, "g", 7, b"too late") == fl.ILLEGAL_STATE
    assert message(ann) == ("#ann#eu1", b"last", 7, ("g",))
    both = "#ann#eu1 #bob#us1"
    assert view(bob, both) == view(ann, both) == ("#bob#us1", [])

    assert fl.FL_multicast(bob, SAFE_MESS, "g", 1, b"to both") == 7
    assert message(ann) == message(bob) == ("#bob#us1", b"to both", 1, ("g",))
    assert fl.FL_unicast(ann, AGREED_MESS, "g", "#bob#us1", 2, b"to bob") == 6
    got = fl.FL_receive(bob)
    assert fl.Is_subgroup_cast(got.service_type)
    assert (got.sender, got.groups, got.mess, got.mess_type) == ("#ann#eu1", ("g",), b"to bob", 2)
    assert fl.FL_unicast(ann, AGREED_MESS, "g", "#eve#us1", 2, b"x") == ILLEGAL_GROUP
    assert fl.FL_subgroup_multicast(bob, AGREED_MESS, "g", ["#ann#eu1", "#bob#us1"], 3, b"both") == 4
    assert message(ann) == message(bob) == ("#bob#us1", b"both", 3, ("g",))

    cluster.partition({"eu"}, {"us"})
    for mbox, me in ((ann, "#ann#eu1"), (bob, "#bob#us1")):
        assert sp.Is_transition_mess(fl.FL_receive(mbox).service_type)
        asked(mbox, me)
        assert fl.FL_flush(mbox, "g") == 0
        assert view(mbox, me) == ("", [me])
    cluster.heal()
    for mbox, me in ((ann, "#ann#eu1"), (bob, "#bob#us1")):
        asked(mbox, me)
        assert fl.FL_flush(mbox, "g") == 0
    for mbox in (ann, bob):
        cause, sets = view(mbox, both)
        assert (cause, sorted(sets)) == ("", ["#ann#eu1", "#bob#us1"])

    assert fl.FL_leave(bob, "g") == 0
    asked(ann, "#ann#eu1")
    assert fl.FL_flush(ann, "g") == 0
    assert view(ann, "#ann#eu1") == ("#bob#us1", [])
    assert sp.Is_self_leave(fl.FL_receive(bob).service_type)
    for mbox in (ann, bob):
        assert fl.FL_poll(mbox) == 0
        fl.FL_disconnect(mbox)
