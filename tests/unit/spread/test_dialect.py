"""Spread clients at a session server.

What they see, when they are slowed down, and when they are disconnected.
"""

from struct import pack

import pytest
from tests.spread.client import (
    AGREED,
    BY_JOIN,
    BY_LEAVE,
    JOIN,
    KILL,
    LEAVE,
    NULL,
    REG_MEMB,
    SAFE,
    Client,
    frame,
    hello,
    padded,
)
from tests.unit.session.fake_daemon import ME, VIEW
from tests.unit.spread.spread_connections import SpreadConnections

from hopring import Message
from hopring.client.session_base import message_of
from hopring.groups.events import Cause, GroupView, ShowView
from hopring.groups.names import GroupMember, GroupViewId
from hopring.groups.sessions import EXPEDITED_IN_A_ROW
from hopring.ids import DaemonId, GroupName, Incarnation, ViewId
from hopring.services import Service
from hopring.session.options import STALLED_US, SessionOptions
from hopring.session.protocol import HelloRequest, RefusedReply
from hopring.spread.dialect import may_come, shown_groups, shown_session


def test_the_first_client_of_the_wire_notes() -> None:
    clients = SpreadConnections()
    alice = clients.client(1, "alice")
    assert alice.welcome == bytes.fromhex("01 05 00 01 0a") + b"#alice#eu1"
    alice.write(frame("<", JOIN, "#alice#eu1", ("grp",)))

    view = alice.view()
    assert (view.word, view.name, view.groups, view.sets) == (
        REG_MEMB | BY_JOIN,
        "grp",
        ("#alice#eu1",),
        [("#alice#eu1",)],
    )


def test_a_message_to_a_client_inside_its_handshake_waits_for_its_end() -> None:
    clients = SpreadConnections()
    other = clients.client(1, "other")
    late = clients.open(2)
    late.write(hello("late"))
    assert late.read(6) == b"\x05NULL "
    other.say(AGREED, "#late#eu1", body=b"early")
    assert late.read(1) == b""
    late.write(NULL)

    assert late.read(5 + 9) == bytes([1, 5, 0, 1, 9]) + b"#late#eu1"
    assert late.message().body == b"early"


def test_a_broken_handshake_frees_the_name() -> None:
    clients = SpreadConnections()
    clients.open(1).write(hello("anna"))
    clients.fake.lose(1)

    assert clients.client(2, "anna").name == "#anna#eu1"


@pytest.mark.parametrize("part", [b"", hello("anna")[:2], hello("anna"), hello("anna") + NULL[:89]])
def test_a_slow_handshake_times_out(part: bytes) -> None:
    clients = SpreadConnections()
    slow = clients.open(1)
    slow.write(part)
    clients.pass_time(2_999_999)
    assert not clients.fake.closed
    clients.pass_time(1)

    assert clients.fake.closed[1][1] == "no HELLO in time"
    assert clients.client(2, "anna").name == "#anna#eu1"


def test_a_client_above_the_limit_is_refused_with_the_quota_code() -> None:
    clients = SpreadConnections(SessionOptions(sessions_max=1))
    clients.client(1, "anna")
    other = clients.open(2)

    assert other.read(1) == b"\xfd"


def test_a_client_without_a_name_gets_a_unique_one() -> None:
    clients = SpreadConnections()
    clients.client(1, "r2")

    assert clients.client(2, "").name == "#r3#eu1"
    assert clients.client(3, "").name == "#r4#eu1"
    assert clients.client(10**9 + 7, "").name == "#r7#eu1"


