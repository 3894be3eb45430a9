"""A member of the long-haul service in an event loop: session, disk, connections and clock around `WideMember`.

Implements  Makpangou and Birman, 5.1: what the core says is carried out here, in its order.
Below       an asyncio session at a daemon of the cluster, the disk of the log (blocks/log), peer_streams.py.
Above       `hop wide run`, and clusters of this machine.
Invariants  one event is handled at a time. Whatever the core raises ends the process: what is on its disk is a
            state that it was in, and the next process goes on from there.
"""

import asyncio
import os
import random
import socket
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from hopring.blocks.log.disk import LogDisk
from hopring.blocks.log.events import (
    LogMessageShown,
    LogRefused,
    LogSessionLost,
    LogSignalShown,
    LogViewShown,
    RecordsSynced,
    SendToGroup,
    WriteRecords,
)
from hopring.blocks.log.messages import Aside, LogMessage, Operation
from hopring.blocks.log.outbox import SessionOutbox
from hopring.blocks.log.replica import Replica
from hopring.client.aio import Session, connect
from hopring.client.arguments import SECONDS_MAX, Reconnect
from hopring.client.events import Event, Message, Reconnected, Transition, View
from hopring.client.outgoing import checked_groups
from hopring.credentials.daemon_tls import DaemonTls
from hopring.daemon.log import DaemonLog
from hopring.errors import HopError
from hopring.haul.ids import ClusterId
from hopring.haul.link.frames import LinkFrame
from hopring.haul.link.links import LinkOptions
from hopring.haul.member import LOG_NAME, MemberOptions, MemberPlace, WideMember
from hopring.haul.member_events import (
    AnswerClient,
    ConnectionId,
    Dialed,
    DialPeer,
    EndConnection,
    FileChecked,
    FrameArrived,
    HandOver,
    MemberInput,
    MemberOutput,
    PeerConnected,
    PeerConnectionLost,
    SendFrame,
)
from hopring.haul.stored.bodies import BodyKey
from hopring.ids import NEVER, GroupName
from hopring.links.events import Tick
from hopring.spool.errors import SpoolError
from hopring.wide.clusters_file import AccessPoint, ClustersFile, WideCluster
from hopring.wide.disk.member_disk import MemberDisk
from hopring.wide.messages import (
    QUERY_GROUP,
    SERVICE_SESSION,
    ClientAnswer,
    HandedFile,
    HandedItem,
    MessageCutter,
    MessageJoiner,
    encode,
)
from hopring.wide.process.local_groups import LocalGroups
from hopring.wide.process.metrics import MemberPages, metrics_text
from hopring.wide.process.peer_streams import PeerStreams
from hopring.wide.process.queries import MemberQueries
from hopring.wide.process.stored_content import StoredContent

CLIENTS_MAX: Final = 10_000
"""Clients whose private groups are known; the one that was silent for the longest time is forgotten."""

CLOCK_STEP_US: Final = 1_000_000
"""A wall clock that was set by more than this counts from then on."""

JOIN_RETRY_SECONDS: Final = 5.0
FILES: Final = "files"
_TICK_SECONDS_MIN: Final = 0.001


@dataclass(frozen=True, slots=True)
class MemberSetup:
    """What a process is started with."""

    file: ClustersFile
    cluster: WideCluster
    member: str
    state: Path
    urls: tuple[str, ...]
    tls: DaemonTls | None = None
    listen: AccessPoint | None = None  # Instead of the access point of the file.
    credentials: dict[str, Any] = field(default_factory=dict)
    dangerous: bool = False  # Whether tests may cut links.
    cut: frozenset[ClusterId] = frozenset()
    metrics: tuple[str, int] | None = None  # Where the pages are served.
    files: Path | None = None  # Where local groups find files; below the state if it is not said.


class MemberEnded(HopError):
    """This member cannot go on; `setup` says whether another start with other files would help."""

    def __init__(self, reason: str, remedy: str, *, setup: bool) -> None:
        super().__init__(f"{reason}; {remedy}")
        self.reason = reason
        self.remedy = remedy
        self.setup = setup


