"""A daemon that sends and expects scripted bytes on a real socket, and does nothing else."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import pack
from threading import Thread
from typing import NamedTuple

WAIT_S = 60.0

HELLO = bytes.fromhex("05 00 01 01 05") + b"alice"
OFFER = b"\x05NULL "
CHOICE = b"NULL" + bytes(86)
WELCOME = bytes.fromhex("01 05 00 01 09") + b"#alice#d1"


class Say(NamedTuple):
    data: bytes


class Hear(NamedTuple):
    data: bytes


class HangUp(NamedTuple):
    pass


class AwaitEnd(NamedTuple):
    """Waits until the client closes, or sends KILL, which is answered by closing; None means any."""

    farewell: bytes | None = None


Step = Say | Hear | HangUp | AwaitEnd

WELCOMED: list[Step] = [Hear(HELLO), Say(OFFER), Hear(CHOICE), Say(WELCOME)]


def frame(
    word: int,
    name: bytes,
    groups: tuple[bytes, ...] = (),
    body: bytes = b"",
    tag: int = 0,
    order: str = "<",
    hint: str = "<",
) -> bytes:
    """A frame as a daemon of one byte order forwards it from a client of the other."""
    marks = {"<": 0x80000080, ">": 0}
    head = pack(f"{order}I32sI", word | marks[order], name, len(groups))
    head += pack(f"{hint}I", tag << 8 | marks[hint]) + pack(f"{order}I", len(body))
    return head + b"".join([pack("32s", one) for one in groups]) + body


def view_body(
    words: tuple[int, int, int], sets: tuple[tuple[bytes, ...], ...], offset: int = 0, order: str = "<"
) -> bytes:
    body = pack(f"{order}IIIII", *words, len(sets), offset)
    for one in sets:
        body += pack(f"{order}I", len(one)) + b"".join([pack("32s", name) for name in one])
    return body


JOIN = (
    bytes.fromhex("80 00 01 80")
    + pack("32s", b"#alice#d1")
    + bytes.fromhex("01 00 00 00 80 00 00 80 00 00 00 00")
)
JOIN += pack("32s", b"grp")
KILL = (
    bytes.fromhex("80 00 04 80")
    + pack("32s", b"#alice#d1")
    + bytes.fromhex("01 00 00 00 80 00 00 80 00 00 00 00")
)
KILL += pack("32s", b"#alice#d1")


def play(steps: list[Step], conn: socket.socket) -> None:
    for step in steps:
        match step:
            case Say(data):
                conn.sendall(data)
            case Hear(data):
                heard = b""
                while len(heard) < len(data) and (chunk := conn.recv(len(data) - len(heard))):
                    heard += chunk
                assert heard == data
            case HangUp():
                return
            case AwaitEnd(farewell):
                heard = b""
                while not heard.endswith(KILL) and (chunk := conn.recv(4096)):
                    heard += chunk
                assert farewell is None or heard == farewell


@contextmanager
def serve(listening: socket.socket, steps: list[Step]) -> Iterator[None]:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            conn, _ = listening.accept()
            conn.settimeout(WAIT_S)
            if conn.family != socket.AF_UNIX:
                conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with conn:
                play(steps, conn)
        except BaseException as error:
            errors.append(error)

    listening.settimeout(WAIT_S)
    thread = Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join(WAIT_S)
        listening.close()
    if errors:
        raise errors[0]


@contextmanager
def daemon(*steps: Step, at: str = "127.0.0.1") -> Iterator[str]:
    """Runs a daemon with this script for its one client; returns its name."""
    family = socket.AF_INET6 if ":" in at else socket.AF_INET
    listening = socket.create_server((at, 0), family=family)
    with serve(listening, list(steps)):
        yield f"{listening.getsockname()[1]}@{at}"


@contextmanager
def unix_daemon(*steps: Step) -> Iterator[str]:
    """The same at a Unix socket, at the path that the toolkit uses."""
    for port in range(61_000, 65_000):
        path = Path(f"/tmp/{port}")
        listening = socket.socket(socket.AF_UNIX)
        try:
            listening.bind(str(path))
        except OSError:
            listening.close()
            continue
        listening.listen()
        try:
            with serve(listening, list(steps)):
                yield str(port)
        finally:
            path.unlink()
        return
    raise AssertionError("no free name for a socket")
