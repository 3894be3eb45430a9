"""Byte-level clients at real daemons, three in one site on loopback; the expected bytes are those of Spread."""

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from struct import pack

import pytest
from tests.spread.client import (
    AGREED,
    BY_DISCONNECT,
    BY_JOIN,
    BY_LEAVE,
    CAUSAL,
    FIFO,
    JOIN,
    KILL,
    LEAVE,
    NULL,
    REG_MEMB,
    RELIABLE,
    SAFE,
    SELF_DISCARD,
    UNRELIABLE,
    Client,
    Shown,
    dial,
    frame,
    hello,
    padded,
)

from hopring import Message, View
from hopring.groups.sessions import EXPEDITED_IN_A_ROW
from hopring.local.blocking import Cluster
from hopring.sync import local_cluster

pytestmark = pytest.mark.slow

ORDERS = ["<", ">"]
VERSIONS = [(3, 10), (3, 15, 0), (3, 17, 4), (4, 4, 0), (5, 0, 1)]
MARKED = bytes.fromhex("80 00 00 80")  # A hint with nothing but the marker.
_serials = itertools.count()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("spread")
    with local_cluster({"d": 3}, spread=True, trace=False, directory=directory, allow=["priority"]) as cluster:
        yield cluster


@pytest.fixture
def group() -> str:
    """A group that no other test uses."""
    return f"grp{next(_serials)}"


