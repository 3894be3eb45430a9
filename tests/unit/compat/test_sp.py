"""The toolkit's calls against a scripted daemon with the bytes of a real one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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

from hopring.compat import sp

MESSAGE = frame(0x10, b"#bob#d2", (b"grp", b"other"), b"hello", tag=0x1234)


@contextmanager
def session(*steps: Step) -> Iterator[int]:
    """A session of alice, whose daemon continues with these steps."""
    with daemon(*WELCOMED, *steps) as name:
        ret, mbox, private_group = sp.SP_connect(name, "alice", 0, 1)
        assert (ret, private_group) == (sp.ACCEPT_SESSION, "#alice#d1")
        try:
            yield mbox
        finally:
            sp.SP_kill(mbox)


def test_connect_and_disconnect_byte_by_byte() -> None:
    with daemon(*WELCOMED, AwaitEnd(KILL)) as name:
        ret, mbox, private_group = sp.SP_connect(name, "alice", 0, 1)

        assert (ret, private_group) == (1, "#alice#d1")
        assert sp.SP_disconnect(mbox) == 0
        assert sp.SP_disconnect(mbox) == sp.ILLEGAL_SESSION


def test_a_host_is_named_by_host_name_or_by_ipv6_address() -> None:
    with daemon(*WELCOMED, AwaitEnd(KILL)) as name:
        ret, mbox, _ = sp.SP_connect(name.replace("127.0.0.1", "localhost"), "alice")
        sp.SP_disconnect(mbox)
    assert ret == sp.ACCEPT_SESSION
    try:
        with daemon(*WELCOMED, AwaitEnd(KILL), at="::1") as name:
            ret, mbox, _ = sp.SP_connect(name, "alice")
            sp.SP_disconnect(mbox)
    except OSError:
        pytest.skip("no IPv6 on this machine")
    assert ret == sp.ACCEPT_SESSION


def test_the_number_of_sessions_of_a_process_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sp, "SESSIONS_MAX", 0)
    with daemon(*WELCOMED, AwaitEnd(KILL)) as name:
        assert sp.SP_connect(name, "alice") == (sp.REJECT_QUOTA, -1, "")


def test_a_port_alone_is_a_unix_socket() -> None:
    with unix_daemon(*WELCOMED, AwaitEnd(KILL)) as name:
        ret, mbox, _ = sp.SP_connect(name, "alice")

        assert ret == sp.ACCEPT_SESSION
        assert sp.SP_disconnect(mbox) == 0


@pytest.mark.parametrize(
    ("arguments", "hello"),
    [
        (("", 0, 0), "05 00 01 00 00"),
        ((None, 0, 1), "05 00 01 01 00"),
        (("", 1, 1), "05 00 01 11 00"),
        (("", sp.HIGH_PRIORITY, 0), "05 00 01 10 00"),
        (("", -1, 0), "05 00 01 00 00"),
        (("abcdefghijkl", 0, 0), "05 00 01 00 0a 61 62 63 64 65 66 67 68 69 6a"),
    ],
)
def test_the_fields_of_the_hello(arguments: tuple[str | None, int, int], hello: str) -> None:
    welcome = bytes.fromhex("01 05 00 01 0b") + b"#r7431-9#d1"
    with daemon(Hear(bytes.fromhex(hello)), Say(OFFER), Hear(CHOICE), Say(welcome), AwaitEnd()) as name:
        ret, mbox, private_group = sp.SP_connect(name, *arguments)
        sp.SP_kill(mbox)

    assert (ret, private_group) == (sp.ACCEPT_SESSION, "#r7431-9#d1")


@pytest.mark.parametrize("code", [-3, -5, -6, -7])
def test_a_daemon_that_refuses_at_once(code: int) -> None:
    with daemon(Hear(HELLO), Say(code.to_bytes(1, signed=True)), HangUp()) as name:
        assert sp.SP_connect(name, "alice") == (code, -1, "")


def test_a_daemon_that_refuses_the_method() -> None:
    with daemon(Hear(HELLO), Say(OFFER), Hear(CHOICE), Say(b"\xf7"), HangUp()) as name:
        assert sp.SP_connect(name, "alice").ret == sp.REJECT_AUTH
    with daemon(Hear(HELLO), Say(b"\x04PAM "), AwaitEnd(b"")) as name:
        assert sp.SP_connect(name, "alice").ret == sp.REJECT_AUTH


def test_a_daemon_that_offers_only_the_ip_method_gets_it() -> None:
    choice = b"IP" + bytes(88)
    with daemon(Hear(HELLO), Say(b"\x03IP "), Hear(choice), Say(WELCOME), AwaitEnd(KILL)) as name:
        ret, mbox, _ = sp.SP_connect(name, "alice")
        sp.SP_disconnect(mbox)

    assert ret == sp.ACCEPT_SESSION


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("x", sp.ILLEGAL_SPREAD),
        ("0", sp.ILLEGAL_SPREAD),
        ("65536", sp.ILLEGAL_SPREAD),
        ("4803@", sp.ILLEGAL_SPREAD),
        ("4803 localhost", sp.ILLEGAL_SPREAD),
        ("localhost:4803", sp.ILLEGAL_SPREAD),
        ("4803@a\0b", sp.ILLEGAL_SPREAD),
        ("4803@" + "x" * 70 + ".invalid", sp.ILLEGAL_SPREAD),
        ("1", sp.COULD_NOT_CONNECT),  # No daemon has a socket of that name in /tmp.
        ("1@127.0.0.1", sp.COULD_NOT_CONNECT),
    ],
)
def test_connecting_without_a_daemon_is_an_error(name: str, code: int) -> None:
    assert sp.SP_connect(name) == (code, -1, "")


@pytest.mark.parametrize("time_out_s", [-1.0, float("nan"), float("inf")])
def test_invalid_timeouts_are_refused(time_out_s: float) -> None:
    assert sp.SP_connect_timeout("1@127.0.0.1", time_out_s=time_out_s).ret == sp.ILLEGAL_TIME


@pytest.mark.parametrize("steps", [[Hear(HELLO)], [Hear(HELLO), Say(OFFER), Hear(CHOICE), Say(WELCOME[:7])]])
def test_connecting_to_a_silent_daemon_times_out(steps: list[Step]) -> None:
    answers = []
    # A busy machine may not come to the silence in so short a time; the daemon says so.
    for time_out_s in (0.05, 0.5, 5.0):
        with suppress(AssertionError, OSError):
            with daemon(*steps, AwaitEnd(b"")) as name:
                answers.append(sp.SP_connect_timeout(name, "alice", 0, 1, time_out_s).ret)
            break
    else:
        raise AssertionError("the silence was not reached")
    assert set(answers) == {sp.CONNECTION_CLOSED}


def test_the_timeout_applies_to_connecting_only() -> None:
    with daemon(*WELCOMED, Hear(JOIN), Say(MESSAGE), AwaitEnd()) as name:
        _, mbox, _ = sp.SP_connect_timeout(name, "alice", 0, 1, WAIT_S)
        assert os.get_blocking(mbox)
        assert sp.SP_join(mbox, "grp") == 0
        assert sp.SP_receive(mbox).mess == b"hello"
        sp.SP_kill(mbox)


def test_join_and_the_view_that_answers_it() -> None:
    body = view_body((0x0A000001, 1_700_000_000, 1), ((b"#alice#d1",),))
    view = frame(0x1100, b"grp", (b"#alice#d1",), body)
    with session(Hear(JOIN), Say(view), AwaitEnd()) as mbox:
        assert sp.SP_join(mbox, "grp") == 0
        got = sp.SP_receive(mbox, 0, 10, 1000)

    assert tuple(got) == (56, 0x1100, "grp", 1, ("#alice#d1",), 0, 0, body)
    assert sp.Is_reg_memb_mess(got.service_type)
    assert sp.Is_caused_join_mess(got.service_type)
    info = sp.SP_get_memb_info(got.mess, got.service_type)
    assert tuple(info) == (1, (0x0A000001, 1_700_000_000, 1), "#alice#d1", 1, (1, 24))
    assert sp.SP_get_vs_set_members(got.mess, info.my_vs_set, 1) == (1, ("#alice#d1",))


def test_leave_and_the_notice_to_the_leaver() -> None:
    leave = bytes.fromhex("80 00 02 80") + JOIN[4:]
    with session(Hear(leave), Say(frame(0x200, b"grp")), AwaitEnd()) as mbox:
        assert sp.SP_leave(mbox, "grp") == 0
        got = sp.SP_receive(mbox)

    assert tuple(got) == (0, 0x200, "grp", 0, (), -1, 0, b"")
    assert sp.Is_self_leave(got.service_type)
    assert sp.SP_get_memb_info(got.mess, got.service_type) == (1, (0, 0, 0), "", 0, (0, 0))


def test_a_multicast_on_the_wire() -> None:
    head = bytes.fromhex("d0 00 00 80") + pack("32s", b"#alice#d1")
    sent = (
        head
        + bytes.fromhex("02 00 00 00 80 34 12 80 05 00 00 00")
        + pack("32s32s", b"grp", b"#bob#d2")
        + b"hello"
    )
    with session(Hear(sent), Hear(sent), AwaitEnd()) as mbox:
        service = sp.AGREED_MESS | sp.SELF_DISCARD
        groups = ["grp", "#bob#d2"]
        assert sp.SP_multigroup_multicast(mbox, service, groups, 0x1234, b"hello") == 5
        assert sp.SP_multigroup_scat_multicast(mbox, service, groups, 0x1234, [b"he", bytearray(b"llo")]) == 5


def test_one_group_and_buffers() -> None:
    sent = frame(0x20, b"#alice#d1", (b"grp",), b"hello", tag=0xFFFE)
    with session(Hear(sent), Hear(sent), AwaitEnd()) as mbox:
        assert sp.SP_multicast(mbox, sp.SAFE_MESS, "grp", -2, b"hello") == 5
        assert sp.SP_scat_multicast(mbox, sp.SAFE_MESS, "grp", 0xFFFE, [b"", memoryview(b"hello")]) == 5


def test_bits_that_daemons_pass_on_are_sent() -> None:
    sent = frame(0x40000020, b"#alice#d1", (b"grp",), b"hello")
    with session(Hear(sent), AwaitEnd()) as mbox:
        assert sp.SP_multicast(mbox, sp.SAFE_MESS | 0x40000000, "grp", 0, b"hello") == 5


def test_invalid_messages_are_refused_before_they_are_sent() -> None:
    with session(AwaitEnd(b"")) as mbox:
        for group in ("", "a b", "#a", "x" * 32, "ä", "a\0b", "\ud800"):
            assert sp.SP_join(mbox, group) == sp.ILLEGAL_GROUP
            assert sp.SP_leave(mbox, group) == sp.ILLEGAL_GROUP
        for group in ("", "x" * 32, "a\0b", "\ud800"):
            assert sp.SP_multicast(mbox, sp.AGREED_MESS, group, 0, b"") == sp.ILLEGAL_GROUP
        for service in (0, 0x30, 0x40, 0x1000, 0x1010, 0x10000, 0x80010, sp.DROP_RECV, 0x40000030, -1):
            assert sp.SP_multicast(mbox, service, "grp", 0, b"") == sp.ILLEGAL_SERVICE
        assert sp.SP_multicast(mbox, sp.SAFE_MESS, "grp", 0, bytes(143_121)) == sp.MESSAGE_TOO_LONG
        assert sp.SP_multigroup_multicast(mbox, sp.SAFE_MESS, ["g"] * 101, 0, b"") == sp.ILLEGAL_GROUP
        assert sp.SP_scat_multicast(mbox, sp.SAFE_MESS, "grp", 0, [b""] * 101) == sp.ILLEGAL_MESSAGE
        with pytest.raises(TypeError):
            sp.SP_multigroup_multicast(mbox, sp.SAFE_MESS, "grp", 0, b"")
        with pytest.raises(TypeError):
            sp.SP_multicast(mbox, sp.SAFE_MESS, "grp", 0, "text")  # type: ignore[arg-type]


def test_the_largest_message_that_a_real_daemon_survives_goes() -> None:
    sent = frame(0x10, b"#alice#d1", (b"grp",), bytes(143_120))
    with session(Hear(sent), AwaitEnd(b"")) as mbox:
        assert sp.SP_multicast(mbox, sp.AGREED_MESS, "grp", 0, bytes(143_120)) == 143_120


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_message_from_a_daemon_of_either_byte_order(order: str) -> None:
    data = frame(0x10, b"#bob#d2", (b"grp", b"other"), b"hello", tag=0x1234, order=order)
    with session(Say(data), AwaitEnd()) as mbox:
        assert sp.SP_receive(mbox) == (5, 0x10, "#bob#d2", 2, ("grp", "other"), 0x1234, 0, b"hello")


def test_a_message_of_a_sender_of_the_other_byte_order() -> None:
    data = frame(0x10, b"#java#d2", (b"grp",), b"hello", tag=0x1234, hint=">")
    assert data[40:44] == bytes.fromhex("00 12 34 00")
    with session(Say(data), AwaitEnd()) as mbox:
        got = sp.SP_receive(mbox)

    assert (got.mess_type, got.endian_mismatch, got.mess) == (0x1234, 1, b"hello")


def test_a_tag_has_a_sign_as_in_c() -> None:
    with session(Say(frame(0x10, b"#bob#d2", (b"grp",), tag=0xFFFE)), AwaitEnd()) as mbox:
        assert sp.SP_receive(mbox).mess_type == -2


def test_a_short_buffer_returns_the_needed_size_and_loses_nothing() -> None:
    with session(Say(MESSAGE), AwaitEnd()) as mbox:
        both = sp.SP_receive(mbox, 0, 1, 4)
        buffer = sp.SP_receive(mbox, 0, 2, 4)
        groups = sp.SP_receive(mbox, 0, 1, 5)
        whole = sp.SP_receive(mbox, 0, 2, 5)

    assert tuple(both) == (sp.GROUPS_TOO_SHORT, 0x10, "#bob#d2", -2, (), 0x1234, -5, b"")
    assert buffer == (sp.BUFFER_TOO_SHORT, 0x10, "#bob#d2", 0, (), 0x1234, -5, b"")
    assert tuple(groups) == (sp.GROUPS_TOO_SHORT, 0x10, "#bob#d2", -2, (), 0x1234, 0, b"")
    assert tuple(whole) == (5, 0x10, "#bob#d2", 2, ("grp", "other"), 0x1234, 0, b"hello")


def test_drop_recv_truncates_and_the_next_message_is_complete() -> None:
    with session(Say(MESSAGE * 4), AwaitEnd()) as mbox:
        both = sp.SP_receive(mbox, sp.DROP_RECV, 1, 4)
        groups = sp.SP_receive(mbox, sp.DROP_RECV, 1, 5)
        sp.SP_receive(mbox, 0, 1, 4)
        late = sp.SP_receive(mbox, sp.DROP_RECV, 0, 0)
        whole = sp.SP_receive(mbox)

    assert tuple(both) == (sp.BUFFER_TOO_SHORT, 0x10, "#bob#d2", -2, ("grp",), 0x1234, 0, b"hell")
    assert tuple(groups) == (5, 0x10, "#bob#d2", -2, ("grp",), 0x1234, 0, b"hello")
    assert tuple(late) == (sp.BUFFER_TOO_SHORT, 0x10, "#bob#d2", -2, (), 0x1234, 0, b"")
    assert whole.ret == 5


def test_a_view_that_is_cut_has_no_index() -> None:
    view = frame(
        0x1800, b"grp", (b"#alice#d1", b"#bob#d2"), view_body((1, 2, 3), ((b"#alice#d1", b"#bob#d2"),))
    )
    with session(Say(view), AwaitEnd()) as mbox:
        got = sp.SP_receive(mbox, sp.DROP_RECV, 1, 1000)

    assert (got.num_groups, got.groups, got.mess_type) == (-2, ("#alice#d1",), -1)


def test_a_negative_buffer_is_no_buffer_and_a_negative_list_is_empty() -> None:
    with session(Say(MESSAGE), AwaitEnd()) as mbox:
        assert sp.SP_receive(mbox, 0, 10, -1).ret == sp.ILLEGAL_MESSAGE
        assert sp.SP_receive(mbox, 0, -1, 10).ret == sp.GROUPS_TOO_SHORT
        assert sp.SP_receive(mbox, sp.DROP_RECV, -1, 10)[:5] == (5, 0x10, "#bob#d2", -2, ())


def test_scat_receive_fills_buffers_one_after_the_other() -> None:
    first, second, third = bytearray(2), bytearray(b"........"), bytearray(b"....")
    with session(Say(MESSAGE * 2), AwaitEnd()) as mbox:
        short = sp.SP_scat_receive(mbox, 0, 10, [first, memoryview(second)[:2]])
        got = sp.SP_scat_receive(mbox, 0, 10, [first, memoryview(second)[:4], third])
        many = sp.SP_scat_receive(mbox, 0, 10, [bytearray(1)] * 101)

    assert (short.ret, short.endian_mismatch) == (sp.BUFFER_TOO_SHORT, -5)
    assert (got.ret, got.mess) == (5, b"hello")
    assert b"|".join([first, second, third]) == b"he|llo.....|...."
    assert many.ret == sp.ILLEGAL_MESSAGE


def test_views_of_a_daemon_of_the_other_byte_order_read_the_same() -> None:
    mine = (b"#alice#d1", b"#c1b#d1", b"#c2#d2")
    sets = ((b"#c3#d3",), mine)
    bodies = {order: view_body((1, 2, 3), sets, 36, order) for order in "<>"}
    frames = [frame(0x1800, b"grp", (*mine, b"#c3#d3"), bodies[order], 0, order, order) for order in "<>"]
    signals = [frame(0x2000, b"grp", (), pack(f"{order}III", 1, 2, 3), 0, order, order) for order in "<>"]
    assert len(bodies["<"]) == 156
    with session(Say(b"".join(frames + signals)), AwaitEnd()) as mbox:
        little, big = sp.SP_receive(mbox), sp.SP_receive(mbox)
        signal, turned_signal = sp.SP_receive(mbox), sp.SP_receive(mbox)

    assert little == big
    assert big.endian_mismatch == 0
    assert signal == turned_signal
    info = sp.SP_get_memb_info(big.mess, big.service_type)
    assert tuple(info) == (1, (1, 2, 3), "", 2, (3, 20 + 36 + 4))
    sets_info = sp.SP_get_vs_sets_info(big.mess)
    assert tuple(sets_info) == (2, ((1, 24), (3, 60)), 1)
    members = [sp.SP_get_vs_set_members(big.mess, one).member_names for one in sets_info.vs_sets]
    assert members == [("#c3#d3",), ("#alice#d1", "#c1b#d1", "#c2#d2")]
    assert big.mess_type == 0
    closing = sp.SP_get_memb_info(signal.mess, signal.service_type)
    assert tuple(closing) == (1, (1, 2, 3), "", 0, (0, 0))
    assert sp.SP_equal_group_ids(info.gid, closing.gid) == 1
    assert sp.SP_equal_group_ids(info.gid, sp.group_id(1, 2, 4)) == 0


def test_a_refused_message_comes_back_with_its_old_type() -> None:
    head = frame(0x400000, b"#alice#d1", (b"grp", b"#alice#d1"), b"hello", tag=7)
    data = head[:48] + bytes.fromhex("90 00 00 80") + head[48:]
    with session(Say(data + MESSAGE), AwaitEnd()) as mbox:
        got = sp.SP_receive(mbox)
        after = sp.SP_receive(mbox)

    assert tuple(got) == (5, 0x400010, "#alice#d1", 2, ("grp", "#alice#d1"), 7, 0, b"hello")
    assert sp.Is_reject_mess(got.service_type)
    assert not sp.Is_regular_mess(got.service_type)
    assert after.ret == 5


def test_a_forged_view_is_a_message() -> None:
    with session(Say(frame(0x1110, b"#eve#d2", (b"grp",), b"x", tag=3)), AwaitEnd()) as mbox:
        got = sp.SP_receive(mbox)

    assert tuple(got) == (1, 0x1110, "#eve#d2", 1, ("grp",), 3, 0, b"x")
    assert sp.Is_regular_mess(got.service_type)
    assert sp.SP_get_memb_info(got.mess, got.service_type).ret == sp.ILLEGAL_MESSAGE


def test_names_that_are_not_utf_8_are_sent_back_unchanged() -> None:
    name = b"#b\xff#d2"
    with session(
        Say(frame(0x10, name, (b"x" * 32,))), Hear(frame(0x10, b"#alice#d1", (name,))), AwaitEnd()
    ) as mbox:
        got = sp.SP_receive(mbox)
        assert got.groups == ("x" * 32,)
        assert sp.SP_multicast(mbox, sp.AGREED_MESS, got.sender, 0, b"") == 0


def test_poll_and_select_tell_what_waits() -> None:
    with session(Hear(JOIN), Say(MESSAGE * 2), AwaitEnd()) as mbox:
        assert sp.SP_poll(mbox) == 0
        sp.SP_join(mbox, "grp")
        assert select([mbox], [], [], WAIT_S)[0] == [mbox]
        sp.SP_receive(mbox)
        # No part of the second message is hidden in a buffer.
        assert select([mbox], [], [], WAIT_S)[0] == [mbox]
        assert sp.SP_poll(mbox) == len(MESSAGE)


def test_the_end_of_the_daemon_is_reported_once_and_the_session_is_unusable_then() -> None:
    with session(HangUp()) as mbox:
        assert sp.SP_receive(mbox).ret == sp.CONNECTION_CLOSED
        assert sp.SP_receive(mbox).ret == sp.NET_ERROR_ON_SESSION
        assert sp.SP_join(mbox, "grp") == sp.NET_ERROR_ON_SESSION
        assert sp.SP_multicast(mbox, sp.SAFE_MESS, "grp", 0, b"") == sp.NET_ERROR_ON_SESSION
        assert sp.SP_disconnect(mbox) == 0


def test_every_call_refuses_an_unknown_mailbox() -> None:
    with session(AwaitEnd(b"")) as mbox:
        sp.SP_kill(mbox)
    for one in (mbox, -1, 10**6):
        sp.SP_kill(one)
        assert sp.SP_disconnect(one) == sp.ILLEGAL_SESSION
        assert sp.SP_join(one, "grp") == sp.ILLEGAL_SESSION
        assert sp.SP_leave(one, "grp") == sp.ILLEGAL_SESSION
        assert sp.SP_multicast(one, sp.SAFE_MESS, "grp", 0, b"") == sp.ILLEGAL_SESSION
        assert sp.SP_receive(one) == (sp.ILLEGAL_SESSION, 0, "", 0, (), 0, 0, b"")
        assert sp.SP_poll(one) == sp.ILLEGAL_SESSION


def test_error_texts_are_those_of_the_toolkit(capsys: pytest.CaptureFixture[str]) -> None:
    sp.SP_error(sp.COULD_NOT_CONNECT)
    sp.SP_error(sp.ILLEGAL_GROUP)
    sp.SP_error(-99)

    assert capsys.readouterr().err.splitlines() == [
        "SP_error: (-2) no daemon answers there: is one running?",
        "SP_error: (-14) no name of a group",
        "SP_error: (-99) no such code",
    ]


def test_version() -> None:
    assert sp.SP_version() == (1, 5, 0, 1)
    assert sp.SPREAD_VERSION == 0x05000001
