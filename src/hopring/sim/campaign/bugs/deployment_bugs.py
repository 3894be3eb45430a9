"""Planted bugs of what only a deployment has: sockets, the library of clients, files, the daemon's process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from hopring.client.connection import DaemonConnection
from hopring.client.receiving.stream import EventStream
from hopring.daemon.clients.connection import ClientConnection
from hopring.daemon.clients.server import ClientServer
from hopring.daemon.net.tcp import TcpConnection
from hopring.daemon.process.counter_file import CounterFile
from hopring.sim.campaign.bugs.planting import Bug, deployment_bug
from hopring.system.kernel import kernel


def _whole_piece(forget: Callable[[ClientConnection, int], None]) -> Any:
    del forget

    def forget_pieces(self: ClientConnection, size: int) -> None:
        left = size
        while left > 0:
            left -= len(self._out.popleft())

    return forget_pieces


def _never_lost(lost: Callable[[ClientServer, int], None]) -> Any:
    del lost
    return lambda _self, _number: None


def _never_credited(credit: Callable[[DaemonConnection, int], None]) -> Any:
    del credit
    return lambda _self, _size: None


def _window_forgotten(apply: Callable[..., None]) -> Any:
    del apply
    return lambda _self, _credit: None


def _from_zero(read: Callable[[CounterFile], int]) -> Any:
    del read
    return lambda _self: 0


def _not_synced(replace: Callable[[Path, bytes], None]) -> Any:
    del replace

    def replace_without_sync(path: Path, content: bytes) -> None:
        files = kernel().files
        beside = path.with_name(f"{path.name}.new")
        file = files.open(beside, 0o1001 | 0o100)
        files.write(file, content)
        files.close(file)
        files.replace(beside, path)

    return replace_without_sync


def _half_written(forget: Callable[[TcpConnection, int], None]) -> Any:
    del forget

    def forget_pieces(self: TcpConnection, size: int) -> None:
        self._out_bytes -= size
        left = size
        while left > 0:
            left -= len(self._out.popleft())

    return forget_pieces


def _newest_first(take: Callable[[EventStream, str | None], Any]) -> Any:
    def skip_one(self: EventStream, group: str | None = None) -> Any:
        taken = take(self, group)
        return take(self, group) if taken is not None and len(self.entries) > 8 else taken

    return skip_one


BUGS: Final[tuple[Bug, ...]] = (
    deployment_bug(
        "rest-of-write-lost",
        "property 2.7",
        "what the kernel did not take of a piece for a client is not sent later",
        ("hopring.daemon.clients.connection:ClientConnection._forget", _whole_piece),
    ),
    deployment_bug(
        "rest-of-link-lost",
        "property 2.7",
        "what the kernel did not take of a piece for a link is not sent later",
        ("hopring.daemon.net.tcp:TcpConnection._forget", _half_written),
    ),
    deployment_bug(
        "lost-client-kept",
        "property 2.16",
        "the end of a client's connection does not end its session",
        ("hopring.daemon.clients.server:ClientServer.lost", _never_lost),
    ),
    deployment_bug(
        "window-never-opens",
        "property 2.17",
        "the library tells its daemon of no event that was taken",
        ("hopring.client.connection:DaemonConnection.credit", _never_credited),
    ),
    deployment_bug(
        "credit-ignored",
        "property 2.17",
        "the session server does not count the events that a client has taken",
        ("hopring.session.session:ConnectedSession.apply_credit", _window_forgotten),
    ),
    deployment_bug(
        "event-skipped",
        "property 2.7",
        "the library loses an event where many wait",
        ("hopring.client.receiving.stream:EventStream.take", _newest_first),
    ),
    deployment_bug(
        "counter-not-read",
        "property 2.3",
        "a daemon does not read the view counter of its earlier process",
        ("hopring.daemon.process.counter_file:CounterFile._read", _from_zero),
    ),
    deployment_bug(
        "counter-not-synced",
        "property 2.3",
        "a daemon's files are not synced, and are torn when its machine loses power",
        ("hopring.daemon.process.counter_file:replace_file", _not_synced),
    ),
)
