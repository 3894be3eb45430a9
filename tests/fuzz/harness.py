"""Runs fuzzed clients against a session server in this process and against a daemon.

A well-behaved session is connected all the time, in a group that the fuzzed clients join too. All its messages
must come back, in their order, and the memory of the server must stay flat. A failure names the seed.
"""

import argparse
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import ClassVar, Final

from tests.hopd.one_daemon import alone
from tests.support.free_ports import free_base_port
from tests.unit.session.fake_daemon import FakeDaemon

from hopring import Message, sync
from hopring.client.core import ClientCore
from hopring.client.session_base import message_of
from hopring.config import local_config
from hopring.daemon.clients.spill import SpillPlace
from hopring.links.events import Tick
from hopring.services import Service
from hopring.session.options import SessionOptions

GOOD: Final = 1
CHECK_EVERY: Final = 1_000
FRAME_US: Final = 1_000
"""Virtual time that passes with each frame."""
WARM_PART: Final = 5
GROWTH_BYTES_MAX: Final = 24 * 2**20
SECONDS_MAX: Final = 30.0
SERVER_SHARE: Final = 0.1
DAEMON_SHARE: Final = 0.01
"""Messages that the good session must get from fuzzed clients, per frame: at least half of the usual number."""


@dataclass(frozen=True, slots=True)
class FuzzedClient:
    """A connection of a fuzzed client."""

    name: str
    session: int
    welcome: bool = False


class ClientFuzzer(ABC):
    """One kind of fuzzed client: the bytes that it sends, some of them damaged."""

    spread: ClassVar[bool]
    options: ClassVar[SessionOptions]
    damage_shares: ClassVar[tuple[float, ...]]
    fetch_share: ClassVar[float]
    """How often a client of the server in this process reads its output."""

    @abstractmethod
    def frames(self, dice: Random, client: FuzzedClient, damage: float) -> Iterator[bytes]:
        """The handshake, unless the client is welcome already, and frames; `damage` is their damaged share."""


def flip_bits(dice: Random, data: bytearray) -> None:
    """Flips one to three bits at random places."""
    for _ in range(dice.randrange(1, 4)):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def memory_bytes(pid: str = "self") -> int:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


class GoodSession:
    """The well-behaved session at a server in this process."""

    def __init__(self, fake: FakeDaemon) -> None:
        self.fake = fake
        self.core = fake.client(GOOD, "good")
        self.core.join("crowd")
        self.count = 0
        self.others = 0  # Messages from fuzzed clients.
        self._exchange()

    def check(self) -> None:
        """Sends one more message, which must come back."""
        self.count += 1
        sent = b"good %d" % self.count
        self.core.outgoing.append(message_of("crowd", sent, Service.AGREED, 0, False))
        seen = self._exchange()
        own = [one.data for one in seen if one.sender == "#good#eu1"]
        assert own == [sent], f"{own} instead of {sent!r}"
        self.others += len(seen) - len(own)

    def _exchange(self) -> list[Message]:
        seen: list[Message] = []
        while True:
            self.fake.exchange(GOOD, self.core)
            assert self.core.ended is None, f"the good session was ended: {self.core.ended}"
            event = self.core.take()
            if event is None:
                return seen
            if isinstance(event, Message):
                seen.append(event)


class Meter:
    """Prints the progress and checks that memory stays flat."""

    def __init__(self, target: str, frames: int, memory: Callable[[], int]) -> None:
        self.target, self.frames, self.memory = target, frames, memory
        self.warm_bytes = 0
        self.begin = time.monotonic()

    def check(self, done: int) -> None:
        """Compares the memory with that after the first part of the frames."""
        size_bytes = self.memory()
        if done <= self.frames // WARM_PART or not self.warm_bytes:
            self.warm_bytes = size_bytes
        grown = size_bytes - self.warm_bytes
        assert grown <= GROWTH_BYTES_MAX, f"memory grew by {grown} bytes after {done} frames"
        rate = done / max(time.monotonic() - self.begin, 0.001)
        facts = f"{rate:.0f} per second, {size_bytes >> 20} MiB, {grown >> 10:+d} KiB"
        print(f"\r{self.target}: {done} frames, {facts} ", end="", file=sys.stderr, flush=True)


def fuzz_server(fuzzer: ClientFuzzer, dice: Random, frames: int) -> None:
    """Fuzzes a session server in this process, in virtual time."""
    with TemporaryDirectory() as directory:
        place = SpillPlace(Path(directory))
        _fuzz_server(fuzzer, dice, frames, FakeDaemon(fuzzer.options, place))
        assert place.size_bytes == 0, "spilled events are left on disk"


