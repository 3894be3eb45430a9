"""The session server, between connections and groups."""

from random import Random
from typing import Any

import pytest
from tests.unit.session.fake_daemon import FakeDaemon
from tests.unit.session.joined_sessions import data, events, joined, send

from hopring.client.errors import (
    AlreadyMember,
    ConnectError,
    NameInUse,
    NotMember,
    RequestRefused,
    SessionClosed,
    SlowConsumer,
)
from hopring.client.events import Event, Message, View
from hopring.client.session_base import message_of
from hopring.ids import DaemonId, GroupName
from hopring.links.events import Tick
from hopring.ordering.entry import MESSAGE_HEAD_BYTES
from hopring.services import Service
from hopring.session.frames import FRAME_HEAD_BYTES, PREAMBLE, FrameKind, FrameReader, encode_frame
from hopring.session.options import REQUEST_COST_BYTES, SessionOptions
from hopring.session.protocol import Credit, HelloRequest, JoinRequest, encode_control
from hopring.wire.bundle import (
    BUNDLE_BYTES_DEFAULT,
    GROUPS_MAX,
    MESSAGES_MAX,
    BundleKey,
    decode_bundle,
    encode_bundle,
)


def test_a_member_sees_its_view_first_and_then_messages_in_one_order() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna", "trades")
    bert = joined(fake, 2, "bert", "trades")
    send(anna, b"one", "trades")
    send(bert, b"two", "trades", self_discard=True)
    for number, core in ((1, anna), (2, bert)) * 2:
        fake.exchange(number, core)

    seen = events(bert)
    assert isinstance(seen[0], View)
    assert [one.name for one in seen[0].members] == ["anna", "bert"]
    assert [one.name for one in seen[0].together] == ["bert"]
    message = seen[1]
    assert isinstance(message, Message)
    assert (message.sender, message.data, message.type, message.groups) == ("#anna#eu1", b"one", 5, ("trades",))
    assert len(seen) == 2
    assert data(anna) == [b"one", b"two"]


def test_messages_that_differ_in_their_one_group_at_most_share_a_frame() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna", "g")
    for number in range(10):
        send(anna, b"%d" % number, "g")
    send(anna, b"another group", "h")
    send(anna, b"several", "g", "h")
    send(anna, b"not to me", "g", self_discard=True)
    reader = FrameReader(1 << 20)
    reader.feed(PREAMBLE + anna.output())
    bundles = [decode_bundle(frame.body) for frame in iter(reader.next, None) if frame.kind is FrameKind.SEND]

    assert [len(one) for one in bundles] == [11, 1, 1]
    assert anna.outgoing.charged_bytes == sum([REQUEST_COST_BYTES + len(one.whole) for one in bundles])


def test_a_client_without_membership_gets_messages_only() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna", "g", membership=False)
    bert = joined(fake, 2, "bert", "g")
    send(bert, b"one", "g")
    fake.exchange(2, bert)
    fake.exchange(1, anna)

    assert [type(one) for one in events(anna)] == [Message]
    fake.exchange(1, anna)
    # Views that it did not want are credited like events that it read.
    assert fake.server.sessions[1].untaken_bytes == anna.connection._credit_bytes > 0


def test_a_name_that_is_taken_is_refused_until_its_holder_has_ended() -> None:
    fake = FakeDaemon()
    anna = fake.client(1, "anna")
    other = fake.client(2, "anna")
    assert isinstance(other.ended, NameInUse)
    assert other.ended.reason == "name in use: 'anna'"
    anna.quit()
    fake.exchange(1, anna)

    assert anna.quit_done
    assert fake.client(3, "anna").welcome is not None


@pytest.mark.parametrize("name", ["", "a#b", "x" * 65, "a\0b"])
def test_an_illegal_name_is_refused(name: str) -> None:
    refused = FakeDaemon().client(1, name)

    assert isinstance(refused.ended, ConnectError)
    assert "choose a name" in str(refused.ended)


def test_refused_requests_cost_no_window() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna", "g")
    anna.join("g")
    anna.join("#private")
    anna.leave("h")
    fake.exchange(1, anna)

    assert isinstance(anna.answers["join", "g"], AlreadyMember)
    assert isinstance(anna.answers["join", "#private"], RequestRefused)
    assert isinstance(anna.answers["leave", "h"], NotMember)
    assert anna.outgoing.charged_bytes == 0