@pytest.mark.parametrize(
    ("address", "networks", "welcome"),
    [
        ("10.1.2.3", (), True),
        ("10.1.2.3", ("10.0.0.0/8",), True),
        ("11.1.2.3", ("10.0.0.0/8",), False),
        ("2001:db8::1", ("10.0.0.0/8", "2001:db8::/32"), True),
        ("2001:db8::1", ("10.0.0.0/8",), False),
        ("::ffff:10.1.2.3", ("10.0.0.0/8",), True),  # At a socket for both families.
        ("::ffff:11.1.2.3", ("10.0.0.0/8",), False),
        ("", ("10.0.0.0/8",), True),  # By the Unix socket.
    ],
)
def test_an_access_list(address: str, networks: tuple[str, ...], welcome: bool) -> None:
    assert may_come(address, networks) is welcome


@pytest.mark.parametrize("version", [(3, 10), (3, 15, 0), (5, 0, 1)])
def test_a_client_outside_the_access_list_is_refused_after_the_handshake(version: tuple[int, ...]) -> None:
    clients = SpreadConnections(SessionOptions(spread_access=("10.0.0.0/8",)))
    one = clients.open(1, address="192.168.1.1")
    one.write(hello("anna", version))
    if version >= (3, 16):
        assert one.read(9) == b"\x08NULL IP "
        one.write(NULL)

    assert one.read(1) == b"\xf7"
    assert clients.fake.server.sessions == {}


def test_ip_may_be_chosen_where_there_is_an_access_list() -> None:
    clients = SpreadConnections(SessionOptions(spread_access=("10.0.0.0/8",)))
    one = clients.open(1, address="10.9.9.9")
    one.write(hello("anna") + b"IP".ljust(90, b"\0"))

    assert one.read(9 + 5 + 9)[9:] == bytes([1, 5, 0, 1, 9]) + b"#anna#eu1"


def test_a_request_without_permission_is_refused() -> None:
    spread = SpreadConnections().fake.spread.converse(1)
    spread.feed(hello("anna", priority=True))
    said = spread.next()

    assert isinstance(said, HelloRequest)
    assert (said.name, said.priority) == ("anna", True)
    assert spread.encode(RefusedReply("hello", "anna", "priority is not for everybody", "")) == b"\xf7"


def test_a_client_that_may_not_have_priority_is_served_without_it() -> None:
    clients = SpreadConnections()
    clients.client(1, "high", priority=True)

    assert not clients.fake.server.has_priority(1)


def test_requests_with_priority_go_before_those_of_others() -> None:
    clients = SpreadConnections(SessionOptions(allow=("priority",)))
    bulk, high = clients.client(1, "bulk"), clients.client(2, "high", priority=True)
    watch = clients.client(3, "watch")
    watch.join("g")
    watch.view()
    clients.fake.stopped = True
    for one, count in ((bulk, 5), (high, 40)):
        for at in range(count):  # Of two services, so that they are not merged.
            one.say(SAFE if at % 2 else AGREED, "g", body=b"%d" % at)
    clients.fake.stopped = False
    clients.fake.pump()

    seen = [watch.message() for _ in range(45)]
    assert [one.body for one in seen if one.name == high.name] == [b"%d" % at for at in range(40)]
    assert [at for at, one in enumerate(seen) if one.name == bulk.name][:2] == [
        EXPEDITED_IN_A_ROW,
        2 * EXPEDITED_IN_A_ROW + 1,
    ]


# Clients that are slowed down.


def test_a_client_that_sends_too_much_is_not_read_until_its_messages_are_sent() -> None:
    clients = SpreadConnections(SessionOptions(window_bytes=10_000))
    fake, one = clients.fake, clients.client(1, "anna")
    one.join("g")
    one.view()
    fake.stopped = True
    one.write(
        b"".join([frame("<", AGREED if at % 2 else SAFE, one.name, ("g",), bytes(1000)) for at in range(50)])
    )
    assert fake.paused == {1}
    assert fake.server.groups.queued_bytes(1) < 12_000
    one.write(frame("<", AGREED, one.name, ("g",), b"last"))  # Bytes that were already in flight are kept.

    fake.stopped = False
    fake.pump()
    assert fake.paused == set()
    assert [len(one.message().body) for _ in range(51)] == [1000] * 50 + [4]


