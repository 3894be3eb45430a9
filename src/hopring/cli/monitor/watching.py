"""Events of daemons by their admin sockets: those that are kept, and those that come."""

import select
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from hopring.cli.monitor.admin_client import NoAdminReply
from hopring.cli.monitor.event_lines import seconds_of

ANSWER_BYTES_MAX: Final = 8 << 20
"""A daemon that sends more than this without an end of line, or in answer to one request, is none."""

NEW_ONLY: Final = 2**53
"""Behind this number there are no events, so only those come that are new."""

_READ_BYTES: Final = 1 << 16


@dataclass(slots=True)
class WatchedDaemon:
    """A connection that gets the events of one daemon."""

    path: Path
    channel: socket.socket
    name: str = ""
    clock_s: float = 0.0  # The daemon's clock minus ours, and by how much that may be wrong.
    clock_error_s: float = 0.0
    last: int = 0  # The newest event when the watch began.
    lines: list[bytes] = field(default_factory=list)  # Complete, and not fetched yet.
    torn: bytes = b""
    ended: bool = False

    def receive(self) -> None:
        """Reads what is there; NoAdminReply if it cannot be a daemon."""
        try:
            chunk = self.channel.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise NoAdminReply(error.strerror or str(error)) from None
        self.ended = not chunk
        *lines, self.torn = (self.torn + chunk).split(b"\n")
        self.lines += lines
        if len(self.torn) > ANSWER_BYTES_MAX:
            raise NoAdminReply("what answers is no daemon (a line without end)")

    def fetch(self) -> list[bytes]:
        """The lines that have come since the last call."""
        lines, self.lines = self.lines, []
        return lines


def begin_watch(path: Path, seconds: float, after: int = 0) -> WatchedDaemon:
    """Asks a daemon for its events; raises NoAdminReply if it does not answer, or refuses."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    watched = WatchedDaemon(path, channel)
    try:
        channel.settimeout(seconds)
        channel.connect(str(path))
        asked_s = time.time()
        channel.sendall(msgspec.json.encode({"verb": "watch", "after": after}) + b"\n")
        _take_answer(watched, time.monotonic() + seconds, asked_s)
        channel.setblocking(False)
    except TimeoutError:
        channel.close()
        raise NoAdminReply(f"no answer within {seconds:g} s") from None
    except OSError as error:
        channel.close()
        raise NoAdminReply(error.strerror or str(error)) from None
    except NoAdminReply:
        channel.close()
        raise
    return watched


def _take_answer(watched: WatchedDaemon, until_s: float, asked_s: float) -> None:
    while not watched.lines:
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        watched.channel.settimeout(left_s)
        watched.receive()
        if watched.ended and not watched.lines:
            raise NoAdminReply("the daemon closed the channel")
    answered_s = time.time()
    try:
        answer = msgspec.json.decode(watched.lines.pop(0), type=dict[str, Any])
        if answer.get("ok") is not True:
            raise NoAdminReply(f"{answer.get('error', 'refused')}; {answer.get('remedy', '')}")
        result: Mapping[str, Any] = answer["result"]
        watched.name, watched.last = str(result["daemon"]), int(result["last"])
        theirs_s = seconds_of(str(result["time"]))
        if theirs_s is None:
            raise ValueError("no time")
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, KeyError, TypeError):
        raise NoAdminReply("what answers is no daemon, or one of another version") from None
    watched.clock_s = theirs_s - (asked_s + answered_s) / 2
    watched.clock_error_s = (answered_s - asked_s) / 2


def kept_events(path: Path, seconds: float) -> tuple[WatchedDaemon, list[bytes]]:
    """All events that a daemon keeps, as lines; raises NoAdminReply."""
    watched = begin_watch(path, seconds)
    until_s, lines, size = time.monotonic() + seconds, list[bytes](), 0
    try:
        while watched.last:
            lines += (fresh := watched.fetch())
            size += sum(map(len, fresh))
            if size > ANSWER_BYTES_MAX:
                raise NoAdminReply("what answers is no daemon (more events than a daemon keeps)")
            if watched.ended or (lines and _number(lines[-1]) >= watched.last):
                break
            left_s = until_s - time.monotonic()
            if left_s <= 0 or not select.select([watched.channel], [], [], left_s)[0]:
                break  # A part is better than nothing.
            watched.receive()
    finally:
        watched.channel.close()
    return watched, lines


def coming_events(watched: list[WatchedDaemon]) -> Iterator[tuple[WatchedDaemon, bytes]]:
    """The events of these daemons as they come, until all of them have ended."""
    while True:
        for one in watched:
            for line in one.fetch():
                yield one, line
        living = [one for one in watched if not one.ended]
        if not living:
            return
        for channel in select.select([one.channel for one in living], [], [])[0]:
            one = next(one for one in living if one.channel is channel)
            try:
                one.receive()
            except NoAdminReply:
                one.ended = True


def _number(line: bytes) -> int:
    try:
        seq = msgspec.json.decode(line, type=dict[str, Any]).get("seq")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return 0
    return seq if isinstance(seq, int) else 0
