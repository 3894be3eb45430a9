"""Threads and signals: one thread reads while another writes, and a disconnect wakes waiting threads."""

import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from select import select
from threading import Event
from time import monotonic
from types import FrameType

import pytest
from tests.unit.compat.scripted_daemon import (
    JOIN,
    KILL,
    WAIT_S,
    WELCOMED,
    AwaitEnd,
    Hear,
    Say,
    Step,
    daemon,
    frame,
    play,
)

from hopring.compat import sp
from hopring.compat.constants import Code
from hopring.compat.mailbox import FAREWELL_S, Mailbox

MESSAGE = frame(0x10, b"#bob#d2", (b"grp",), b"hello")


@contextmanager
def session(*steps: Step) -> Iterator[int]:
    with daemon(*WELCOMED, *steps) as name:
        mbox = sp.SP_connect(name, "alice").mbox
        yield mbox
        sp.SP_kill(mbox)


@contextmanager
def alarm(handler: object, after_s: float) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, handler)  # type: ignore[arg-type]
    signal.setitimer(signal.ITIMER_REAL, after_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_thread_that_waits_does_not_keep_another_from_sending() -> None:
    sent = frame(0x10, b"#alice#d1", (b"grp",), b"ping")
    with session(Hear(sent), Say(sent), AwaitEnd()) as mbox, ThreadPoolExecutor() as threads:
        waiting = threads.submit(sp.SP_receive, mbox)
        assert sp.SP_multicast(mbox, sp.AGREED_MESS, "grp", 0, b"ping") == 4
        assert waiting.result(WAIT_S).mess == b"ping"


def test_many_messages_both_ways_at_once() -> None:
    count = 200
    sent = frame(0x10, b"#alice#d1", (b"grp",), bytes(5000))
    echoes: list[Step] = [Hear(sent), Say(sent)]
    with session(*echoes * count, AwaitEnd()) as mbox, ThreadPoolExecutor() as threads:
        reader = threads.submit(lambda: [sp.SP_receive(mbox).ret for _ in range(count)])
        for _ in range(count):
            assert sp.SP_multicast(mbox, sp.AGREED_MESS, "grp", 0, bytes(5000)) == 5000
        assert reader.result(WAIT_S) == [5000] * count


def test_two_readers_each_get_whole_messages() -> None:
    frames = [frame(0x10, b"#bob#d2", (b"grp",), bytes([at]) * 3000) for at in range(100)]
    with session(Hear(JOIN), Say(b"".join(frames)), AwaitEnd()) as mbox, ThreadPoolExecutor() as threads:
        readers = [threads.submit(lambda: [sp.SP_receive(mbox).mess for _ in range(50)]) for _ in range(2)]
        sp.SP_join(mbox, "grp")
        got = [one for reader in readers for one in reader.result(WAIT_S)]

    assert sorted(got) == [bytes([at]) * 3000 for at in range(100)]


def test_two_writers_do_not_mix_their_frames() -> None:
    one = frame(0x10, b"#alice#d1", (b"grp",), b"x" * 100_000)
    with session(Hear(one * 20), AwaitEnd()) as mbox, ThreadPoolExecutor() as threads:
        body = b"x" * 100_000
        sent = [threads.submit(sp.SP_multicast, mbox, sp.AGREED_MESS, "grp", 0, body) for _ in range(20)]
        assert [each.result(WAIT_S) for each in sent] == [100_000] * 20


@pytest.mark.parametrize("end", [sp.SP_disconnect, sp.SP_kill])
def test_a_disconnect_wakes_a_waiting_thread(end: object) -> None:
    farewell = KILL if end is sp.SP_disconnect else b""
    with session(Say(MESSAGE), AwaitEnd(farewell)) as mbox, ThreadPoolExecutor() as threads:
        sp.SP_receive(mbox)
        waiting = threads.submit(sp.SP_receive, mbox)
        end(mbox)  # type: ignore[operator]
        assert waiting.result(WAIT_S).ret in (sp.CONNECTION_CLOSED, sp.ILLEGAL_SESSION)


def test_a_handler_may_end_the_session_that_its_thread_waits_in() -> None:
    with session(AwaitEnd(KILL)) as mbox:

        def farewell(_number: int, _frame: FrameType | None) -> None:
            assert sp.SP_disconnect(mbox) == 0

        with alarm(farewell, 0.05):
            assert sp.SP_receive(mbox).ret == sp.CONNECTION_CLOSED
        assert sp.SP_receive(mbox).ret == sp.ILLEGAL_SESSION


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
@pytest.mark.parametrize("cut", [0, 20, 48, 60, len(MESSAGE) - 1])
def test_an_interrupted_receive_loses_nothing(error: type[BaseException], cut: int) -> None:
    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise error

    with session(Say(MESSAGE[:cut]), Hear(JOIN), Say(MESSAGE[cut:] + MESSAGE), AwaitEnd()) as mbox:
        with alarm(interrupt, 0.03), pytest.raises(error):
            sp.SP_receive(mbox)
        sp.SP_join(mbox, "grp")
        assert [sp.SP_receive(mbox).mess for _ in range(2)] == [b"hello"] * 2


def test_an_interrupted_multicast_makes_the_session_unusable() -> None:
    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError

    ours, theirs = socket.socketpair()
    box = Mailbox(ours, b"#alice#d1")
    with theirs:
        with alarm(interrupt, 0.03), pytest.raises(TimeoutError):
            box.send(bytes(10**7))
        assert box.send(b"") is Code.NET_ERROR_ON_SESSION
        box.disconnect()


def test_a_handler_that_ends_the_session_writes_nothing_inside_a_frame() -> None:
    ours, theirs = socket.socketpair()
    box = Mailbox(ours, b"#alice#d1")

    def farewell(_number: int, _frame: FrameType | None) -> None:
        try:
            theirs.recv(10**6, socket.MSG_DONTWAIT)  # Makes space in the buffer, so that more could be written.
        except BlockingIOError:
            signal.setitimer(signal.ITIMER_REAL, 0.03)  # Too early: nothing has been sent yet.
        else:
            box.disconnect()

    with theirs:
        with alarm(farewell, 0.03):
            assert box.send(bytes(10**7)) is Code.CONNECTION_CLOSED
        while heard := theirs.recv(10**6):
            assert not heard.strip(b"\0")


def test_messages_sent_before_a_disconnect_arrive_despite_unread_input() -> None:
    body, late = bytes(100_000), Event()
    sent = frame(0x10, b"#alice#d1", (b"grp",), body)
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor() as threads:
        # Little of it fits into the daemon's buffer; the rest is still in ours when the session ends.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

        def slow() -> bytes:
            conn, _ = listening.accept()
            conn.settimeout(WAIT_S)
            with conn:
                play([*WELCOMED, Say(MESSAGE)], conn)
                assert late.wait(WAIT_S)
                heard = b""
                while not heard.endswith(KILL):
                    heard += conn.recv(4096)
                return heard

        heard = threads.submit(slow)
        mbox = sp.SP_connect(f"{listening.getsockname()[1]}@127.0.0.1", "alice").mbox
        assert select([mbox], [], [], WAIT_S)[0]
        assert sp.SP_multicast(mbox, sp.AGREED_MESS, "grp", 0, body) == len(body)
        ending = threads.submit(sp.SP_disconnect, mbox)
        wait([ending], timeout=0.05)
        late.set()
        assert ending.result(WAIT_S) == 0
        assert heard.result(WAIT_S) == sent + KILL


@pytest.mark.slow
def test_a_disconnect_does_not_wait_for_a_daemon_that_does_not_read() -> None:
    ours, theirs = socket.socketpair()
    box = Mailbox(ours, b"#alice#d1")
    with theirs, ThreadPoolExecutor() as threads:
        stuck = threads.submit(box.send, bytes(10**7))
        assert theirs.recv(1) == b"\0"
        before_s = monotonic()
        box.disconnect()
        assert monotonic() - before_s < FAREWELL_S + WAIT_S / 2
        assert stuck.result(WAIT_S) is Code.CONNECTION_CLOSED
