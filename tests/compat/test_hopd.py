"""Both compatibility modules at running daemons:

two sites, a split and a merge, native clients in the groups.
"""

import inspect
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from operator import methodcaller
from pathlib import Path
from select import select
from typing import Any

import pytest
from tests.support.free_ports import free_base_port
from tests.support.waiting import until
from tests.unit.compat.scripted_daemon import frame

from hopring import sync
from hopring.compat import sp, spread

ROOT = Path(__file__).parents[2]
WAIT_S = 60.0
SERVED = "spread" in inspect.signature(sync.local_cluster).parameters

numbers = count()

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SERVED, reason="daemons do not serve Spread clients here"),
]


def a_cluster(sites: dict[str, int], served: bool | int = True) -> sync.Cluster:
    options: dict[str, Any] = {"spread": served}
    return sync.local_cluster(sites, **options)


def where(cluster: sync.Cluster, daemon: str) -> str:
    name: str = methodcaller("spread", daemon)(cluster)
    return name


@pytest.fixture(scope="module")
def cluster() -> Iterator[sync.Cluster]:
    with a_cluster({"eu": 1, "us": 1}) as found:
        yield found


@pytest.fixture
def group() -> str:
    """A group that no other test uses."""
    return f"group{next(numbers)}"


class Sessions:
    """Connects sessions and disconnects all of them at the end."""

    def __init__(self, cluster: sync.Cluster) -> None:
        self._cluster = cluster
        self._open: list[int] = []

    def connect(self, daemon: str, name: str, membership: int = 1) -> int:
        place = where(self._cluster, daemon)
        answers: list[tuple[int, int, str]] = []

        def is_free() -> bool:
            """Whether a name is free; the end of its last session may not be ordered yet."""
            answers.append(sp.SP_connect_timeout(place, name, 0, membership, WAIT_S))
            return answers[-1][0] != sp.REJECT_NOT_UNIQUE

        until(is_free)
        ret, mbox, private_group = answers[-1]
        assert (ret, private_group) == (sp.ACCEPT_SESSION, f"#{name}#{daemon}")
        self._open.append(mbox)
        return mbox

    def close(self) -> None:
        for mbox in self._open:
            sp.SP_disconnect(mbox)


@pytest.fixture
def sessions(cluster: sync.Cluster) -> Iterator[Sessions]:
    found = Sessions(cluster)
    yield found
    found.close()


def receive(mbox: int, *arguments: int) -> sp.Received:
    """The next message; fails if none comes."""
    assert select([mbox], [], [], WAIT_S)[0], "no message came"
    return sp.SP_receive(mbox, *arguments)


def info(got: sp.Received) -> sp.MembershipInfo:
    found = sp.SP_get_memb_info(got.mess, got.service_type)
    assert found.ret == 1
    return found


def join(mbox: int, group: str) -> sp.Received:
    assert sp.SP_join(mbox, group) == 0
    return receive(mbox)


def test_both_sessions_see_the_same_view_after_a_join(sessions: Sessions, group: str) -> None:
    alice, bob = sessions.connect("eu1", "alice"), sessions.connect("us1", "bob")
    first = join(alice, group)
    at_bob, at_alice = join(bob, group), receive(alice)

    assert (first.sender, first.groups, first.mess_type) == (group, ("#alice#eu1",), 0)
    assert at_alice.groups == at_bob.groups == ("#alice#eu1", "#bob#us1")
    assert (at_alice.mess_type, at_bob.mess_type) == (0, 1)
    assert at_alice.service_type == sp.REG_MEMB_MESS | sp.CAUSED_BY_JOIN
    assert info(at_alice).changed_member == info(at_bob).changed_member == "#bob#us1"
    assert sp.SP_equal_group_ids(info(at_alice).gid, info(at_bob).gid) == 1
    assert sp.SP_equal_group_ids(info(first).gid, info(at_bob).gid) == 0


def test_messages_of_all_services_and_buffers(sessions: Sessions, group: str) -> None:
    alice, bob = sessions.connect("eu1", "alice"), sessions.connect("us1", "bob", membership=0)
    join(alice, group)
    for at in range(6):
        assert sp.SP_multicast(bob, 1 << at, group, -at, bytes([at])) == 1
        got = receive(alice, 0, 1, 1)
        assert tuple(got) == (1, 1 << at, "#bob#us1", 1, (group,), -at, 0, bytes([at]))
    assert sp.SP_scat_multicast(bob, sp.SAFE_MESS, group, 1, [b"one", b"two"]) == 6
    short = receive(alice, 0, 0, 5)
    assert (short.ret, short.num_groups, short.endian_mismatch) == (sp.GROUPS_TOO_SHORT, -1, -6)
    assert sp.SP_receive(alice, sp.DROP_RECV, 1, 5)[-1] == b"onetw"


