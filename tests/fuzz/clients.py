"""Fuzzed clients: frames that are nearly right, or not at all, against a desk and against a daemon.

    python -m tests.fuzz.clients [--frames N] [--socket-frames N] [--seed S]

A well-behaved session stands beside them all the time: its messages have to come back, all of them, in their
order. Memory has to stay flat. A failure names the seed.
"""

import argparse
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from tests.support.waiting import until
from tests.unit.daemon.free_ports import free_base_port
from tests.unit.session.fake_daemon import FakeDaemon

from hopring import Message, sync
from hopring.client.core import ClientCore
from hopring.config import dump_toml, local_config
from hopring.daemon.clients.spill import SpillPlace
from hopring.ids import DaemonId, GroupName
from hopring.links.events import Tick
from hopring.services import Service
from hopring.session.frames import FRAME_HEAD_BYTES, PREAMBLE, FrameKind, encode_frame
from hopring.session.options import SessionOptions, SlowPolicy
from hopring.session.protocol import (
    Credit,
    HelloRequest,
    JoinRequest,
    LeaveRequest,
    QuitRequest,
    encode_control,
)
from hopring.wire.bundle import BundleKey, encode_bundle

GOOD: Final = 1
GROUPS: Final = ("crowd", "g", "h", "#good#eu1", "#x#y", "", "a\0b", "x" * 129)
LOOK_EVERY: Final = 1_000
SMALL: Final = SessionOptions(
    backlog_bytes_max=200_000,
    backlogs_bytes_max=1_000_000,
    spill_memory_bytes=50_000,
    spill_bytes_max=1_000_000,
)
FRAME_US: Final = 1_000  # Virtual time of a frame.
WARM_PART: Final = 5
GROWTH_BYTES_MAX: Final = 24 * 2**20
SECONDS_MAX: Final = 30.0
DESK_SHARE: Final = 0.1
DAEMON_SHARE: Final = 0.01
"""Messages that the good session gets of the others, of all their frames: at least half of what is usual."""


def right(dice: Random, session: int) -> bytes:
    """A frame that a client may say."""
    match dice.randrange(8):
        case 0:
            return encode_control(JoinRequest(dice.choice(GROUPS)))
        case 1:
            return encode_control(LeaveRequest(dice.choice(GROUPS)))
        case 2:
            return encode_control(Credit(0 if dice.random() < 0.95 else dice.choice((1, 200, 2**62))))
        case 3 if dice.random() < 0.1:
            return encode_control(QuitRequest())
        case 4 if dice.random() < 0.1:
            return encode_control(HelloRequest("eve", 1 << 16))
        case _:
            key = BundleKey(
                DaemonId(0), session, dice.choice(list(Service)), (GroupName(dice.choice(GROUPS[:5])),)
            )
            bodies = [dice.randbytes(dice.randrange(40)) for _ in range(dice.randrange(1, 4))]
            return encode_frame(
                FrameKind.SEND, encode_bundle(key, bodies, [7] * len(bodies), [0] * len(bodies))
            )


def wrong(dice: Random, frame: bytes) -> bytes:
    """The same, spoiled."""
    said = bytearray(frame)
    match dice.randrange(7):
        case 0:
            for _ in range(dice.randrange(1, 4)):
                said[dice.randrange(len(said))] ^= 1 << dice.randrange(8)
        case 1:
            del said[dice.randrange(len(said)) :]
        case 2:
            said[:4] = dice.choice((0, 1, 4096, 4097, 2**31, 2**32 - 1, len(said))).to_bytes(4, "little")
        case 3:
            said[4] = dice.randrange(256)
        case 4:
            body = dice.randbytes(dice.randrange(60))
            said = bytearray(encode_frame(dice.choice(list(FrameKind)), body))
        case 5:
            said = bytearray(dice.randbytes(dice.randrange(1, 100)))
        case _:
            at = dice.randrange(FRAME_HEAD_BYTES, len(said) + 1)
            said[at:at] = dice.randbytes(dice.randrange(1, 9))
    return bytes(said)


