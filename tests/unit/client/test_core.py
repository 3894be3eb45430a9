"""The client's core against daemons that violate the protocol."""

from random import Random

import pytest

from hopring.client.arguments import DaemonAddress, parse_url
from hopring.client.core import ClientCore
from hopring.client.errors import ConnectError, MessageTooLarge, RequestRefused, SessionClosed, WrongValue
from hopring.client.outgoing import OutgoingMessage, OutgoingRequests, checked_groups
from hopring.ids import GroupName
from hopring.session.frames import PREAMBLE, FrameKind, encode_frame
from hopring.session.protocol import (
    Credit,
    HelloRequest,
    JoinRequest,
    LeftNotice,
    ViewNotice,
    WelcomeReply,
    encode_control,
)

WELCOME = WelcomeReply("eu1", 0, 1, "#anna#eu1", 1000, 10_000)


def connected() -> ClientCore:
    core = ClientCore("hop://test", "anna")
    core.hello()
    core.receive(PREAMBLE + encode_control(WELCOME))
    assert core.welcome == WELCOME
    core.output()
    return core


def test_another_protocol_at_the_port_is_a_connect_error() -> None:
    core = ClientCore("hop://test", "anna")
    core.receive(b"SSH-2.0-OpenSSH_9.6\r\n")

    assert isinstance(core.ended, ConnectError)
    assert "check the address" in str(core.ended)


@pytest.mark.parametrize(
    "said",
    [
        encode_control(Credit(1)),
        encode_control(WELCOME),
        encode_control(HelloRequest("x", 4096)),
        encode_frame(FrameKind.MESSAGES, bytes(100)),
        encode_frame(FrameKind.VIEW, b"\x91\xa1g"),
        encode_control(ViewNotice("g", ((1, 0, 1), (), 1), (), (3,), "join", None, ())),  # type: ignore[arg-type]
        b"\xff\xff\xff\xff\x14\0\0\0",
    ],
)
def test_a_protocol_violation_of_the_daemon_ends_the_session(said: bytes) -> None:
    core = connected()
    core.receive(said)

    assert isinstance(core.ended, SessionClosed)
    with pytest.raises(SessionClosed):
        core.join("g")


def test_random_bytes_of_a_daemon_end_the_session_or_wait_for_more() -> None:
    dice = Random(4711)
    for _ in range(300):
        core = connected()
        core.receive(encode_control(LeftNotice("g")) + dice.randbytes(dice.randrange(1, 60)))
        assert core.ended is None or isinstance(core.ended, SessionClosed)


def test_an_end_before_the_welcome_is_a_connect_error() -> None:
    core = ClientCore("hop://test", "anna")
    core.lost("the daemon is gone")

    assert isinstance(core.ended, ConnectError)
    assert core.ended.url == "hop://test"


def test_an_invalid_message_is_refused_at_once() -> None:
    outgoing = OutgoingRequests(WELCOME)
    with pytest.raises(MessageTooLarge) as caught:
        outgoing.has_room(OutgoingMessage((GroupName("g"),), bytes(1001)))
    assert (caught.value.size_bytes, caught.value.limit_bytes) == (1001, 1000)
    for groups in (
        [],
        ["g", "g"],
        [""],
        ["x" * 129],
        ["a\0"],
        ["\ud800"],
        ["#"],
        ["#a"],
        ["a#b"],
        ["a#b#c"],
        ["##d"],
        ["#a#b#c"],
    ):
        with pytest.raises(RequestRefused):
            checked_groups(tuple(groups))


def test_only_requests_that_are_not_credited_are_in_doubt() -> None:
    outgoing = OutgoingRequests(WELCOME)
    one = OutgoingMessage((GroupName("g"),), b"1")
    outgoing.append(one)
    outgoing.append(one)
    outgoing.close_bundle()
    cost = outgoing.charged_bytes
    outgoing.append_request(JoinRequest("g"), 256)
    outgoing.append(one)
    outgoing.append(one)
    outgoing.close_bundle()
    outgoing.append(one)

    assert outgoing.in_doubt == 5
    outgoing.credited(cost)
    assert outgoing.in_doubt == 3
    outgoing.credited(256 + cost)
    assert outgoing.in_doubt == 1


def test_an_error_about_a_url_does_not_repeat_a_password() -> None:
    for url in ("hop://me:secret@eu1", "hops://secret@eu1:x", "secret@eu1"):
        with pytest.raises(WrongValue) as raised:
            parse_url(url)
        assert "secret" not in str(raised.value)
        assert "***@eu1" in str(raised.value)


def test_addresses() -> None:
    assert parse_url("hop://localhost") == DaemonAddress("localhost", 4893)
    assert parse_url("hop://[::1]:99") == DaemonAddress("::1", 99)
    assert parse_url("hop+unix:///run/hop%20ring/eu1.sock") == DaemonAddress(path="/run/hop ring/eu1.sock")
    for wrong in ("localhost:4893", "http://localhost", "hop:///path", "hop+unix://host/path", "hop://h/x", ""):
        with pytest.raises(ValueError, match="write hop://host:port"):
            parse_url(wrong)