def test_the_number_of_groups_of_a_session_is_limited_and_a_leave_frees_one() -> None:
    fake = FakeDaemon(SessionOptions(groups_max=2))
    anna = joined(fake, 1, "anna", "g", "h")
    anna.join("i")
    fake.exchange(1, anna)
    assert "more than 2 groups; leave some first" in str(anna.answers.pop(("join", "i")))
    anna.leave("g")
    anna.join("i")
    fake.exchange(1, anna)

    assert anna.answers["join", "i"] is None
    assert anna.groups == {"h", "i"}


def test_all_sessions_of_a_daemon_together_have_a_limit_of_joins() -> None:
    fake = FakeDaemon(SessionOptions(joins_max=3))
    anna = joined(fake, 1, "anna", "g", "h")
    bert = joined(fake, 2, "bert", "g")
    bert.join("h")
    fake.exchange(2, bert)
    refused = str(bert.answers.pop(("join", "h")))
    assert "sessions of this daemon are in 3 groups" in refused
    assert "raise joins_max in [clients]" in refused
    fake.lose(1)
    bert.join("h")
    fake.exchange(2, bert)

    assert bert.answers["join", "h"] is None
    assert anna.groups == {"g", "h"}


def test_groups_of_all_daemons_have_a_limit_and_existing_ones_can_be_joined() -> None:
    fake = FakeDaemon(SessionOptions(known_groups_max=2))
    joined(fake, 1, "anna", "g", "h")
    bert = joined(fake, 2, "bert", "g")
    bert.join("i")
    fake.exchange(2, bert)

    refused = str(bert.answers["join", "i"])
    assert "there are 2 groups" in refused
    assert "raise known_groups_max in [clients]" in refused


def test_a_leave_comes_after_messages_sent_before_it() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna", "g")
    send(anna, b"one", "g")
    anna.leave("g")
    send(anna, b"two", "g")
    fake.exchange(1, anna)

    assert data(anna) == [b"one"]
    assert anna.answers["leave", "g"] is None
    assert anna.groups == set()


def test_a_private_group_needs_no_join() -> None:
    fake = FakeDaemon()
    anna, bert = fake.client(1, "anna"), fake.client(2, "bert")
    send(bert, b"psst", "#anna#eu1")
    fake.exchange(2, bert)
    fake.exchange(1, anna)

    assert data(anna) == [b"psst"]


def test_a_lost_connection_is_a_disconnect_and_half_a_frame_is_nothing() -> None:
    fake = FakeDaemon()
    anna, bert = joined(fake, 1, "anna", "g"), joined(fake, 2, "bert", "g")
    events(bert)
    send(anna, b"whole", "g")
    whole = anna.output()
    send(anna, b"half", "g")
    fake.say(1, whole + anna.output()[:-1])
    fake.lose(1)
    fake.exchange(2, bert)

    message, view = events(bert)
    assert isinstance(message, Message)
    assert message.data == b"whole"
    assert isinstance(view, View)
    assert (view.cause, view.who and view.who.name) == ("disconnect", "anna")


def bundle(session: int, *, daemon: int = 0, size: int = 3, channel: int = 0, **spread: Any) -> bytes:
    key = BundleKey(DaemonId(daemon), session, Service.AGREED, (GroupName("g"),), channel=channel, **spread)
    return encode_frame(FrameKind.SEND, encode_bundle(key, [bytes(size)], [0], [0]))


