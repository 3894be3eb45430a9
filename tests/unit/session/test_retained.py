"""Retained values between a daemon and its clients: frames, credit, arguments."""

from tests.unit.client.wired_client import WiredClient, connected, sending
from tests.unit.session.fake_daemon import FakeDaemon

from hopring.client.events import Message, View
from hopring.client.outgoing import OutgoingMessage
from hopring.wire.bundle import RETAINED_BYTES_MAX
from hopring.wire.envelope import encode_envelope


def retained(data: bytes, headers: dict[str, str] | None = None) -> OutgoingMessage:
    envelope = encode_envelope(headers) if headers else b""
    return sending("g", envelope + data)._replace(retain=True, enveloped=bool(envelope))


def sent(wire: WiredClient, *messages: OutgoingMessage) -> None:
    for one in messages:
        wire.core.send(one)
    wire.exchange(0)


def joined(wire: WiredClient) -> list[tuple[type, bytes, bool]]:
    wire.core.join("g")
    wire.exchange(0)
    return [
        (type(one), one.data if isinstance(one, Message) else b"", isinstance(one, Message) and one.retained)
        for one in wire.events()
    ]


def test_a_joiner_gets_the_value_behind_its_view_and_the_sender_no_copy() -> None:
    wire = connected(FakeDaemon())
    sent(wire, retained(b"old"), sending("g", b"between"), retained(b"new"))
    assert wire.events() == []

    assert joined(wire) == [(View, b"", False), (Message, b"new", True)]


def test_live_messages_are_not_marked_and_the_value_has_headers_type_and_place() -> None:
    fake = FakeDaemon()
    wire = connected(fake)
    sent(wire, retained(b"x", {"source": "desk 7"})._replace(message_type=5))
    wire.core.join("g")
    wire.exchange(0)
    sent(wire, retained(b"live"))

    _, value, live = wire.events()

    assert isinstance(value, Message)
    assert (value.retained, value.data, value.type, dict(value.headers)) == (
        True,
        b"x",
        5,
        {"source": "desk 7"},
    )
    assert value.sender == wire.core.welcomed.private_group
    assert isinstance(live, Message)
    assert (live.retained, live.data) == (False, b"live")
    assert value.place < live.place


def test_it_takes_room_in_the_window_like_other_events() -> None:
    fake = FakeDaemon()
    wire = connected(fake)
    sent(wire, retained(bytes(RETAINED_BYTES_MAX)))
    for _ in range(200):
        joined(wire)
        wire.core.leave("g")
        wire.exchange(0)
        wire.events()

    assert wire.core.ended is None
    assert fake.server.sessions[1].untaken_bytes < 1 << 20


def test_frames_share_no_bundle_with_others_and_a_value_with_a_time_to_live_may_expire() -> None:
    fake = FakeDaemon()
    wire = connected(fake)
    fake.stopped = True
    sent(wire, sending("g", b"a"), retained(b"b"), retained(b"c")._replace(ttl_us=10))
    fake.now_us, fake.stopped = 10, False
    fake.pump()
    wire.exchange(10)

    assert joined(wire)[1:] == [(Message, b"b", True)]
    assert wire.core.state.expired == 1