def _fuzz_server(fuzzer: ClientFuzzer, dice: Random, frames: int, fake: FakeDaemon) -> None:
    good = GoodSession(fake)
    meter = Meter("server", frames, memory_bytes)
    number, done, next_check = GOOD, 0, CHECK_EVERY
    while done < frames:
        number += 1
        fake.open(number, spread=fuzzer.spread)
        damage = dice.choice((0.0, *fuzzer.damage_shares))
        for data in fuzzer.frames(dice, FuzzedClient(f"eve{number % 50}", number), damage):
            if number not in fake.server.sessions:
                break
            cut = dice.randrange(len(data) + 1)
            fake.say(number, data[:cut])
            fake.say(number, data[cut:])
            if dice.random() < fuzzer.fetch_share:
                fake.fetch(number)
            fake.now_us += FRAME_US
            done += 1
        fake.lose(number)
        fake.closed.pop(number, None)
        fake.ready.clear()
        if done >= next_check:
            next_check += CHECK_EVERY
            fake.step(Tick())
            good.check()
            meter.check(done)
    assert sorted(fake.server.sessions) == [GOOD], "sessions of fuzzed clients are left"
    assert fake.server.slow.pool.size_bytes == 0, "backlogs are not empty"
    good.check()
    check_share(good.others, done, SERVER_SHARE)
    print(f"\nserver: {done} frames of {number} clients; ended: {dict(fake.server.ended)}", file=sys.stderr)


def check_share(received: int, frames: int, share: float) -> None:
    """Checks that enough undamaged frames were accepted."""
    assert received >= frames * share, f"{received} messages came of {frames} frames"


def fuzz_daemon(fuzzer: ClientFuzzer, dice: Random, frames: int) -> None:
    """Fuzzes a daemon over TCP."""
    with TemporaryDirectory() as directory:
        config = local_config({"eu": 1}, base_port=free_base_port(3), spread=fuzzer.spread)
        own = config.daemons[0]
        port = (own.spread_port if fuzzer.spread else own.client_port) or 0
        options = ("--spread-sockets", directory) if fuzzer.spread else ()
        with alone(config, Path(directory), "eu1", *options) as daemon:
            daemon.wait_for_log("size=1")
            meter = Meter("daemon", frames, lambda: memory_bytes(str(daemon.process.pid)))
            with sync.connect(f"hop://127.0.0.1:{own.client_port}", name="good") as good:
                good.join("crowd")
                _fuzz_port(fuzzer, dice, frames, port, good, meter)
            assert daemon.process.poll() is None, daemon.log()
        assert daemon.process.returncode == 0, daemon.log()
    print(f"\ndaemon: {frames} frames", file=sys.stderr)


def _fuzz_port(
    fuzzer: ClientFuzzer, dice: Random, frames: int, port: int, good: sync.Session, meter: Meter
) -> None:
    done, checks, received = 0, 0, 0
    while done < frames:
        with socket.create_connection(("127.0.0.1", port), SECONDS_MAX) as sock:
            name = f"eve{done}"
            client = FuzzedClient(name, 0) if fuzzer.spread else FuzzedClient(name, greet(sock, name), True)
            sent = list(fuzzer.frames(dice, client, dice.choice(fuzzer.damage_shares)))
            try:
                sock.sendall(b"".join(sent))
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(1 << 16):
                    pass
            except OSError:
                pass  # The daemon closed the connection with unread bytes, which is a reset.
            done += len(sent)
        if done // CHECK_EVERY > checks:
            checks = done // CHECK_EVERY
            received += echo(good, checks)
            meter.check(done)
    check_share(received + echo(good, checks + 1), done, DAEMON_SHARE)


def greet(sock: socket.socket, name: str) -> int:
    """Completes a valid native handshake; returns the session's number, which SEND frames contain."""
    core = ClientCore("hop://test", name)
    core.hello()
    sock.sendall(core.output())
    while core.welcome is None:
        chunk = sock.recv(1 << 16)
        assert chunk, "the daemon closed the connection after a valid HELLO"
        core.receive(chunk)
        assert core.ended is None, core.ended
    return core.welcome.session


def echo(good: sync.Session, count: int) -> int:
    """Sends one more message, which must come back; returns how many messages of others came before it."""
    good.multicast("crowd", b"good %d" % count)
    others = 0
    while True:
        event = good.receive(timeout_seconds=SECONDS_MAX)
        if isinstance(event, Message) and event.sender == good.private_group:
            assert event.data == b"good %d" % count, event
            return others
        others += isinstance(event, Message)


def main(fuzzer: ClientFuzzer, module: str) -> None:
    """Reads the command line and fuzzes both targets."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}", description="Fuzzes a server with damaged frames."
    )
    parser.add_argument("--frames", type=int, default=1_000_000, help="for the server in this process")
    parser.add_argument("--socket-frames", type=int, default=50_000, help="for a daemon")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    try:
        fuzz_server(fuzzer, Random(arguments.seed), arguments.frames)
        fuzz_daemon(fuzzer, Random(arguments.seed), arguments.socket_frames)
    except BaseException:
        print(f"\nseed {arguments.seed}", file=sys.stderr)
        raise