def test_many_tiny_requests_are_held_back_too() -> None:
    clients = SpreadConnections(SessionOptions(window_bytes=10_000))
    fake, one = clients.fake, clients.client(1, "anna", membership=False)
    fake.stopped = True
    one.write(b"".join([frame("<", JOIN, one.name, (f"g{at}",)) for at in range(500)]))
    assert fake.paused == {1}
    fake.stopped = False
    fake.pump()

    assert fake.paused == set()
    assert len(fake.server.groups.groups_wanted(1)) == 500


def test_frames_after_a_kill_are_ignored() -> None:
    clients = SpreadConnections()
    one, other = clients.client(1, "anna"), clients.client(2, "bert")
    other.join("g")
    other.view()
    one.write(
        frame("<", AGREED, one.name, ("g",), b"before")
        + frame("<", KILL, one.name, (one.name,))
        + frame("<", AGREED, one.name, ("g",), b"behind")
        + b"noise"
    )

    assert clients.fake.closed[1] == (b"", "")
    assert other.message().body == b"before"
    assert clients.read(2, 1) == b""


# Readers that do not keep up.


def flood(sender: Client, count: int, size: int = 10) -> None:
    sender.write(frame("<", AGREED, sender.name, ("g",), bytes(size)) * count)


def members(clients: SpreadConnections) -> tuple[Client, Client]:
    lazy, sender = clients.client(1, "lazy", membership=False), clients.client(2, "sender")
    lazy.join("g")
    return lazy, sender


def test_the_number_of_waiting_messages_is_limited_for_a_client_that_reads_nothing() -> None:
    clients = SpreadConnections(SessionOptions(spread_messages_max=100))
    _, sender = members(clients)
    flood(sender, 100)
    clients.pass_time(10 * STALLED_US)
    assert clients.fake.closed == {}
    flood(sender, 1)
    clients.pass_time(STALLED_US - 1)
    assert clients.fake.closed == {}
    clients.pass_time(1)

    assert clients.fake.closed[1] == (
        b"",
        "slow receiver: more than 100 messages wait for lazy, which takes none",
    )