def with_mark(mark: bytes) -> bytes:
    """A bundle of an empty message with a mark that may be invalid."""
    plain = bytearray(bundle(1, size=0)[FRAME_HEAD_BYTES:])
    plain[3] = len(mark)
    return encode_frame(FrameKind.SEND, bytes(plain), mark)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (bundle(2), "foreign_sender"),
        (bundle(1, daemon=1), "foreign_sender"),
        (bundle(1, channel=1), "inconsistent"),
        (bundle(1, spread_bits=1), "inconsistent"),
        (bundle(1, spread_groups=bytes(32)), "inconsistent"),
        (bundle(1, size=147_450), "limit"),
        (encode_frame(FrameKind.SEND, bundle(1)[FRAME_HEAD_BYTES:-1]), "length"),
        (with_mark(b"\0" * 12), "length"),
        (with_mark(b"\xff" * 12 + b"app"), "limit"),
        (with_mark(b"\0" * 12 + b"\xff"), "inconsistent"),
        (encode_control(HelloRequest("anna", 1 << 20)), "inconsistent"),
        (encode_control(Credit(1 << 40)), "out_of_window"),
        (encode_frame(FrameKind.VIEW, b"\x90"), "inconsistent"),
        (encode_frame(FrameKind.JOIN, b"\xc1"), "inconsistent"),
        (b"\xff" * 8, "unknown_type"),
    ],
)
def test_a_protocol_violation_ends_only_its_own_session(said: bytes, reason: str) -> None:
    fake = FakeDaemon()
    anna, bert = joined(fake, 1, "anna", "g"), joined(fake, 2, "bert", "g")
    events(bert)
    fake.say(1, said)
    assert fake.closed[1][1].startswith(reason)
    fake.exchange(1, anna)
    fake.exchange(2, bert)

    assert isinstance(anna.ended, SessionClosed)
    assert reason in str(anna.ended)
    (view,) = events(bert)
    assert isinstance(view, View)
    assert [one.name for one in view.members] == ["bert"]
    send(bert, b"still here", "g")
    fake.exchange(2, bert)
    assert data(bert) == [b"still here"]


def test_the_longest_bundle_that_there_can_be_fits_and_one_byte_more_is_refused() -> None:
    fake = FakeDaemon()
    name = "n" * 64
    fake.client(1, name)
    limit = fake.server.message_bytes_max
    groups = tuple([GroupName(f"{at:03d}" + "g" * 125) for at in range(GROUPS_MAX)])
    key = BundleKey(DaemonId(0), 1, Service.AGREED, groups, mixed=True)
    bodies = [b""] * (MESSAGES_MAX - 1)
    fake.stopped = True
    fake.say(
        1, encode_frame(FrameKind.SEND, encode_bundle(key, [*bodies, bytes(limit)], *[[0] * MESSAGES_MAX] * 3))
    )
    submit = fake.server.next_submission(True, 0)

    assert submit is not None
    # A bundle that is not resilient, in a message that is not, leaves a byte for each.
    assert len(submit.payload) == BUNDLE_BYTES_DEFAULT - MESSAGE_HEAD_BYTES - 1
    too_long = encode_bundle(
        BundleKey(DaemonId(0), 1, Service.AGREED, groups[:1]), [bytes(limit + 1)], [0], [0]
    )
    fake.say(1, encode_frame(FrameKind.SEND, too_long))
    assert fake.closed[1][1].startswith("limit")


def test_requests_beyond_the_window_end_the_session() -> None:
    fake = FakeDaemon(SessionOptions(window_bytes=200_000))
    anna = fake.client(1, "anna")
    fake.stopped = True
    fake.say(1, bundle(1, size=100_000) * 2)
    fake.exchange(1, anna)

    assert "out_of_window" in str(anna.ended)


def test_the_library_waits_for_credit() -> None:
    fake = FakeDaemon(SessionOptions(window_bytes=200_000))
    anna = joined(fake, 1, "anna", "g")
    fake.stopped = True
    message = message_of("g", bytes(1000), Service.AGREED, 0, False)
    count = 0
    while anna.outgoing.has_room(message):
        anna.outgoing.append(message)
        count += 1
        fake.exchange(1, anna)
    assert 100 < count < 200
    assert anna.ended is None
    fake.stopped = False
    fake.pump()
    fake.exchange(1, anna)

    assert anna.outgoing.charged_bytes == 0
    assert len(data(anna)) == count


def test_a_client_gets_no_more_than_its_window_until_it_takes_events() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna", "g", window_bytes=10_000)
    bert = joined(fake, 2, "bert")
    for _ in range(50):
        send(bert, bytes(1000), "g")
        fake.exchange(2, bert)
    fake.exchange(1, anna)
    assert fake.server.sessions[1].untaken_bytes <= 10_000
    got = data(anna)
    assert len(got) < 10
    for _ in range(20):
        fake.exchange(1, anna)
        got += data(anna)

    assert len(got) == 50


