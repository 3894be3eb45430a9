"""A hostile daemon: calls return error codes, and nothing else happens."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.compat.scripted_daemon import (
    HELLO,
    OFFER,
    AwaitEnd,
    HangUp,
    Hear,
    Say,
    daemon,
    frame,
    view_body,
)

from hopring.compat import sp, spread
from hopring.compat.constants import Code
from hopring.compat.frames import Limits
from hopring.compat.mailbox import Mailbox
from hopring.compat.sp_membership import membership_info, set_members, sets_info
from hopring.spread.handshake import ClientHandshake, SpreadRefusal, SpreadWelcome

NAMES = (b"#alice#d1", b"#bob#d2")
VIEW = frame(0x1800, b"grp", NAMES, view_body((1, 2, 3), (NAMES,)))
MESSAGE = frame(0x10, b"#bob#d2", (b"grp", b"other"), b"hello")
GOOD = [
    VIEW,
    MESSAGE,
    frame(0x2000, b"grp", (), bytes(12)),
    frame(0x200, b"grp"),
    frame(0x20, b"#b#d", order=">"),
]
LIMITS = [Limits(), Limits(1, 4), Limits(0, 0), Limits(1, 4, drop=True), Limits(0, 0, drop=True)]


@contextmanager
def said(data: bytes) -> Iterator[Mailbox]:
    """A mailbox whose daemon has sent this and closed the connection."""
    ours, theirs = socket.socketpair()
    theirs.sendall(data)
    theirs.close()
    box = Mailbox(ours, b"#alice#d1")
    yield box
    box.kill()


def drain(data: bytes, limits: Limits) -> tuple[int, int]:
    """Receives with these limits, or with none if they are too short, until there is a real error.

    Returns the error and the number of messages before it.
    """
    count = 0
    with said(data) as box:
        for _ in range(len(data) // 48 + 2):
            got = box.receive(limits)
            if got.ret in (Code.BUFFER_TOO_SHORT, Code.GROUPS_TOO_SHORT) and not limits.drop:
                got = box.receive(Limits())
            if got.ret < 0 and got.ret != Code.BUFFER_TOO_SHORT:
                assert box.receive(limits).ret == Code.NET_ERROR_ON_SESSION
                assert box.send(b"x") == Code.NET_ERROR_ON_SESSION
                return got.ret, count
            membership_info(got.mess, got.service_type)
            count += 1
    raise AssertionError("more messages than frames")


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400), st.sampled_from(LIMITS))
def test_random_bytes_are_an_error(data: bytes, limits: Limits) -> None:
    code, count = drain(MESSAGE + data, limits)
    assert code in (Code.CONNECTION_CLOSED, Code.ILLEGAL_MESSAGE)
    assert count >= 1


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(GOOD), min_size=1, max_size=4), st.data(), st.sampled_from(LIMITS))
def test_damaged_frames_are_an_error(frames: list[bytes], data: st.DataObject, limits: Limits) -> None:
    stream = bytearray(b"".join(frames))
    places = data.draw(st.lists(st.integers(0, len(stream) - 1), min_size=1, max_size=4))
    for at in places:
        stream[at] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(stream)))
    code, count = drain(bytes(stream[:end]), limits)

    assert code in (Code.CONNECTION_CLOSED, Code.ILLEGAL_MESSAGE)
    ends = accumulate(map(len, frames))
    assert count >= len([one for one in ends if one <= min(*places, end)]), (
        "complete messages come, as far as they are valid"
    )


def test_any_answer_to_a_hello() -> None:
    welcome, answered = OFFER + bytes([1, 5, 0, 1, 9]) + b"#alice#d1", [0, 0]

    @settings(deadline=None, derandomize=True, database=None)
    @given(st.binary(max_size=200), st.integers(0, len(welcome) - 1), st.integers(0, 255))
    def one(noise: bytes, at: int, byte: int) -> None:
        for answer in (noise, welcome[:at] + bytes([byte]) + welcome[at + 1 :]):
            answered[1] += 1
            answered[0] += isinstance(greeted(answer), SpreadWelcome)

    one()
    assert answered[0] >= answered[1] / 8, "half of the answers are nearly valid"


def greeted(answer: bytes) -> SpreadWelcome | SpreadRefusal | None:
    """The result of a handshake with these answers."""
    greeting = ClientHandshake(b"alice", True, False)
    while greeting.wants and len(answer) >= greeting.wants:
        assert greeting.wants <= 90
        part, answer = answer[: greeting.wants], answer[greeting.wants :]
        greeting.receive(part)

    match greeting.result:
        case SpreadRefusal(code):
            assert Code(code) < 0
        case SpreadWelcome(_, name):
            assert 1 <= len(name) <= 31
        case None:
            assert greeting.wants
    return greeting.result


def test_any_body_of_a_membership_message() -> None:
    good, taken = view_body((1, 2, 3), (NAMES, NAMES[:1])), [0, 0]
    bits = st.sampled_from([0x1100, 0x1200, 0x1400, 0x1800, 0x2000, 0x200, 0x10, 0])

    def judge(body: bytes, bits: int) -> None:
        info = membership_info(body, bits)
        assert info.ret in (1, Code.ILLEGAL_MESSAGE)
        if info.ret == 1:
            assert set_members(body, info.my_vs_set, None).ret == info.my_vs_set.num_members
        sets = sets_info(body, None)
        assert sets.ret in (len(sets.vs_sets), Code.ILLEGAL_MESSAGE)
        assert all(set_members(body, one, None).ret == one.num_members for one in sets.vs_sets)
        taken[0] += sets.ret != Code.ILLEGAL_MESSAGE
        taken[1] += 1

    @settings(deadline=None, derandomize=True, database=None)
    @given(st.binary(max_size=200), st.integers(0, len(good) - 1), st.integers(0, 255), bits)
    def one(noise: bytes, at: int, byte: int, bits: int) -> None:
        judge(noise, bits)
        judge(good[:at] + bytes([byte]) + good[at + 1 :], bits)

    one()
    assert membership_info(good, 0x1100).ret == 1
    assert taken[0] >= taken[1] / 3, "half of the bodies are nearly valid"


@pytest.mark.parametrize(
    "answer",
    [b"", b"\x05", b"\x05NU", b"\x7f", b"\x80", b"\x05NULL \x01", b"\x05NULL \x01\x05\x00\x01\xff", OFFER],
)
def test_a_daemon_that_breaks_off_the_handshake(answer: bytes) -> None:
    with daemon(Hear(HELLO), Say(answer), HangUp()) as name:
        assert sp.SP_connect(name, "alice").ret == sp.CONNECTION_CLOSED


def wrong_offset() -> bytes:
    return frame(0x1100, b"grp", NAMES[:1], view_body((1, 2, 3), (NAMES[:1],), offset=10**6))


def test_a_view_with_a_wrong_own_set_is_an_error_and_the_session_continues() -> None:
    with said(wrong_offset() + MESSAGE) as box:
        got = box.receive(Limits())
        assert got.ret == 56
        assert sp.SP_get_memb_info(got.mess, got.service_type).ret == sp.ILLEGAL_MESSAGE
        assert sp.SP_get_vs_sets_info(got.mess).ret == sp.ILLEGAL_MESSAGE
        assert sp.SP_get_vs_set_members(got.mess, sp.vs_set_info(1, 10**6)).ret == sp.ILLEGAL_MESSAGE
        assert box.receive(Limits()).ret == 5


def test_the_old_module_raises_its_own_error_for_such_a_view() -> None:
    with said(wrong_offset() + MESSAGE + frame(0, b"#b#d") + pack("<I", 0x80000010) + bytes(44)) as box:
        mailbox = spread.MailboxType(box)
        with pytest.raises(spread.error) as caught:
            mailbox.receive()
        assert caught.value.args == (-13, "not a message that can be sent or read")
        assert mailbox.receive()[-1] == b"hello"
        with pytest.raises(spread.error, match="a message of a type that is none: 0x0"):
            mailbox.receive()
        with pytest.raises(spread.error, match="not a message that can be sent or read"):
            mailbox.receive()
        with pytest.raises(spread.error, match="connect again"):
            mailbox.receive()
        with pytest.raises(spread.error, match="connect again"):
            mailbox.join("grp")
        mailbox.disconnect()


def test_a_view_that_announces_too_much_is_refused_without_waiting_for_it() -> None:
    # A real program in C would be asked to allocate 2**31 - 1 names.
    head = bytearray(VIEW[:48])
    head[36:40] = pack("<i", 2**31 - 1)
    with daemon(
        Hear(HELLO),
        Say(OFFER),
        Hear(b"NULL" + bytes(86)),
        Say(bytes([1, 5, 0, 1, 4]) + b"#a#d"),
        Say(bytes(head)),
        AwaitEnd(),
    ) as name:
        _, mbox, _ = sp.SP_connect(name, "alice")
        assert sp.SP_receive(mbox, 0, 10, 10).ret == sp.ILLEGAL_MESSAGE
        sp.SP_kill(mbox)