class Party:
    """Clients of one test, which are closed after it."""

    def __init__(self, cluster: Cluster, clients: contextlib.ExitStack) -> None:
        self._cluster = cluster
        self._clients = clients

    def connection(self, daemon: str = "d1", order: str = "<") -> Client:
        client = dial(self._cluster.spread(daemon), order)
        self._clients.callback(client.close)
        return client

    def client(
        self,
        user: str = "",
        daemon: str = "d1",
        order: str = "<",
        version: tuple[int, ...] = (5, 0, 1),
        membership: bool = True,
        priority: bool = False,
    ) -> Client:
        return self.connection(daemon, order).connect(user, version, membership, priority)

    def members(self, group: str, *where: str, order: str = "<") -> list[Client]:
        """A member at each of these daemons, all of which have seen the last one join."""
        found: list[Client] = []
        for daemon in where:
            one = self.client(daemon=daemon, order=order)
            one.join(group)
            for other in [*found, one]:
                other.view()
            found.append(one)
        return found


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stops a daemon in the block; bytes that are written to it wait in the kernel."""
    os.kill(pid, signal.SIGSTOP)
    try:
        end = time.monotonic() + 20
        while Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "T":
            assert time.monotonic() < end, "the daemon was not stopped in time"
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.fixture
def party(cluster: Cluster) -> Iterator[Party]:
    with contextlib.ExitStack() as clients:
        yield Party(cluster, clients)


# Handshakes.


@pytest.mark.parametrize("version", VERSIONS)
def test_clients_of_all_versions_are_accepted(party: Party, version: tuple[int, ...]) -> None:
    user = f"user{next(_serials)}"
    one = party.client(user, version=version)

    head = bytes([1, 5, 0]) if version < (3, 15) else bytes([1, 5, 0, 1])
    private_group = f"#{user}#d1".encode()
    assert one.welcome == head + bytes([len(private_group)]) + private_group


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("order", ORDERS)
def test_clients_of_all_versions_join_send_and_leave(
    party: Party, group: str, version: tuple[int, ...], order: str
) -> None:
    one = party.client(version=version, order=order)
    one.join(group)
    assert one.view().groups == (one.name,)
    one.say(AGREED, group, body=b"hello")
    assert one.message().body == b"hello"
    one.leave(group)
    assert one.take() == Shown(BY_LEAVE, group, (), MARKED, b"")


def test_a_client_without_a_name_gets_one(party: Party) -> None:
    one, other = party.client(), party.client()

    assert one.name.startswith("#r")
    assert one.name.endswith("#d1")
    assert len(one.name) <= 31
    assert one.name != other.name


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (bytes([2, 1, 0, 0, 1]) + b"a", "f9"),
        (bytes([3, 0, 1, 1]) + b"a", "f9"),
        (bytes([5, 0, 1, 1, 11]) + b"elevenbytes", "fb"),
        (hello("a b"), "fb"),
        (hello("#a"), "fb"),
    ],
)
def test_a_refused_client_gets_a_code_and_the_connection_is_closed(
    party: Party, said: bytes, code: str
) -> None:
    one = party.connection()
    one.write(said)

    assert one.read(1) == bytes.fromhex(code)
    assert one.ended()


def test_a_name_is_taken_at_one_daemon_and_free_at_another(party: Party) -> None:
    party.client("twin")
    assert party.client("twin", daemon="d2").name == "#twin#d2"
    other = party.connection()
    other.write(hello("twin"))

    assert other.read(1) == b"\xfa"
    assert other.ended()


def test_a_name_of_a_native_client_is_taken_too(party: Party, cluster: Cluster) -> None:
    with cluster.connect("d1", name="both"):
        other = party.connection()
        other.write(hello("both"))
        assert other.read(1) == b"\xfa"


@pytest.mark.parametrize("methods", [b"", b"IP", b"NULL".ljust(30, b"\0") + b"X" * 60], ids=["no", "ip", "x"])
def test_other_methods_are_refused_and_the_name_is_free_again(party: Party, methods: bytes) -> None:
    one = party.connection()
    user = f"auth{next(_serials)}"
    one.write(hello(user))
    assert one.read(6) == b"\x05NULL "
    one.write(methods.ljust(90, b"\0"))
    assert one.read(1) == b"\xf7"
    assert one.ended()

    for _ in range(100):
        again = party.connection()
        again.write(hello(user))
        if again.read(1) != b"\xfa":  # Its end has to be ordered first.
            return
    pytest.fail("the name is never free")


def test_a_handshake_may_come_byte_by_byte_or_all_at_once(party: Party, group: str) -> None:
    slow, eager = party.connection(), party.connection()
    for one in hello("slow"):
        slow.write(bytes([one]))
    assert slow.read(6) == b"\x05NULL "
    for one in NULL:
        slow.write(bytes([one]))
    assert slow.read(5 + 8) == bytes([1, 5, 0, 1, 8]) + b"#slow#d1"

    eager.write(hello("eager") + NULL + frame("<", JOIN, "#eager#d1", (group,)))
    assert eager.read(6 + 5 + 9) == b"\x05NULL " + bytes([1, 5, 0, 1, 9]) + b"#eager#d1"
    assert eager.view().groups == ("#eager#d1",)


def test_a_silent_connection_delays_nobody_and_is_closed(party: Party) -> None:
    silent = party.connection()
    half = party.connection()
    half.write(hello("half")[:3])

    assert party.client("prompt").name == "#prompt#d1"
    assert silent.ended()
    assert half.ended()


def test_the_unix_socket_serves_the_same_protocol(cluster: Cluster, group: str) -> None:
    port = cluster.spread("d1").partition("@")[0]
    (path,) = [one for one in cluster.log("d1").split() if one.strip('"').endswith(f"/{port}")]
    one = dial(path.strip('"')).connect("unix")
    one.join(group)
    assert one.view().groups == ("#unix#d1",)
    one.close()


# Messages.


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("service", [UNRELIABLE, RELIABLE, FIFO, CAUSAL, AGREED, SAFE])
def test_a_message_arrives_as_it_was_sent(party: Party, group: str, order: str, service: int) -> None:
    sender, receiver = party.members(group, "d1", "d2", order=order)
    sender.say(service, group, body=b"body", tag=0x1234)

    hint = bytes.fromhex("80 34 12 80" if order == "<" else "00 12 34 00")
    assert receiver.take() == Shown(service, sender.name, (group,), hint, b"body")
    assert sender.take() == Shown(service, sender.name, (group,), hint, b"body")


@pytest.mark.parametrize("order", ORDERS)
def test_self_discard_affects_the_sender_only_and_its_bit_is_kept(party: Party, group: str, order: str) -> None:
    sender, neighbour, other = party.members(group, "d1", "d1", "d2", order=order)
    sender.say(AGREED | SELF_DISCARD, group, body=b"not to me")
    sender.say(AGREED, group, body=b"to all")

    assert [one.message().word for one in (neighbour, other)] == [AGREED | SELF_DISCARD] * 2
    assert sender.message().body == b"to all"


@pytest.mark.parametrize("order", ORDERS)
def test_a_private_group_reaches_one_session_at_any_daemon(party: Party, order: str) -> None:
    one, other = party.client(order=order), party.client(daemon="d3", membership=False)
    one.say(AGREED, other.name, body=b"for you")

    assert other.take() == Shown(
        AGREED, one.name, (other.name,), MARKED if order == "<" else bytes(4), b"for you"
    )
    other.say(SAFE, one.name, body=b"thanks")
    assert one.message().name == other.name


@pytest.mark.parametrize("order", ORDERS)
def test_many_groups_in_one_message(party: Party, group: str, order: str) -> None:
    (member,) = party.members(group, "d2")
    sender = party.client(order=order)
    groups = (*[f"g{at}" for at in range(98)], group, member.name)
    sender.say(AGREED, *groups, body=b"once")
    sender.say(AGREED, group, body=b"next")

    assert member.message().groups == groups
    assert member.message().body == b"next"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("bits", [1 << at for at in range(23, 31)] + [0x7F800000])
def test_bits_without_a_meaning_to_daemons_are_passed_on(
    party: Party, group: str, order: str, bits: int
) -> None:
    sender, neighbour, other = party.members(group, "d1", "d1", "d2", order=order)
    sender.say(SAFE | bits, group, body=b"with", tag=7)
    sender.say(AGREED | SELF_DISCARD | bits, group, body=b"not to me")
    sender.say(SAFE, group, body=b"without", tag=7)

    hint = bytes.fromhex("80 07 00 80" if order == "<" else "00 00 07 00")
    first = Shown(SAFE | bits, sender.name, (group,), hint, b"with")
    last = Shown(SAFE, sender.name, (group,), hint, b"without")
    assert [sender.take() for _ in range(2)] == [first, last]
    for one in (neighbour, other):
        assert one.take() == first
        assert one.message().word == AGREED | SELF_DISCARD | bits
        assert one.take() == last


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "names",
    [
        ("@", "@"),
        ("@", "h", "@", "h", "#no#d1", "#no#d1"),
        (b"\xe4\xff", "@"),
        ("", "@", ""),
        (b"x" * 32, "@"),
        (b"\xff" * 32, "#", "@", "gr\xfc\xdfe"),
    ],
)
def test_the_list_of_groups_arrives_as_it_was_written_and_the_message_once(
    party: Party, group: str, order: str, names: tuple[str | bytes, ...]
) -> None:
    sender, other = party.members(group, "d1", "d2", order=order)
    listed = [group if one == "@" else one for one in names]
    sender.say(AGREED, *listed, body=b"once")
    sender.say(AGREED, group, body=b"next")

    hint = MARKED if order == "<" else bytes(4)
    head = pack("<I32sI4sI", 0x80000090, sender.name.encode(), len(listed), hint, 4)
    for one in (sender, other):
        assert one.take_bytes() == head + b"".join(map(padded, listed)) + b"once"
        assert one.message().body == b"next"


def test_native_clients_get_the_bits_and_group_lists_of_spread_clients(
    party: Party, cluster: Cluster, group: str
) -> None:
    sender = party.client()
    with cluster.connect("d2", name="native2", membership=False) as session:
        session.join(group)
        with cluster.connect("d1", name="native1") as other:  # A member that sees the join of the first.
            other.join(group)
            view = other.receive()
            assert isinstance(view, View)
            assert len(view.members) == 2
        for at in range(3):
            sender.say(SAFE | 0x40000000, group, body=b"%d" % at)
        sender.say(SAFE, group, b"\xff", group, body=b"twice")
        seen = [session.receive() for _ in range(4)]

    assert [(one.data, one.groups) for one in seen if isinstance(one, Message)] == [
        (body, (group,)) for body in (b"0", b"1", b"2", b"twice")
    ]


def test_a_client_with_priority_is_served_first(party: Party, cluster: Cluster, group: str) -> None:
    bulk, high = party.client(), party.client(priority=True)
    (watch,) = party.members(group, "d2")
    with stopped(cluster.pid("d1")):
        for one, count in ((bulk, 5), (high, 40)):
            services = [SAFE if at % 2 else AGREED for at in range(count)]  # So that they are not merged.
            frames = [
                frame("<", service, one.name, (group,), b"%d" % at) for at, service in enumerate(services)
            ]
            one.write(b"".join(frames))

    seen = [watch.message() for _ in range(45)]
    for one, count in ((bulk, 5), (high, 40)):
        assert [shown.body for shown in seen if shown.name == one.name] == [b"%d" % at for at in range(count)]
    assert next(at for at, shown in enumerate(seen) if shown.name == bulk.name) == EXPEDITED_IN_A_ROW


def test_messages_without_members_to_receive_them_are_ignored(party: Party, group: str) -> None:
    (one,) = party.members(group, "d1")
    one.say(AGREED, body=b"no groups")
    one.say(AGREED, "nobody", "#no#d1", "#no#nowhere", "##", body=b"nobody")
    one.say(AGREED, group, body=b"here")

    assert one.message().body == b"here"


@pytest.mark.parametrize("size", [0, 1, 1024, 100_000, 143_120, 143_121, 143_920])
def test_bodies_up_to_the_limit_that_real_daemons_name(party: Party, group: str, size: int) -> None:
    sender, receiver = party.members(group, "d1", "d2")
    body = bytes(range(256)) * (size // 256 + 1)
    sender.say(AGREED, group, body=body[:size])

    assert receiver.message().body == body[:size]


def test_one_order_for_all_receivers(party: Party, group: str) -> None:
    members = party.members(group, "d1", "d2", "d3")
    for at in range(50):
        for one in members:
            one.say(AGREED if at % 5 else SAFE, group, body=f"{one.name} {at}".encode())

    seen = [[one.message().body for _ in range(150)] for one in members]
    assert seen[0] == seen[1] == seen[2]
    for one in members:
        own = [body for body in seen[0] if body.startswith(one.name.encode() + b" ")]
        assert own == [f"{one.name} {at}".encode() for at in range(50)]


def test_messages_of_one_write_keep_types_sizes_and_order(party: Party, group: str) -> None:
    sender, receiver = party.members(group, "d1", "d2")
    what = [(at % 7, b"x" * (at % 11)) for at in range(500)]
    sender.write(b"".join([frame("<", AGREED, sender.name, (group,), body, tag=tag) for tag, body in what]))

    seen = [receiver.message() for _ in what]
    assert [(int.from_bytes(one.hint, "little") >> 8 & 0xFFFF, one.body) for one in seen] == what


# Membership.


def test_a_join_as_every_member_sees_it(party: Party, group: str) -> None:
    one, other = party.client(), party.client(daemon="d2")
    one.join(group)
    first = one.view()
    assert (first.word, first.name, first.groups, first.hint) == (
        REG_MEMB | BY_JOIN,
        group,
        (one.name,),
        MARKED,
    )
    assert (first.sets, first.own_set, len(first.body)) == ([(one.name,)], (one.name,), 56)

    other.join(group)
    seen = one.view()
    assert seen == other.view()
    assert seen.groups == (one.name, other.name)
    assert seen.sets == [(other.name,)]
    assert seen.group_id[:2] == first.group_id[:2]
    assert seen.group_id[2] > first.group_id[2], "steps of other groups count too"


def test_members_are_listed_by_daemon_and_name(party: Party, group: str) -> None:
    for user, daemon in [("zoe", "d1"), ("bob", "d3"), ("Bob", "d3"), ("amy", "d2")]:
        party.client(user, daemon).join(group)
    last = party.client("last", "d1")
    last.join(group)

    view = last.view()
    while len(view.groups) < 5:
        view = last.view()
    assert view.groups == ("#last#d1", "#zoe#d1", "#amy#d2", "#Bob#d3", "#bob#d3")


def test_a_group_with_letters_beyond_ascii(party: Party, cluster: Cluster) -> None:
    one, other = party.members("grüße", "d1", "d2")
    with cluster.connect("d3", name="native3") as session:
        session.join("grüße")
        assert one.view().name == other.view().name == "grüße"
        session.multicast("grüße", b"hello")
        assert other.message().groups == ("grüße",)
        assert one.message().groups == ("grüße",)
    one.leave("grüße")
    while (shown := one.take()) is not None and shown.word & REG_MEMB:
        pass
    assert shown == Shown(BY_LEAVE, "grüße", (), MARKED, b"")


def test_a_leave_and_its_notice(party: Party, group: str) -> None:
    one, other = party.members(group, "d1", "d2")
    one.leave(group)

    assert one.take() == Shown(BY_LEAVE, group, (), MARKED, b"")
    left = other.view()
    assert (left.word, left.groups, left.sets) == (REG_MEMB | BY_LEAVE, (other.name,), [(one.name,)])


def test_kill_is_answered_by_the_end_of_the_connection(party: Party, group: str) -> None:
    one, other = party.members(group, "d1", "d2")
    one.say(AGREED, group, body=b"last words")
    one.kill()

    assert one.message().body == b"last words"
    assert one.take() is None
    assert other.message().body == b"last words"
    gone = other.view()
    assert (gone.word, gone.groups, gone.sets) == (REG_MEMB | BY_DISCONNECT, (other.name,), [(one.name,)])


@pytest.mark.parametrize("kill", [True, False])
@pytest.mark.parametrize("unread", [0, 500])
def test_messages_sent_right_before_a_close_are_delivered(
    party: Party, group: str, kill: bool, unread: int
) -> None:
    one, other = party.members(group, "d1", "d2")
    for _ in range(unread):
        other.say(AGREED, group, body=bytes(1000))
    one.write(b"".join([frame("<", AGREED, one.name, (group,), b"%d" % at) for at in range(300)]))
    if kill:
        one.kill()
    one.close()  # With unread messages this is a reset; data that the kernel has not sent by then is lost.

    seen: list[Shown] = []
    while not seen or not seen[-1].word & REG_MEMB:
        shown = other.take()
        assert shown is not None
        seen.append(shown)
    mine = [int(shown.body) for shown in seen if shown.name == one.name]
    assert mine == list(range(300))
    assert (seen[-1].word, seen[-1].sets) == (REG_MEMB | BY_DISCONNECT, [(one.name,)])


def test_a_lost_connection_is_a_disconnect(party: Party, group: str) -> None:
    one, other = party.members(group, "d1", "d2")
    one.write(frame("<", AGREED, one.name, (group,), b"half")[:-2])
    one.close()

    gone = other.view()
    assert (gone.word, gone.sets) == (REG_MEMB | BY_DISCONNECT, [(one.name,)])


def test_a_client_without_membership_sees_messages_only(party: Party, group: str) -> None:
    quiet = party.client(membership=False)
    quiet.join(group)
    other = party.client(daemon="d2")
    other.join(group)
    while len(other.view().groups) < 2:
        pass
    other.say(AGREED, group, body=b"one")
    assert quiet.take() == Shown(AGREED, other.name, (group,), MARKED, b"one")
    quiet.leave(group)
    quiet.say(AGREED, quiet.name, body=b"two")
    assert quiet.message().body == b"two"


def test_a_join_with_several_groups_uses_the_first(party: Party, group: str) -> None:
    one = party.client()
    one.say(JOIN, group, "another")
    assert one.view().name == group
    one.say(LEAVE, group, "another")
    assert one.take() == Shown(BY_LEAVE, group, (), MARKED, b"")


def test_requests_without_effect_are_ignored(party: Party, group: str) -> None:
    (one,) = party.members(group, "d1")
    one.join(group)
    one.leave("elsewhere")
    one.join("#private#d1")
    one.join("")
    for name in (b"\xe4\xff", b"x" * 32):
        one.say(JOIN, name)
        one.say(LEAVE, name)
    one.say(AGREED, group, body=b"still here")

    assert one.message().body == b"still here"


# With native clients.


def test_native_and_spread_clients_share_groups(party: Party, cluster: Cluster, group: str) -> None:
    (old,) = party.members(group, "d1", order=">")
    with cluster.connect("d2", name="native") as session:
        session.join(group)
        assert old.view().groups == (old.name, "#native#d2")
        view = session.receive()
        assert isinstance(view, View)
        assert [(one.name, one.daemon) for one in view.members][1] == ("native", "d2")

        old.say(SAFE, group, body=b"to you", tag=7)
        message = session.receive()
        assert isinstance(message, Message)
        assert (message.sender, message.data, message.type, message.groups) == (
            old.name,
            b"to you",
            7,
            (group,),
        )
        assert old.message().body == b"to you"

        session.multicast([group, "a group of a name that no Spread client can spell"], b"and back", type=9)
        assert old.take() == Shown(AGREED, "#native#d2", (group,), bytes.fromhex("80 09 00 80"), b"and back")
    gone = old.view()
    assert (gone.word, gone.sets) == (REG_MEMB | BY_DISCONNECT, [("#native#d2",)])


def test_a_name_that_does_not_fit_is_replaced_by_the_same_name_everywhere(
    party: Party, cluster: Cluster, group: str
) -> None:
    one, other = party.members(group, "d1", "d3")
    with cluster.connect("d2", name="größer als 31 Bytes, und nicht ASCII") as session:
        session.join(group)
        shown = one.view()
        assert shown == other.view()
        (name,) = set(shown.groups) - {one.name, other.name}
        assert name.startswith("#~")
        assert name.endswith("#d2")
        session.multicast(group, b"mine")
        assert one.message().name == other.message().name == name


# Refused clients, and others that are not affected.


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "word",
    [
        0,
        AGREED | SAFE,
        AGREED | JOIN,
        AGREED | REG_MEMB,
        AGREED | 0x2000,
        AGREED | BY_JOIN,
        AGREED | BY_LEAVE,
        AGREED | 0x4000,
        AGREED | 0x8000,
        AGREED | 0x80000,
        AGREED | 0x100000,
        AGREED | 0x200000,
        AGREED | 0x400000,
        REG_MEMB | BY_JOIN,
        JOIN | LEAVE,
        KILL | SELF_DISCARD,
    ],
)
def test_bits_that_a_client_may_not_set(party: Party, group: str, order: str, word: int) -> None:
    (witness,) = party.members(group, "d1")
    bad = party.client(order=order)
    bad.say(word, group, body=b"forged")

    assert bad.ended()
    witness.say(AGREED, group, body=b"alive")
    assert witness.message().body == b"alive"


@pytest.mark.parametrize(
    "data",
    [
        pack("<I32sIII", 0x80000090, b"#other#d1", 1, 0x80000080, 0) + bytes(32),  # Another session's name.
        pack("<I32sIII", 0x80000090, b"", 1, 0x80000080, 0) + bytes(32),
        pack("<I32sIII", 0x80000090, b"x" * 32, 1, 0x80000080, 0) + bytes(32),  # A name without a terminator.
        pack("<I32sIII", 0x80000090, b"@", 101, 0x80000080, 0),
        pack("<I32sIII", 0x80000090, b"@", 0xFFFFFFFF, 0x80000080, 0),
        pack("<I32sIII", 0x80000090, b"@", 1, 0x80000080, 143_921),
        pack("<I32sIII", 0x80000090, b"@", 1, 0x80000080, 0xFFFFFFFF),
        pack("<I32sIII", 0x80000090, b"@", 1, 0x81000080, 0) + bytes(32),  # A hint with other bits.
        pack("<I32sIII", 0x80000010, b"@", 1, 0x80000080, 0) + bytes(32),  # Half a marker.
        pack("<I32sIII", 0x80010080, b"@", 0, 0x80000080, 0),  # A join without a group.
    ],
)
def test_frames_that_end_the_session_that_sends_them(party: Party, group: str, data: bytes) -> None:
    (witness,) = party.members(group, "d1")
    bad = party.client()
    own = bad.name.encode().ljust(32, b"\0")
    bad.write(data[:4] + (own if data[4:5] == b"@" else data[4:36]) + data[36:])

    assert bad.ended()
    witness.say(AGREED, group, body=b"alive")
    assert witness.message().body == b"alive"


def test_random_bytes_cost_only_their_connection(party: Party) -> None:
    for noise in (b"GET / HTTP/1.0\r\n\r\n", bytes(100), b"\xff" * 200, b"HOPC\x01\0\0\0"):
        one = party.connection()
        with contextlib.suppress(OSError):
            one.write(noise)
        assert one.read(200) in (b"\xf9", b"\xfb", b"\xf7", b"\x05NULL \xf7")
    assert party.client("fine").name == "#fine#d1"


def test_a_client_that_never_reads_is_disconnected_and_others_are_not(party: Party, group: str) -> None:
    lazy, busy = party.members(group, "d1", "d1")
    sender = party.client(daemon="d1")
    chunk = b"".join([frame("<", AGREED, sender.name, (group,), bytes(10_000))] * 20)
    seen = 0
    while True:
        sender.write(chunk)
        for _ in range(20):
            shown = busy.take()
            assert shown is not None
            if shown.word & REG_MEMB:
                assert (shown.word, shown.sets) == (REG_MEMB | BY_DISCONNECT, [(lazy.name,)])
                assert seen > 1000
                return
            seen += 1


def test_a_fast_sender_is_held_back_and_loses_nothing(party: Party, group: str) -> None:
    (receiver,) = party.members(group, "d2")
    sender = party.client()
    body = bytes(1000)
    data = b"".join(
        [frame("<", AGREED, sender.name, (group,), at.to_bytes(4, "big") + body) for at in range(9000)]
    )
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(sender.write, data)
        seen = [int.from_bytes(receiver.message().body[:4], "big") for _ in range(9000)]
        sending.result()
    assert seen == list(range(9000))