def test_up_to_a_quarter_of_the_window_without_credit_does_not_count_as_backlog() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna", "g", window_bytes=10_000)
    bert = joined(fake, 2, "bert")
    send(bert, bytes(2_000), "g")
    fake.exchange(2, bert)
    fake.exchange(1, anna)
    assert len(data(anna)) == 1
    fake.exchange(1, anna)
    owed_bytes = fake.server.sessions[1].untaken_bytes
    assert 2_000 < owed_bytes <= 2_500

    send(bert, bytes(50_000), "g")  # Longer than the window: it is sent nevertheless, and nothing after it.
    fake.exchange(2, bert)
    send(bert, b"behind", "g")
    fake.exchange(2, bert)
    fake.exchange(1, anna)
    assert fake.server.sessions[1].backlog.size_bytes > 0
    assert [len(one) for one in data(anna)] == [50_000]
    fake.exchange(1, anna)
    assert data(anna) == [b"behind"]


def test_a_slow_receiver_is_disconnected_and_the_others_stay() -> None:
    fake = FakeDaemon(SessionOptions(backlog_bytes_max=100_000))
    anna = joined(fake, 1, "anna", "g", window_bytes=10_000)
    bert = joined(fake, 2, "bert", "g")
    events(bert)
    seen: list[Event] = []
    sent = 0
    while 1 in fake.server.sessions:
        send(bert, bytes(1000), "g")
        fake.exchange(2, bert)
        seen += events(bert)
        sent += 1
    fake.exchange(1, anna)

    assert 80 < sent < 120
    assert isinstance(anna.ended, SlowConsumer)
    assert "100000 bytes wait for anna" in str(anna.ended)
    assert [event.cause for event in seen if isinstance(event, View)] == ["disconnect"]
    assert fake.server.ended == {"slow receiver": 1}


def test_credit_reaches_a_client_that_takes_nothing() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna", "g", window_bytes=4096)
    for _ in range(100):
        message = message_of("g", bytes(10_000), Service.AGREED, 0, False)
        assert anna.outgoing.has_room(message)
        anna.outgoing.append(message)
        fake.exchange(1, anna)


def test_a_silent_connection_is_closed_in_time() -> None:
    fake = FakeDaemon(SessionOptions(hello_us=3_000_000))
    fake.open(1)
    fake.say(1, PREAMBLE + b"\x05")
    assert fake.server.wake_at_us == 3_000_000
    fake.now_us = 3_000_000
    fake.step(Tick())

    assert fake.closed[1][1] == "no HELLO in time"


def test_the_oldest_connection_without_a_handshake_is_closed_and_too_many_clients_are_refused() -> None:
    fake = FakeDaemon(SessionOptions(strangers_max=2, sessions_max=3))
    for number in (1, 2, 3):
        fake.open(number)
    assert list(fake.closed) == [1]
    anna = fake.client(4, "anna")
    assert anna.welcome is not None
    assert fake.client(5, "bert").welcome is not None
    carl = fake.client(6, "carl")

    assert carl.welcome is None
    assert "too many clients" in str(carl.ended)


def test_random_bytes_never_hurt_anybody_else() -> None:
    dice = Random(4711)
    fake = FakeDaemon()
    bert = joined(fake, 1_000_000, "bert", "g")
    good = PREAMBLE + encode_control(HelloRequest("eve", 1 << 20)) + encode_control(JoinRequest("g"))
    for number in range(1, 400):
        fake.open(number)
        said = bytearray(good + bundle(number) + encode_control(JoinRequest("h")) + bundle(number, size=200))
        for _ in range(dice.randrange(4)):
            said[dice.randrange(len(said))] ^= 1 << dice.randrange(8)
        cut = dice.randrange(1, len(said))
        fake.say(number, bytes(said[:cut]))
        fake.say(number, bytes(said[cut:]))
        fake.lose(number)
        fake.closed.pop(number, None)
    fake.exchange(1_000_000, bert)
    events(bert)
    send(bert, b"still here", "g")
    fake.exchange(1_000_000, bert)

    assert data(bert) == [b"still here"]
    assert sorted(fake.server.sessions) == [1_000_000]
    assert fake.server.ended["inconsistent"] > 0


def test_all_clients_are_notified_of_the_daemons_shutdown() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna", "g")
    fake.end("the daemon ends", "connect to another daemon")
    fake.exchange(1, anna)

    assert "the daemon ends; connect to another daemon" in str(anna.ended)