class MemberProcess:
    """One life of a member of the service."""

    def __init__(self, setup: MemberSetup, log: DaemonLog) -> None:
        self.setup = setup
        self.log = log
        self.name = LOG_NAME  # As the session knows its listeners.
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.started_us = _now_us()
        self.streams = PeerStreams(setup.file, setup.tls, log, self, random.Random())
        self.streams.cut = set(setup.cut)
        self.core: WideMember
        self._log_disk: LogDisk
        self._store: MemberDisk
        self._content: StoredContent
        self._refusal = ""  # What the disk has said last, until it takes something again.
        self._session: Session[bytes]
        self._outbox: SessionOutbox
        self._groups = LocalGroups()
        self._joined: set[str] = set()
        self._cutter = MessageCutter()
        self._joiner = MessageJoiner()
        self._clients: dict[str, str] = {}  # The private group of each, by its name.
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._pages = MemberPages(self._metrics, lambda: self.core.serving)
        self._serving = False
        self._following_up = False

    # Its life.

    async def run(self) -> None:
        """Serves until it is cancelled; MemberEnded, or an error of the session, if it cannot go on."""
        setup = self.setup
        names = setup.cluster.members
        of = setup.state, setup.member, names, setup.files or setup.state / FILES
        self._store = store = await asyncio.to_thread(MemberDisk, *of)
        for path in store.damaged:
            self.log.say("warning", what=f"{path} is damaged: its bodies are asked for at other members")
        self._log_disk = LogDisk(store, self)
        self._content = StoredContent(store, self)
        try:
            replica = Replica(LOG_NAME, setup.member, names, store.image)
            place = MemberPlace(setup.cluster.id, setup.file.peers_of(setup.cluster.name), setup.member, names)
            writer = f"{setup.member}.{os.urandom(8).hex()}"
            self.core = WideMember(place, replica, writer, self._options(), store.contents)
            await self._listen()
            await self._serve()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            for task in list(self._tasks):
                task.cancel()
            self._pages.close()
            await self.streams.close()
            await self._log_disk.close()

    async def _listen(self) -> None:
        """Takes the address for other clusters, and that of the pages; MemberEnded if one cannot be had."""
        setup = self.setup
        at = setup.listen or setup.cluster.access_of(setup.member)
        try:
            self.streams.listen(at)
            if setup.metrics is not None:
                at = AccessPoint(*setup.metrics)
                await self._pages.open(setup.metrics)
        except OSError as error:
            reason = f"cannot listen at {at}: {os.strerror(error.errno or 0)}"
            raise MemberEnded(reason, "end what has the port, or choose another address", setup=False) from None

    def _options(self) -> MemberOptions:
        file, name = self.setup.file, self.setup.cluster.name
        links = LinkOptions(
            wide=file.wide,
            dials=file.dials(name),
            schedules=file.schedules(name),
            wall_offset_us=_wall_us() - _now_us(),
            digests=file.digests(name),
        )
        return MemberOptions(links=links)

    async def _serve(self) -> None:
        name = f"{SERVICE_SESSION}{self.setup.member}"
        reconnect = Reconnect(give_up_seconds=SECONDS_MAX)
        options = {"name": name, "slow": "spill", "reconnect": reconnect, **self.setup.credentials}
        async with connect(self.setup.urls, **options) as session:
            self._session = session
            self._outbox = SessionOutbox(session)
            session._listeners.append(self)
            queries = MemberQueries(self)
            await session.serve(QUERY_GROUP, queries.answer)
            await session.join(LOG_NAME)
            self.streams.accept()
            self.log.say("started", cluster=self.setup.cluster.name, daemon=session.daemon)
            following = asyncio.create_task(self._follow(session))
            try:
                await asyncio.wait([following, self.failed], return_when=asyncio.FIRST_COMPLETED)
                for one in (self.failed, following):
                    if one.done():
                        one.result()
            finally:
                session._listeners.remove(self)
                following.cancel()
                with suppress(asyncio.CancelledError, HopError):
                    await following
                with suppress(HopError):
                    self._outbox.flush()

    def _metrics(self) -> str:
        file = self.setup.file
        return metrics_text(file.wide, self.core.snapshot(), file.name_of, self.streams.refused)

    def fail(self, error: Exception) -> None:
        """Ends the process with an error."""
        if not self.failed.done():
            self.failed.set_exception(error)

    # The session.

    def close(self) -> None:
        """The session has left the members' group."""

    def received(self) -> None:
        """Sends as much as there is room for; called when bytes have arrived."""
        try:
            self._outbox.flush()
        except HopError as error:
            self.fail(error)

    async def _follow(self, session: Session[bytes]) -> None:
        async for event in session:
            self._put(event)

    def _put(self, event: Event) -> None:
        if isinstance(event, Reconnected):
            self._outbox.clear()
            self._joiner.clear()
            self._content.restart()
            self._step(LogSessionLost())
            for lost in self._groups.restart():
                self._step(lost)
        elif isinstance(event, Message):
            self._message(event)
        elif isinstance(event, View | Transition):
            self._view(event)

    def _message(self, message: Message) -> None:
        group = message.groups[0]
        if group == LOG_NAME:
            shown = self._joiner.take(message.sender, message.data)
            if isinstance(shown, Operation):
                self._note_client(shown.writer, message.sender)
            if isinstance(shown, Aside) and self._store.is_behind:
                return  # What is missing is asked for again.
            if shown is not None:
                self._step(LogMessageShown(message.sender, shown))
        elif message.sender == self._session.private_group:
            seen = self._groups.seen(group, message)
            if seen is not None:
                self._step(seen)

    def _view(self, event: View | Transition) -> None:
        if event.group == LOG_NAME:
            self._joiner.clear()
            shown = LogViewShown(event, self._session.private_group) if isinstance(event, View) else None
            self._step(shown or LogSignalShown())
        else:
            changed = self._groups.take(event)
            if changed is not None:
                self._step(changed)

    def _note_client(self, client: str, private_group: str) -> None:
        self._clients.pop(client, None)
        self._clients[client] = private_group
        if len(self._clients) > CLIENTS_MAX:
            del self._clients[next(iter(self._clients))]

    def send(self, group: str, body: bytes) -> None:
        """Sends a message when there is room."""
        self._outbox.append(checked_groups((group,))[0], body)

    def _look_at_groups(self) -> None:
        """Is in the local group of each set, where it sees who is there, and its copies."""
        wanted = {one.group for one in self.core.app.sets.values() if one.group} - {LOG_NAME}
        for group in wanted - self._joined:
            self._joined.add(group)
            self._run(self._join(group))

    async def _join(self, group: str) -> None:
        try:
            await self._session.join(group)
        except HopError as error:
            self.log.say("warning", what=f"cannot join the local group {group}: {error}")
            await asyncio.sleep(JOIN_RETRY_SECONDS)
            self._joined.discard(group)

    # The core.

    def _step(self, event: MemberInput) -> None:
        try:
            outputs = self.core.step(event, _now_us())
            for output in outputs:
                self._carry_out(output)
        except (SpoolError, OSError) as error:
            self.disk_lost(str(error))
            return
        except Exception as error:  # Whatever it is, the state may be wrong from here on.
            self.fail(error)
            return
        self._follow_up_soon()

    def _follow_up_soon(self) -> None:
        if not self._following_up:
            self._following_up = True
            asyncio.get_running_loop().call_soon(self._follow_up)

    def _follow_up(self) -> None:
        """After all steps of one turn of the loop: what is needed once for all of them."""
        self._following_up = False
        self._look_at_groups()
        self.received()
        self._note_serving()
        self._set_timer()

    def _carry_out(self, output: MemberOutput) -> None:
        match output:
            case SendToGroup(message):
                self.multicast_members(message)
            case WriteRecords(records):
                self._log_disk.write(records)
            case DialPeer(peer):
                self._run(self._dial(peer))
            case SendFrame(connection, frame):
                self.streams.send(connection, frame)
            case EndConnection(connection, reason):
                self.log.say("link_ended", connection=connection, reason=reason)
                self.streams.end(connection)
            case AnswerClient(client, number, answer):
                if client in self._clients:
                    self.send(self._clients[client], encode(ClientAnswer(client, number, answer)))
            case LogRefused(reason, remedy):
                self.fail(
                    MemberEnded(f"the log of cluster {self.setup.cluster.name}: {reason}", remedy, setup=True)
                )
            case _:
                self._content.carry_out(output)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wake_at_us = self.core.wake_at_us
        if wake_at_us != NEVER:
            seconds = max(_TICK_SECONDS_MIN, (wake_at_us - _now_us()) / 1_000_000)
            self._timer = asyncio.get_running_loop().call_later(min(seconds, 3_600.0), self._tick)

    def _tick(self) -> None:
        options = self.core.links.options
        offset_us = _wall_us() - _now_us()
        if abs(offset_us - options.wall_offset_us) > CLOCK_STEP_US:
            self.log.say("warning", what="the clock of this host was set: schedules follow it")
            self.core.links.options = replace(options, wall_offset_us=offset_us)
        self._step(Tick())

    def _note_serving(self) -> None:
        if self.core.serving != self._serving:
            self._serving = self.core.serving
            self.log.say("serving" if self._serving else "not_serving", epoch=self.core.app.epoch)

    def _run(self, coroutine: Any) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error if isinstance(error, Exception) else RuntimeError(repr(error)))

    # Connections.

    async def _dial(self, peer: ClusterId) -> None:
        connection = await self.streams.dial(peer)
        self._step(Dialed(peer, connection))
        if connection is not None:
            self.streams.known(connection)

    def peer_connected(self, connection: ConnectionId) -> None:
        """Another cluster has connected to this process."""
        self._step(PeerConnected(connection))

    def frame_arrived(self, connection: ConnectionId, frame: LinkFrame) -> None:
        """A frame of a connection."""
        self._step(FrameArrived(connection, frame))

    def connection_lost(self, connection: ConnectionId) -> None:
        """One of the connections has ended."""
        self.log.say("link_lost", connection=connection)
        self._step(PeerConnectionLost(connection))

    # The disk, and what is on it.

    def synced(self) -> None:
        """The records that were given to the disk are on it."""
        self._refusal = ""
        self._step(RecordsSynced())

    def disk_refuses(self, reason: str) -> None:
        """The disk does not take something now: it is tried again, and said once."""
        if reason != self._refusal:
            self._refusal = reason
            self.log.say("warning", what=f"the disk refuses: {reason}")

    def send_frame(self, connection: ConnectionId, frame: LinkFrame) -> None:
        """Sends a frame to a peer."""
        self.streams.send(connection, frame)

    def multicast_members(self, message: LogMessage) -> None:
        """Multicasts a message to the members."""
        for body in self._cutter.cut(message):
            self._outbox.append(GroupName(LOG_NAME), body)

    def hand(self, output: HandOver, path: Path | None) -> None:
        """Multicasts an item to its local group; `path` is where its file is."""
        self.send(output.group, encode(handed_item(output, path)))
        self._follow_up_soon()

    def body(self, key: BodyKey) -> bytes:
        """A body from the disk; a disk that does not give it ends the process."""
        try:
            return self._store.body(key)
        except (SpoolError, OSError) as error:
            self.disk_lost(str(error))
            raise MemberEnded(str(error), "start this member again", setup=False) from error

    def file_checked(self, checked: FileChecked) -> None:
        """The content of a file was compared with its digest."""
        self._step(checked)

    def run_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Runs a task that ends with this process."""
        self._run(coroutine)

    def disk_lost(self, reason: str) -> None:
        """It is not known what the disk has: another process reads what is there."""
        self.fail(MemberEnded(reason, "start this member again", setup=False))


def handed_item(hand: HandOver, path: Path | None = None) -> HandedItem:
    """An item as the local group gets it; `path` is where its file is on this host."""
    item, file = hand.item, hand.item.file
    head = hand.set, item.number, hand.rewinds
    if item.parcel is None:
        assert item.everywhere is not None, "one of both"
        sent = None if file is None else HandedFile(file.size_bytes, file.digest, source=file.source)
        return HandedItem(*head, item.everywhere.sender, item.everywhere.number, True, file=sent)
    came: HandedFile | None = None
    if file is not None:
        at = "" if path is None else str(path.absolute())
        came = HandedFile(file.size_bytes, file.digest, at, socket.gethostname())
    parcel = item.parcel
    return HandedItem(
        *head,
        cluster=parcel.id.sender,
        parcel=parcel.id.number,
        everywhere=False,
        participants=parcel.talk.participants,
        talk=parcel.talk.name,
        kind=parcel.kind,
        destinations=parcel.destinations,
        entry=parcel.entry,
        order=parcel.order,
        body=hand.body,
        file=came,
    )


def _now_us() -> int:
    return time.monotonic_ns() // 1_000


def _wall_us() -> int:
    return time.time_ns() // 1_000