def test_a_client_that_reads_slowly_may_stay() -> None:
    clients = SpreadConnections(SessionOptions(spread_messages_max=100))
    lazy, sender = members(clients)
    flood(sender, 150)
    flood(sender, 1)
    for _ in range(5):
        clients.pass_time(STALLED_US // 2)
        clients.fake.fetch(1, 1)
        flood(sender, 150)
    clients.pass_time(STALLED_US)
    assert clients.fake.closed == {}
    assert lazy.name == "#lazy#eu1"
    clients.pass_time(STALLED_US)

    assert clients.fake.closed[1][1].startswith("slow receiver")


def test_too_many_waiting_bytes_end_the_session_at_once() -> None:
    clients = SpreadConnections(SessionOptions(backlog_bytes_max=5_000))
    _, sender = members(clients)
    flood(sender, 10, size=1000)

    assert clients.fake.closed[1][1] == "slow receiver: more than 5000 bytes wait for lazy"


def test_with_the_policy_drop_messages_are_missing_and_views_are_not() -> None:
    clients = SpreadConnections(SessionOptions(backlog_bytes_max=5_000, spread_slow="drop"))
    lazy, sender = clients.client(1, "lazy"), clients.client(2, "sender")
    lazy.join("g")
    for _ in range(30):
        flood(sender, 1, size=1000)
    sender.join("g")

    seen = [lazy.view(), *[lazy.take() for _ in range(6)]]
    assert [one is not None and one.word for one in seen] == [
        REG_MEMB | BY_JOIN,
        *[AGREED] * 5,
        REG_MEMB | BY_JOIN,
    ]
    assert clients.fake.closed == {}


def test_with_the_policy_block_senders_here_wait() -> None:
    clients = SpreadConnections(SessionOptions(backlog_bytes_max=20_000, spread_slow="block"))
    clients.fake.at_once = 1
    lazy, sender = members(clients)
    for _ in range(60):
        flood(sender, 1, size=1000)
    assert clients.fake.server.groups.queued_bytes(2) > 0
    seen = 0
    while seen < 60:
        seen += len(lazy.message().body) == 1000
        clients.pass_time(1)

    assert clients.fake.server.groups.queued_bytes(2) == 0


# Names and views.


def test_names_that_fit_are_shown_and_others_are_replaced() -> None:
    assert shown_session("#alice#d1") == "#alice#d1"
    assert shown_session("#twenty-bytes-of-name#d1") == "#twenty-bytes-of-name#d1"
    long = shown_session("#" + "x" * 40 + "#d1")
    assert (long[:2], long[-3:], len(long)) == ("#~", "#d1", 13)
    assert shown_session("#ä#d1") != shown_session("#ö#d1")
    assert len(shown_session("#alice#" + "d" * 32)) == 30
    shown = shown_groups(("g", "x" * 32, "ä", "ä" * 16, "x" * 31))
    assert shown == b"".join([one.ljust(32, b"\0") for one in (b"g", "ä".encode(), b"x" * 31)])


def test_members_are_in_the_order_of_the_configuration_file() -> None:
    clients = SpreadConnections()
    groups = clients.fake.server.groups
    groups.names = ("a", "b", "c")
    spread = type(clients.fake.spread)(groups, 200_000, SessionOptions, ["c", "a", "b"])
    found = [
        GroupMember(DaemonId(at), name, Incarnation(7), 1)
        for at, name in [(0, "x"), (1, "y"), (2, "z"), (2, "Z")]
    ]
    view = GroupView(GroupName("g"), GroupViewId(VIEW, (), 1), tuple(found), (), Cause.LEAVE, found[0])
    data = spread.render_view(ShowView((1,), view)).frame

    assert [data[at : at + 32].rstrip(b"\0") for at in range(48, 48 + 4 * 32, 32)] == [
        b"#Z#c",
        b"#z#c",
        b"#x#a",
        b"#y#b",
    ]


def test_a_join_while_the_daemons_view_closes_is_a_change_of_network() -> None:
    clients = SpreadConnections()
    old, new = (GroupMember(ME.daemon, name, ME.incarnation, at) for at, name in enumerate(["old", "new"]))
    closing = GroupViewId(VIEW, (ViewId(2, ME.daemon, ME.incarnation),), 1)
    views = [
        GroupView(GroupName("g"), closing, (new, old), together, Cause.JOIN, new)
        for together in [(old,), (new,)]
    ]
    others, joiner = (clients.fake.spread.render_view(ShowView((1,), view)).frame for view in views)

    sets = pack("<I32sI32s", 1, b"#old#eu1", 1, b"#new#eu1")
    assert (others[1], joiner[1]) == (0x18, 0x18)
    assert others[48 + 64 + 12 :] == pack("<II", 2, 0) + sets
    assert joiner[48 + 64 + 12 :] == pack("<II", 2, 36) + sets


def test_without_membership_not_even_the_own_join_is_shown() -> None:
    clients = SpreadConnections()
    quiet = clients.client(1, "quiet", membership=False)
    quiet.join("g")
    quiet.leave("g")

    assert clients.read(1, 1) == b""


@pytest.mark.parametrize("joined", [("one",), ("one", "two")])
def test_messages_of_a_mixed_bundle_are_shown_with_their_own_group(joined: tuple[str, ...]) -> None:
    clients = SpreadConnections()
    alice = clients.client(1, "alice", membership=False)
    for group in joined:
        alice.write(frame("<", JOIN, "#alice#eu1", (group,)))
    native = clients.fake.client(2, "native")
    for group, body in (("one", b"1"), ("two", b"2"), ("one", b"3")):
        native.outgoing.append(message_of(group, body, Service.AGREED, 5, False))
    clients.fake.exchange(2, native)

    wanted = [("one", b"1"), ("two", b"2"), ("one", b"3")]
    seen = [alice.message() for _ in range(3 if len(joined) == 2 else 2)]
    assert [(one.groups, one.body) for one in seen] == [((g,), body) for g, body in wanted if g in joined]


# Forwarded as they were sent.


@pytest.mark.parametrize("order", ["<", ">"])
def test_free_bits_reach_spread_clients_and_do_not_disturb_native_ones(order: str) -> None:
    clients = SpreadConnections()
    alice, bob = clients.client(1, "alice", order), clients.client(2, "bob", membership=False)
    native = clients.fake.client(3, "native", membership=False)
    bob.join("g")
    native.join("g")
    clients.fake.exchange(3, native)
    for at in range(3):
        alice.say(SAFE | 0x40000000, "g", body=b"%d" % at)
    alice.say(AGREED | 0x7F800000, "g", body=b"all")
    alice.say(SAFE, "g", body=b"none")
    clients.fake.exchange(3, native)

    wanted = [
        *[(SAFE | 0x40000000, b"%d" % at) for at in range(3)],
        (AGREED | 0x7F800000, b"all"),
        (SAFE, b"none"),
    ]
    seen = [bob.message() for _ in wanted]
    assert [(one.word, one.body) for one in seen] == wanted
    events = [native.take() for _ in wanted]
    assert [(one.data, one.groups) for one in events if isinstance(one, Message)] == [
        (body, ("g",)) for _, body in wanted
    ]


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_list_of_groups_is_delivered_as_it_was_written(order: str) -> None:
    clients = SpreadConnections()
    alice, bob = clients.client(1, "alice", order), clients.client(2, "bob", membership=False)
    native = clients.fake.client(3, "native", membership=False)
    bob.join("g")
    native.join("g")
    clients.fake.exchange(3, native)
    lists: list[tuple[str | bytes, ...]] = [
        ("g", "g"),
        ("g", "h", "g", "#bob#eu1", "#bob#eu1"),
        (b"\xe4\xff", "g"),
        ("", "g", ""),
        (b"x" * 32, "g", "grüße"),
        (b"g\0behind its end",),
        ("no control \x01", "g"),
    ]
    for names in lists:
        alice.say(AGREED, *names, body=b"once")
    alice.say(AGREED, "g", body=b"last")
    clients.fake.exchange(3, native)

    hint = bytes.fromhex("80 00 00 80") if order == "<" else bytes(4)
    for names in lists:
        head = pack("<I32sI4sI", 0x80000090, b"#alice#eu1", len(names), hint, 4)
        assert bob.take_bytes() == head + b"".join(map(padded, names)) + b"once"
    assert bob.message().body == b"last"
    events = [native.take() for _ in range(len(lists) + 1)]
    assert [one.groups for one in events if isinstance(one, Message)] == [
        ("g",),
        ("g", "h", "#bob#eu1"),
        ("g",),
        ("g",),
        ("g", "grüße"),
        ("g",),
        ("no control \x01", "g"),
        ("g",),
    ]
    assert native.take() is None


@pytest.mark.parametrize("name", [b"\xe4\xff", b"x" * 32, b"", b"#alice#eu1"])
def test_requests_with_an_invalid_group_are_ignored(name: bytes) -> None:
    clients = SpreadConnections()
    alice = clients.client(1, "alice")
    alice.say(JOIN, name)
    alice.say(LEAVE, name)
    alice.say(JOIN, "g")

    assert alice.view().name == "g"
    assert clients.read(1, 1) == b""


def test_a_group_may_be_called_anything_that_is_text_and_fits() -> None:
    clients = SpreadConnections()
    alice = clients.client(1, "alice")
    for name in ("grüße", "a b", "ü" * 15):
        alice.join(name)
        assert alice.view().name == name
        alice.say(AGREED, name, body=b"hello")
        assert alice.message().groups == (name,)
        alice.leave(name)
        left = alice.take()
        assert left is not None
        assert (left.word, left.name) == (BY_LEAVE, name)