def test_the_largest_message_and_a_hundred_groups(sessions: Sessions, group: str) -> None:
    alice = sessions.connect("eu1", "alice")
    join(alice, group)
    body = os.urandom(143_120)
    assert sp.SP_multicast(alice, sp.AGREED_MESS, group, 0, body) == len(body)
    assert receive(alice).mess == body
    groups = tuple(f"{group}-{at}" for at in range(99))
    assert sp.SP_multigroup_multicast(alice, sp.SAFE_MESS, (*groups, group), 9, b"x") == 1
    assert receive(alice).groups == (*groups, group)


def test_a_sender_of_the_other_byte_order(cluster: sync.Cluster, sessions: Sessions, group: str) -> None:
    alice = sessions.connect("eu1", "alice")
    join(alice, group)
    port, _, host = where(cluster, "us1").partition("@")
    with socket.create_connection((host, int(port)), WAIT_S) as java:
        java.sendall(bytes([4, 4, 0, 0, 4]) + b"java")
        assert java.recv(6, socket.MSG_WAITALL) == b"\x05NULL "
        java.sendall(b"NULL" + bytes(86))
        java.recv(5 + len("#java#us1"), socket.MSG_WAITALL)
        java.sendall(frame(0x10, b"#java#us1", (group.encode(),), b"hi", tag=0x1234, order=">", hint=">"))
        got = receive(alice)

    assert tuple(got) == (2, sp.AGREED_MESS, "#java#us1", 1, (group,), 0x1234, 1, b"hi")


def test_a_private_group_and_self_discard(sessions: Sessions, group: str) -> None:
    alice, bob = sessions.connect("eu1", "alice"), sessions.connect("us1", "bob")
    for mbox in (alice, bob):
        join(mbox, group)
    receive(alice)
    assert sp.SP_multicast(alice, sp.AGREED_MESS | sp.SELF_DISCARD, group, 0, b"not for me") == 10
    assert sp.SP_multicast(alice, sp.AGREED_MESS, group, 0, b"for all") == 7
    heard = receive(bob)
    assert sp.Is_self_discard(heard.service_type)
    assert sp.SP_multicast(bob, sp.AGREED_MESS, heard.sender, 0, b"for you") == 7
    assert [receive(alice).mess for _ in range(2)] == [b"for all", b"for you"]


def test_a_leave_and_a_disconnect(sessions: Sessions, group: str) -> None:
    alice, bob = sessions.connect("eu1", "alice"), sessions.connect("us1", "bob")
    carol = sessions.connect("us1", "carol")
    for mbox in (alice, bob, carol):
        join(mbox, group)
    for _ in range(2):
        receive(alice)
    assert sp.SP_leave(bob, group) == 0
    left = receive(alice)
    assert (left.service_type, info(left).changed_member) == (
        sp.REG_MEMB_MESS | sp.CAUSED_BY_LEAVE,
        "#bob#us1",
    )
    receive(bob)
    assert sp.Is_self_leave(receive(bob).service_type)
    assert sp.SP_disconnect(carol) == 0
    gone = receive(alice)
    assert sp.Is_caused_disconnect_mess(gone.service_type)
    assert (info(gone).changed_member, gone.groups) == ("#carol#us1", ("#alice#eu1",))


def test_messages_sent_before_a_disconnect_are_delivered_before_it(sessions: Sessions, group: str) -> None:
    alice, bob = sessions.connect("eu1", "alice"), sessions.connect("us1", "bob")
    for mbox in (alice, bob):
        join(mbox, group)
    for at in range(300):
        assert sp.SP_multicast(alice, sp.AGREED_MESS, group, at, bytes(1000)) == 1000
    assert sp.SP_disconnect(alice) == 0  # Its own copies are still unread.
    assert [receive(bob).mess_type for _ in range(300)] == list(range(300))
    assert sp.Is_caused_disconnect_mess(receive(bob).service_type)


def test_names_that_are_refused(cluster: sync.Cluster, sessions: Sessions) -> None:
    sessions.connect("eu1", "alice")
    assert sp.SP_connect(where(cluster, "eu1"), "alice").ret == sp.REJECT_NOT_UNIQUE
    assert sp.SP_connect(where(cluster, "eu1"), "a b").ret == sp.REJECT_ILLEGAL_NAME
    ret, mbox, private_group = sp.SP_connect(where(cluster, "eu1"))
    assert ret == sp.ACCEPT_SESSION
    assert private_group.endswith("#eu1")
    assert sp.SP_disconnect(mbox) == 0


def test_native_clients_are_in_the_same_groups(cluster: sync.Cluster, sessions: Sessions, group: str) -> None:
    alice = sessions.connect("eu1", "alice")
    join(alice, group)
    with cluster.connect("us1", name="nina") as nina:
        members = nina.join(group)
        assert receive(alice).groups == ("#alice#eu1", "#nina#us1")
        members.multicast(bytes(147_000))  # Longer than a Spread client can send.
        assert receive(alice).ret == 147_000
        members.multicast(b"from nina")
        assert receive(alice)[2:5] == ("#nina#us1", 1, (group,))
        sp.SP_multicast(alice, sp.SAFE_MESS, group, 5, b"from alice")
        heard = [next(members.messages()) for _ in range(3)]
        assert [one.data for one in heard[1:]] == [b"from nina", b"from alice"]