def greeting(dice: Random, name: str) -> bytes:
    """The beginning of a client, most of the time a right one."""
    policies: tuple[SlowPolicy, ...] = ("kick", "drop", "block", "spill")
    membership, policy, priority = dice.random() < 0.5, dice.choice(policies), dice.random() < 0.2
    hello = encode_control(HelloRequest(name, 1 << 14, membership, policy, priority))
    if dice.random() < 0.05:
        hello = wrong(dice, hello)
    return (PREAMBLE if dice.random() < 0.98 else dice.randbytes(8)) + hello


def memory_bytes(pid: str = "self") -> int:
    """Of a process, in use."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


class Beside:
    """The well-behaved session at a desk."""

    def __init__(self, front: FakeDaemon) -> None:
        self.front = front
        self.core = front.client(GOOD, "good")
        self.core.join("crowd")
        self.count = 0
        self.others = 0  # Messages of the other clients.
        self._exchange()

    def look(self) -> None:
        """One more message, which has to come back."""
        self.count += 1
        said = b"good %d" % self.count
        self.core.outgoing.send(self.core.outgoing.key(["crowd"], Service.AGREED, False), said, 0)
        seen = self._exchange()
        mine = [one.data for one in seen if one.sender == "#good#eu1"]
        assert mine == [said], f"{mine} instead of {said!r}"
        self.others += len(seen) - len(mine)

    def _exchange(self) -> list[Message]:
        seen: list[Message] = []
        while True:
            self.front.exchange(GOOD, self.core)
            assert self.core.ended is None, f"it was ended: {self.core.ended}"
            event = self.core.take()
            if event is None:
                return seen
            if isinstance(event, Message):
                seen.append(event)


class Meter:
    """How far it is, and whether memory stays flat."""

    def __init__(self, what: str, frames: int, memory: Callable[[], int]) -> None:
        self.what, self.frames, self.memory = what, frames, memory
        self.warm_bytes = 0
        self.begin = time.monotonic()

    def look(self, done: int) -> None:
        """Now and then."""
        size_bytes = self.memory()
        if done <= self.frames // WARM_PART or not self.warm_bytes:
            self.warm_bytes = size_bytes
        grown = size_bytes - self.warm_bytes
        assert grown <= GROWTH_BYTES_MAX, f"memory grew by {grown} bytes after {done} frames"
        rate = done / max(time.monotonic() - self.begin, 0.001)
        facts = f"{rate:.0f} per second, {size_bytes >> 20} MiB, {grown >> 10:+d} KiB"
        print(f"\r{self.what}: {done} frames, {facts} ", end="", file=sys.stderr, flush=True)


def at_the_desk(dice: Random, frames: int) -> None:
    """In this process, with virtual time."""
    with TemporaryDirectory() as directory:
        place = SpillPlace(Path(directory))
        _at_the_desk(dice, frames, FakeDaemon(SMALL, place))
        assert place.size_bytes == 0, "nothing is left on disk"


def _at_the_desk(dice: Random, frames: int, front: FakeDaemon) -> None:
    good = Beside(front)
    meter = Meter("desk", frames, memory_bytes)
    number, done, next_look = GOOD, 0, LOOK_EVERY
    while done < frames:
        number += 1
        front.open(number)
        front.say(number, greeting(dice, f"eve{number % 50}"))
        spoiled = dice.choice((0.0, 0.02, 0.3, 1.0))
        for _ in range(dice.randrange(1, 100)):
            if number not in front.desk.sessions:
                break
            frame = right(dice, number)
            said = wrong(dice, frame) if dice.random() < spoiled else frame
            cut = dice.randrange(len(said) + 1)
            front.say(number, said[:cut])
            front.say(number, said[cut:])
            if dice.random() < 0.3:
                front.fetch(number)
            front.now_us += FRAME_US
            done += 1
        front.lose(number)
        front.closed.pop(number, None)
        front.ready.clear()
        if done >= next_look:
            next_look += LOOK_EVERY
            front.step(Tick())
            good.look()
            meter.look(done)
    assert sorted(front.desk.sessions) == [GOOD], "all others are gone"
    assert front.desk.slow.pool.size_bytes == 0, "nothing waits for anybody"
    good.look()
    enough(good.others, done, DESK_SHARE)
    print(f"\ndesk: {done} frames of {number} clients; ended: {dict(front.desk.ended)}", file=sys.stderr)


def enough(heard: int, frames: int, share: float) -> None:
    """Among spoiled frames there are right ones, and they have to count."""
    assert heard >= frames * share, f"{heard} messages came of {frames} frames"


def at_a_daemon(dice: Random, frames: int) -> None:
    """The same by TCP."""
    with TemporaryDirectory() as directory:
        config = local_config({"eu": 1}, base_port=free_base_port(2))
        port = config.daemons[0].client_port or 0
        file = Path(directory) / "hop.toml"
        file.write_text(dump_toml(config))
        command = [
            sys.executable,
            "-m",
            "hopring.daemon.hopd",
            str(file),
            "--name",
            "eu1",
            "--state",
            directory,
        ]
        log = Path(directory) / "log"
        with log.open("w") as stderr:
            daemon = subprocess.Popen(command, stderr=stderr)
        try:
            until(lambda: "size=1" in log.read_text() or daemon.poll() is not None, log.read_text)
            assert daemon.poll() is None, log.read_text()
            with sync.connect(f"hop://127.0.0.1:{port}", name="good") as good:
                good.join("crowd")
                _clients(
                    dice, frames, port, good, Meter("daemon", frames, lambda: memory_bytes(str(daemon.pid)))
                )
            assert daemon.poll() is None, log.read_text()
        finally:
            daemon.terminate()
            assert daemon.wait() == 0, log.read_text()
    print(f"\ndaemon: {frames} frames", file=sys.stderr)


def _clients(dice: Random, frames: int, port: int, good: sync.Session, meter: Meter) -> None:
    done, looked, heard = 0, 0, 0
    while done < frames:
        with socket.create_connection(("127.0.0.1", port), SECONDS_MAX) as sock:
            session = _greet(sock, f"eve{done}")
            spoiled = dice.choice((0.02, 0.3, 1.0))
            count = dice.randrange(1, 100)
            said = [right(dice, session) for _ in range(count)]
            said = [wrong(dice, one) if dice.random() < spoiled else one for one in said]
            try:
                sock.sendall(b"".join(said))
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(1 << 16):
                    pass
            except OSError:
                pass  # It had to go, with bytes of it unread.
            done += count
        if done // LOOK_EVERY > looked:
            looked = done // LOOK_EVERY
            heard += look_by_tcp(good, looked)
            meter.look(done)
    enough(heard + look_by_tcp(good, looked + 1), done, DAEMON_SHARE)


def look_by_tcp(good: sync.Session, count: int) -> int:
    """One more message, which has to come back; how many of others came before it."""
    good.multicast("crowd", b"good %d" % count)
    others = 0
    while True:
        event = good.receive(timeout_seconds=SECONDS_MAX)
        if isinstance(event, Message) and event.sender == good.private_group:
            assert event.data == b"good %d" % count, event
            return others
        others += isinstance(event, Message)


def _greet(sock: socket.socket, name: str) -> int:
    """Says HELLO rightly; returns the session's number."""
    core = ClientCore("hop://test", name)
    core.hello()
    sock.sendall(core.output())
    while core.welcome is None:
        chunk = sock.recv(1 << 16)
        assert chunk, "the daemon answers a right HELLO"
        core.receive(chunk)
        assert core.ended is None, core.ended
    return core.welcome.session


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.clients")
    parser.add_argument("--frames", type=int, default=1_000_000, help="against a desk in this process")
    parser.add_argument("--socket-frames", type=int, default=50_000, help="against a daemon")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    try:
        at_the_desk(Random(arguments.seed), arguments.frames)
        at_a_daemon(Random(arguments.seed), arguments.socket_frames)
    except BaseException:
        print(f"\nseed {arguments.seed}", file=sys.stderr)
        raise


if __name__ == "__main__":
    main()
