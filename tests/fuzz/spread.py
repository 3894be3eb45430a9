"""Fuzzed Spread clients: handshakes and frames that are nearly right, or not at all.

    python -m tests.fuzz.spread [--frames N] [--socket-frames N] [--seed S]

Against a desk in virtual time and against a daemon by TCP. A well-behaved native session stands beside them
all the time, in a group that they are in too: its messages have to come back, all of them, in their order.
Memory has to stay flat. A failure names the seed.
"""

import argparse
import socket
import subprocess
import sys
from pathlib import Path
from random import Random
from struct import pack, pack_into
from tempfile import TemporaryDirectory
from typing import Final

from tests.fuzz.clients import (
    DAEMON_SHARE,
    DESK_SHARE,
    FRAME_US,
    GOOD,
    LOOK_EVERY,
    SECONDS_MAX,
    Beside,
    Meter,
    enough,
    look_by_tcp,
    memory_bytes,
)
from tests.support.waiting import until
from tests.unit.daemon.free_ports import free_base_port
from tests.unit.session.fake_daemon import FakeDaemon

from hopring import sync
from hopring.config import dump_toml, local_config
from hopring.links.events import Tick
from hopring.session.options import SessionOptions

SMALL: Final = SessionOptions(
    backlog_bytes_max=200_000, backlogs_bytes_max=1_000_000, window_bytes=20_000, spread_messages_max=20
)
GROUPS: Final = (
    *(b"crowd", b"g", b"h", b"#good#eu1", b"#x#y", b"##", b"", b"x" * 31, b"a b"),
    *("grüße".encode(), b"\xe4\xff", b"x" * 32),
)
BITS: Final = (0x1, 0x2, 0x4, 0x8, 0x10, 0x20, 0x50, 0x40000010, 0x00800001, 0x10000, 0x20000)
VERSIONS: Final = ((3, 1), (3, 14), (3, 15, 0), (3, 16, 0), (4, 4, 0), (5, 0, 1), (255, 255, 255))
MARKER: Final = 0x80000080


def frame(dice: Random, name: str) -> bytes:
    """One that a client may say, in either byte order."""
    order = dice.choice("<>")
    marker = MARKER if order == "<" else 0
    word = dice.choice(BITS) if dice.random() < 0.99 else 0x40000
    request = bool(word & 0x70000)
    groups = [dice.choice(GROUPS) for _ in range(1 if request else dice.randrange(4))]
    body = b"" if request else dice.randbytes(dice.choice((0, 1, 40, 1000)))
    head = pack(
        f"{order}I32sIII",
        word | marker,
        name.encode(),
        len(groups),
        marker | dice.randrange(1 << 16) << 8,
        len(body),
    )
    return head + b"".join([one.ljust(32, b"\0") for one in groups]) + body


def wrong(dice: Random, said: bytes) -> bytes:
    """The same, spoiled."""
    data = bytearray(said or b"\0")
    match dice.randrange(7):
        case 0:
            for _ in range(dice.randrange(1, 4)):
                data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        case 1:
            del data[dice.randrange(len(data)) :]
        case 2 if len(data) >= 48:  # Type, groups, hint or size.
            value = dice.choice((0, 1, 101, 143_921, 2**31, 2**32 - 1, dice.getrandbits(32)))
            pack_into(dice.choice("<>") + "I", data, dice.choice((0, 36, 40, 44)), value)
        case 3 if len(data) >= 48:
            data[4:36] = dice.choice((b"#good#eu1".ljust(32, b"\0"), b"x" * 32, bytes(32), dice.randbytes(32)))
        case 4:
            data = bytearray(dice.randbytes(dice.randrange(1, 200)))
        case 5:
            at = dice.randrange(len(data) + 1)
            data[at:at] = dice.randbytes(dice.randrange(1, 9))
        case _ if len(data) > 48:
            data[48:80] = b"\xff" * len(data[48:80])
        case _:
            data *= 2
    return bytes(data)


def handshake(dice: Random, user: str) -> bytes:
    """All that a client says before its frames, most of the time right."""
    version = dice.choice(VERSIONS)
    said = bytes([*version, dice.choice((0, 1, 0x10, 0x11)), len(user)]) + user.encode()
    if version >= (3, 16, 0):
        said += b"NULL".ljust(90, b"\0")
    return wrong(dice, said) if dice.random() < 0.1 else said


def at_the_desk(dice: Random, frames: int) -> None:
    """In this process, with virtual time."""
    front = FakeDaemon(SMALL)
    good = Beside(front)
    meter = Meter("desk", frames, memory_bytes)
    number, done, next_look = GOOD, 0, LOOK_EVERY
    while done < frames:
        number += 1
        user = f"eve{number % 50}"
        front.open(number, spread=True)
        spoiled = dice.choice((0.0, 0.01, 0.3, 1.0))
        for said in [
            handshake(dice, user),
            *[frame(dice, f"#{user}#eu1") for _ in range(dice.randrange(1, 100))],
        ]:
            if number not in front.desk.sessions:
                break
            data = wrong(dice, said) if dice.random() < spoiled else said
            cut = dice.randrange(len(data) + 1)
            front.say(number, data[:cut])
            front.say(number, data[cut:])
            if dice.random() < 0.5:
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


def at_a_daemon(dice: Random, frames: int) -> None:
    """The same by TCP."""
    with TemporaryDirectory() as directory:
        config = local_config({"eu": 1}, base_port=free_base_port(3), spread=True)
        own = config.daemons[0]
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
            daemon = subprocess.Popen([*command, "--spread-sockets", directory], stderr=stderr)
        try:
            until(lambda: "size=1" in log.read_text() or daemon.poll() is not None, log.read_text)
            assert daemon.poll() is None, log.read_text()
            meter = Meter("daemon", frames, lambda: memory_bytes(str(daemon.pid)))
            with sync.connect(f"hop://127.0.0.1:{own.client_port}", name="good") as good:
                good.join("crowd")
                _clients(dice, frames, own.spread_port or 0, good, meter)
            assert daemon.poll() is None, log.read_text()
        finally:
            daemon.terminate()
            assert daemon.wait() == 0, log.read_text()
    print(f"\ndaemon: {frames} frames", file=sys.stderr)


def _clients(dice: Random, frames: int, port: int, good: sync.Session, meter: Meter) -> None:
    done, looked, heard = 0, 0, 0
    while done < frames:
        user = f"e{done}"
        count, spoiled = dice.randrange(1, 100), dice.choice((0.01, 0.3, 1.0))
        said = [handshake(dice, user), *[frame(dice, f"#{user}#eu1") for _ in range(count)]]
        data = b"".join([wrong(dice, one) if dice.random() < spoiled else one for one in said])
        with socket.create_connection(("127.0.0.1", port), SECONDS_MAX) as sock:
            try:
                sock.sendall(data)
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(1 << 16):
                    pass
            except OSError:
                pass  # It had to go, with bytes of it unread.
        done += 1 + count
        if done // LOOK_EVERY > looked:
            looked = done // LOOK_EVERY
            heard += look_by_tcp(good, looked)
            meter.look(done)
    enough(heard + look_by_tcp(good, looked + 1), done, DAEMON_SHARE)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.spread", description="Spoiled Spread clients.")
    parser.add_argument("--frames", type=int, default=1_000_000, help="at a desk")
    parser.add_argument("--socket-frames", type=int, default=50_000, help="at a daemon")
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
