"""The peers of `local_peers`: their URLs, admin sockets and traces, and the faults between them.

Each peer is a process of its own that `connect` starts for its session. Calls may come from any thread.
"""

import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import IO, Any, Final

import msgspec

from hopring.check.rmp.peer_events import PeerEvent, RingStayEnded
from hopring.check.rmp.peer_trace import (
    NONCE_SIGN,
    PeerTraceError,
    PeerTraceRow,
    peer_histories,
    read_peer_rows,
)
from hopring.client.events import Quorum
from hopring.errors import HopError
from hopring.local.ports import ReservedPorts

PEERS_MAX: Final = 64
ANSWER_SECONDS: Final = 20.0
"""Long, because a process may not run for a while on a busy machine."""

_READ_BYTES: Final = 1 << 16

PeerNames = str | Collection[str]
"""A peer, or several."""


class PeersError(HopError, RuntimeError):
    """A peer does not answer, or there is none of this name."""

    def __init__(self, peer: str, problem: str) -> None:
        super().__init__(f"peer {peer} {problem}")
        self.peer = peer
        self.problem = problem


class PeerProcesses:
    """All peers of a block."""

    def __init__(
        self, count: int, minimum: int | Quorum, directory: Path | None, tracing: bool, more: str = ""
    ) -> None:
        """Starts nothing: a peer begins with its session. `more` is put behind each URL."""
        if not 1 <= count <= PEERS_MAX:
            raise ValueError(f"{count} peers; choose 1 to {PEERS_MAX}")
        self._lock = RLock()
        # Sockets want short paths, so they are never in the user's own directory.
        self._run = Path(tempfile.mkdtemp(prefix="hop-"))
        self.directory = self._run if directory is None else directory
        self.directory.mkdir(parents=True, exist_ok=True)
        self.names = tuple([f"p{number}" for number in range(1, count + 1)])
        self._minimum, self._tracing, self._more = minimum, tracing, more
        self._domain = f"local-{os.getpid()}-{self._run.name}"
        self._ports = ReservedPorts(count)
        self._places = {name: f"127.0.0.1:{self._ports.base + at}" for at, name in enumerate(self.names)}
        self._sides: list[frozenset[str]] = [frozenset(self.names)]

    def url(self, name: str) -> str:
        """The URL of a peer, for one session at a time; the first one founds rings of a majority, or of all."""
        minimum = self._minimum.value if isinstance(self._minimum, Quorum) else self._minimum
        parts = [f"host=process&minimum={minimum}&admin={self.admin_socket(name)}"]
        if name == self.names[0] and isinstance(self._minimum, Quorum):
            parts.append("found=yes")
        if self._tracing:
            parts.append(f"trace={self.trace_file(name).absolute()}")
        return f"rmp://{self._places[self._known(name)]}/{self._domain}?{'&'.join(parts)}{self._more}"

    def admin_socket(self, name: str) -> Path:
        """The admin socket of a peer."""
        return self._run / f"{self._known(name)}.admin"

    def trace_file(self, name: str) -> Path:
        """The trace of a peer."""
        return self.directory / f"{self._known(name)}.jsonl"

    @property
    def living(self) -> tuple[str, ...]:
        """The peers that answer at their admin sockets."""
        return tuple([name for name in self.names if self._reaches(name)])

    def _reaches(self, name: str) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            return probe.connect_ex(str(self.admin_socket(name))) == 0

    def _known(self, name: str) -> str:
        if name not in self._places:
            raise PeersError(name, f"does not exist; there are {' '.join(self.names)}")
        return name

    # Faults.

    def partition(self, sides: Sequence[PeerNames]) -> None:
        """Cuts all traffic between sides; those that are not named form one more."""
        named = [frozenset([one] if isinstance(one, str) else one) for one in sides]
        for name in [name for side in named for name in side]:
            self._known(name)
        rest = frozenset(self.names) - frozenset[str]().union(*named)
        with self._lock:
            self._sides = [side for side in (*named, rest) if side]
            for name in self.living:
                self.apply(name)

    def apply(self, name: str) -> None:
        """Tells a peer, which has just begun, whom it does not reach."""
        side = next(side for side in self._sides if name in side)
        others = [self._places[other] for other in self.names if other not in side]
        self.ask(name, verb="cut", peers=others)

    def crash(self, name: str) -> None:
        """Kills a peer, which tells the others nothing, and writes its end into its trace."""
        with self._lock:
            status = self.status(name)
            os.kill(status["pid"], signal.SIGKILL)
            end = time.monotonic() + ANSWER_SECONDS
            while self._reaches(name):
                if time.monotonic() >= end:
                    raise PeersError(name, "does not end")
                time.sleep(0.001)
            if self._tracing:
                note_crash(self.trace_file(name), status)

    def close(self) -> None:
        """Kills the peers that are left, and removes temporary files."""
        with self._lock:
            for name in self.living:
                with suppress(PeersError, OSError):
                    os.kill(self.status(name)["pid"], signal.SIGKILL)
            self._ports.release()
            shutil.rmtree(self._run, ignore_errors=True)

    # What peers say.

    def status(self, name: str) -> dict[str, Any]:
        """The status of a peer: its process, its groups, its counters."""
        return self.ask(name, verb="status")

    def ask(self, name: str, **request: object) -> dict[str, Any]:
        """Sends a request to the admin socket of a peer."""
        try:
            answer: dict[str, Any] = msgspec.json.decode(ask_peer(self.admin_socket(name), request))
        except (OSError, msgspec.DecodeError) as error:
            raise PeersError(name, f"does not answer ({error})") from None
        if "error" in answer:
            raise PeersError(name, f"refuses: {answer['error']}")
        return answer

    def histories(self) -> dict[str, list[PeerEvent]]:
        """What all peers have written so far, by group, as `check.rmp` judges it."""
        places = {place: name for name, place in self._places.items()}
        return peer_histories(self._rows(), places)

    def _rows(self) -> Iterator[PeerTraceRow]:
        if not self._tracing:
            raise PeerTraceError("there are no traces: trace=False")
        for name in self.names:
            if self.trace_file(name).exists():
                with self.trace_file(name).open("rb") as file:
                    yield from read_peer_rows(file)


def ask_peer(path: Path, request: object) -> bytes:
    """One request to an admin socket of a peer, and its answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(ANSWER_SECONDS)
        channel.connect(str(path))
        channel.sendall(msgspec.json.encode(request) + b"\n")
        heard = b""
        while not heard.endswith(b"\n"):
            chunk = channel.recv(_READ_BYTES)
            if not chunk:
                raise ConnectionError("the channel was closed")
            heard += chunk
    return heard


def note_crash(trace_file: Path, status: dict[str, Any]) -> None:
    """Writes the end of a peer that was killed into its trace; `status` is its last one."""
    process = f"{status['process']}{NONCE_SIGN}{status['incarnation']:016x}"
    with trace_file.open("ab+") as file:
        _cut_torn_end(file)
        for ring in status["groups"]:
            if ring["phase"] == "in":
                ended = RingStayEnded(process, time.monotonic_ns() // 1_000, "crash")
                row = PeerTraceRow(ring["group"], "RingStayEnded", msgspec.to_builtins(ended))
                file.write(msgspec.json.encode(row) + b"\n")


def _cut_torn_end(file: IO[bytes]) -> None:
    """Removes a line that the kill has cut off."""
    file.seek(0)
    text = file.read()
    file.truncate(text.rfind(b"\n") + 1)
    file.seek(0, os.SEEK_END)
