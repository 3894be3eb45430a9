"""The old Python module's interface, against a scripted daemon with the bytes of a real one."""

from collections.abc import Iterator
from contextlib import contextmanager
from select import select
from struct import pack

import pytest
from tests.unit.compat.scripted_daemon import (
    CHOICE,
    HELLO,
    JOIN,
    KILL,
    OFFER,
    WAIT_S,
    WELCOME,
    WELCOMED,
    AwaitEnd,
    HangUp,
    Hear,
    Say,
    Step,
    daemon,
    frame,
    unix_daemon,
    view_body,
)

from hopring.compat import spread

MESSAGE = frame(0x10, b"#bob#d2", (b"grp", b"other"), b"hello", tag=0x1234)


@contextmanager
def mailbox(*steps: Step) -> Iterator[spread.MailboxType]:
    with daemon(*WELCOMED, *steps) as name:
        mbox = spread.connect(name, "alice", 0, 1)
        try:
            yield mbox
        finally:
            mbox.disconnect()


def message(mbox: spread.MailboxType) -> spread.RegularMsgType:
    got = mbox.receive()
    assert isinstance(got, spread.RegularMsgType)
    return got


def membership(mbox: spread.MailboxType) -> spread.MembershipMsgType:
    got = mbox.receive()
    assert isinstance(got, spread.MembershipMsgType)
    return got


def test_a_session_from_connect_to_disconnect() -> None:
    sent = frame(0x10, b"#alice#d1", (b"grp",), b"test message", tag=1)
    with daemon(*WELCOMED, Hear(JOIN), Hear(sent), Say(sent), AwaitEnd(KILL)) as name:
        mbox = spread.connect(name, "alice")
        assert mbox.private_group == "#alice#d1"
        mbox.join("grp")
        assert mbox.multicast(spread.AGREED_MESS, "grp", b"test message", 1) == 12
        assert message(mbox).message == b"test message"
        mbox.disconnect()
        mbox.disconnect()


@pytest.mark.parametrize("words", [("daemon", "name"), ("spread_name", "private_name")])
def test_keyword_arguments_of_its_page_and_of_its_code_are_accepted(words: tuple[str, str]) -> None:
    hello = HELLO[:3] + b"\x10" + HELLO[4:]
    with daemon(Hear(hello), Say(OFFER), Hear(CHOICE), Say(WELCOME), AwaitEnd(KILL)) as name:
        given = dict(zip(words, (name, "alice"), strict=True))
        spread.connect(priority=1, membership=0, **given).disconnect()


def test_a_unix_socket() -> None:
    with unix_daemon(*WELCOMED, AwaitEnd(KILL)) as name:
        spread.connect(name, "alice").disconnect()


def test_connection_errors_are_exceptions() -> None:
    with daemon(Hear(HELLO), Say(b"\xfa"), HangUp()) as name, pytest.raises(spread.error) as caught:
        spread.connect(name, "alice")
    assert caught.value.args == (spread.REJECT_NOT_UNIQUE, "refused: the private name is in use at this daemon")
    with pytest.raises(spread.SpreadError, match="no daemon answers"):
        spread.connect("1@localhost")


def test_the_attributes_of_a_message() -> None:
    big = frame(0x20, b"#java#d2", (b"grp",), b"x" * 100_000, tag=0xFFFF, hint=">")
    with mailbox(Say(MESSAGE + big), AwaitEnd()) as mbox:
        first, second = message(mbox), message(mbox)

    assert (first.sender, first.groups, first.msg_type) == ("#bob#d2", ("grp", "other"), 0x1234)
    assert (first.endian, first.message) == (0, b"hello")
    assert (second.msg_type, second.endian, len(second.message)) == (-1, 1, 100_000)