def test_a_session_of_the_old_spread_module(cluster: sync.Cluster, group: str) -> None:
    otto = spread.connect(where(cluster, "eu1"), "otto")
    olga = spread.connect(where(cluster, "us1"), "olga")
    otto.join(group)
    otto.receive()
    olga.join(group)
    at_otto, at_olga = otto.receive(), olga.receive()
    assert isinstance(at_otto, spread.MembershipMsgType)
    assert at_otto == at_olga
    assert (at_otto.reason, at_otto.extra) == (spread.CAUSED_BY_JOIN, ("#olga#us1",))
    olga.multigroup_multicast(spread.SAFE_MESS, (group, "elsewhere"), "hello", 3)
    got = otto.receive()
    assert tuple(got) == ("#olga#us1", (group, "elsewhere"), 3, 0, b"hello")
    for mbox in (otto, olga):
        mbox.disconnect()


def network_view(mbox: int) -> sp.Received:
    """The next view caused by the network; skips the signals before it."""
    got = receive(mbox)
    while not sp.Is_caused_network_mess(got.service_type):
        assert sp.Is_transition_mess(got.service_type)
        assert info(got).gid != sp.group_id(0, 0, 0)
        got = receive(mbox)
    return got


def own_set(got: sp.Received) -> tuple[str, ...]:
    members = sp.SP_get_vs_set_members(got.mess, info(got).my_vs_set)
    assert members.ret > 0
    return members.member_names


def test_a_split_and_a_merge(cluster: sync.Cluster, sessions: Sessions, group: str) -> None:
    names = [("eu1", "alice"), ("eu1", "anna"), ("us1", "bob")]
    alice, anna, bob = (sessions.connect(*one) for one in names)
    for mbox in (alice, anna, bob):
        join(mbox, group)
    for mbox, views in ((alice, 2), (anna, 1)):
        for _ in range(views):
            receive(mbox)
    eu, us = ("#alice#eu1", "#anna#eu1"), ("#bob#us1",)
    cluster.partition("eu", "us")
    split = [network_view(mbox) for mbox in (alice, anna, bob)]
    assert [one.groups for one in split] == [eu, eu, us]
    assert [own_set(one) for one in split] == [eu, eu, us]
    cluster.heal()
    merged = [network_view(mbox) for mbox in (alice, anna, bob)]
    assert [one.groups for one in merged] == [(*eu, *us)] * 3
    assert [own_set(one) for one in merged] == [eu, eu, us]
    assert len({info(one).gid for one in merged}) == 1
    for one in merged:
        sets = sp.SP_get_vs_sets_info(one.mess)
        found = [sp.SP_get_vs_set_members(one.mess, each).member_names for each in sets.vs_sets]
        assert sorted(found) == [eu, us]
        assert sets.vs_sets[sets.my_vs_set_index] == info(one).my_vs_set


def test_a_unix_socket_and_a_daemon_that_dies() -> None:
    port = free_base_port(1)
    with a_cluster({"eu": 1}, served=port) as cluster:
        ret, mbox, private_group = sp.SP_connect(str(port), "alice")
        assert (ret, private_group) == (sp.ACCEPT_SESSION, "#alice#eu1")
        join(mbox, "grp")
        cluster.crash("eu1")
        assert sp.SP_receive(mbox).ret == sp.CONNECTION_CLOSED
        assert sp.SP_receive(mbox).ret == sp.NET_ERROR_ON_SESSION
        assert sp.SP_disconnect(mbox) == 0
        assert sp.SP_connect(str(port), "alice").ret == sp.COULD_NOT_CONNECT
    Path(f"/tmp/{port}").unlink()  # The daemon was killed, so its socket file is still there.


def test_the_example_program_for_spread_runs_at_a_daemon(
    cluster: sync.Cluster, sessions: Sessions, group: str
) -> None:
    bob = sessions.connect("us1", "bob")
    join(bob, group)
    program = [sys.executable, str(ROOT / "examples" / "spuser.py"), "-s", where(cluster, "eu1"), "-u", "ute"]
    pipe = subprocess.PIPE
    with subprocess.Popen(program, stdin=pipe, stdout=pipe, text=True, env=os.environ) as alice:
        assert alice.stdin is not None
        assert alice.stdout is not None
        print(f"j {group}\ns {group},#bob#us1 hello bob", file=alice.stdin, flush=True)
        assert sp.Is_caused_join_mess(receive(bob).service_type)
        assert receive(bob).mess == b"hello bob"
        while "hello bob" not in (line := alice.stdout.readline()):
            assert line, "the program ended early"
        print("q", file=alice.stdin, flush=True)
        assert alice.wait(WAIT_S) == 0
    assert sp.Is_caused_disconnect_mess(receive(bob).service_type)