@pytest.mark.parametrize("order", ["<", ">"])
def test_membership_messages(order: str) -> None:
    members = (b"#alice#d1", b"#bob#d2")
    alone, ours = (b"#c#d3",), members
    joined = frame(0x1100, b"grp", members, view_body((1, 2, 3), ((b"#bob#d2",),), order=order), order=order)
    body = view_body((1, 2, 4), (alone, ours), 36, order)
    merged = frame(0x1800, b"grp", (*members, *alone), body, order=order)
    closing = frame(0x2000, b"grp", (), pack(f"{order}III", 1, 2, 3), order=order)
    left = frame(0x200, b"grp", order=order)
    with mailbox(Say(joined + closing + merged + left), AwaitEnd()) as mbox:
        join, transition, network, leave = (membership(mbox) for _ in range(4))

    assert (join.group, join.members, join.extra) == ("grp", ("#alice#d1", "#bob#d2"), ("#bob#d2",))
    assert join.reason == spread.CAUSED_BY_JOIN
    assert (transition.reason, transition.members, transition.extra) == (0, (), ())
    assert network.reason == spread.CAUSED_BY_NETWORK
    assert network.members == ("#alice#d1", "#bob#d2", "#c#d3")
    assert network.extra == ("#alice#d1", "#bob#d2")
    assert tuple(leave) == ("grp", None, (), spread.CAUSED_BY_LEAVE, ())
    assert join.group_id == transition.group_id != network.group_id
    assert repr(join.group_id) == "<group_id 00000001:00000002:00000003>"


def test_the_bytes_of_sent_messages() -> None:
    sent = frame(0x50, b"#alice#d1", (b"a", b"b"), "größe".encode(), tag=3)
    leave = frame(0x20000, b"#alice#d1", (b"a",))
    with mailbox(Hear(sent + leave), AwaitEnd(KILL)) as mbox:
        service = spread.AGREED_MESS | spread.SELF_DISCARD
        assert mbox.multigroup_multicast(service, ("a", "b"), "größe", 3) == 7
        mbox.leave("a")


def test_invalid_messages_are_refused() -> None:
    with mailbox(AwaitEnd(KILL)) as mbox:
        with pytest.raises(spread.error, match="no name of a group") as caught:
            mbox.join("#grp")
        assert caught.value.args[0] == spread.ILLEGAL_GROUP
        with pytest.raises(ValueError, match="not a service"):
            mbox.multicast(spread.REG_MEMB_MESS, "grp", b"")
        with pytest.raises(spread.error, match="no such service"):
            mbox.multicast(spread.AGREED_MESS | spread.SAFE_MESS, "grp", b"")
        with pytest.raises(spread.error, match="too long"):
            mbox.multicast(spread.SAFE_MESS, "grp", bytes(144_000))
        with pytest.raises(ValueError, match="no group is named"):
            mbox.multigroup_multicast(spread.SAFE_MESS, (), b"")
        with pytest.raises(TypeError):
            mbox.multigroup_multicast(spread.SAFE_MESS, "grp", b"")


def test_poll_and_select() -> None:
    with mailbox(Hear(JOIN), Say(MESSAGE), AwaitEnd()) as mbox:
        assert mbox.poll() == 0
        mbox.join("grp")
        assert select([mbox], [], [], WAIT_S)[0] == [mbox]
        assert 0 < mbox.poll() <= len(MESSAGE)


def test_a_daemon_that_goes_closes_the_mailbox() -> None:
    with mailbox(HangUp()) as mbox:
        with pytest.raises(spread.error) as caught:
            mbox.receive()
        assert caught.value.args == (-8, "the daemon closed the connection")
        for call in (mbox.receive, mbox.poll, mbox.fileno):
            with pytest.raises(spread.error, match=rf"{call.__name__}\(\) of a mailbox that is disconnected"):
                call()
        with pytest.raises(spread.error, match=r"join\(\) of a mailbox that is disconnected"):
            mbox.join("grp")


def test_a_collected_mailbox_disconnects() -> None:
    with daemon(*WELCOMED, AwaitEnd(KILL)) as name:
        spread.connect(name, "alice")


def test_version_and_constants() -> None:
    assert spread.version() == (5, 0, 1)
    assert (spread.DEFAULT_SPREAD_PORT, spread.SAFE_MESS, spread.MEMBERSHIP_MESS) == (4803, 0x20, 0x3F00)
