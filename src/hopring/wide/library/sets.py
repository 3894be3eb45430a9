"""Sets and conversations for asyncio: multicasts to clusters, and the one stream of events of a set.

    async with connect(name="vendor") as session, wide.join(session, "tickets") as tickets:
        receipt = await tickets.cbcast(b"3 left")
        await receipt.everywhere()
        async for event in tickets: ...

Each set that is joined has two sessions of its own beside that of the program: one in the local group of the
set, from which events are taken, and one for requests and their answers.
"""

import math
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hopring.client.aio import Session
from hopring.client.arguments import check_flag, check_number, check_seconds, got
from hopring.client.errors import MessageTooLarge, WrongType, WrongValue
from hopring.client.events import Event, Message, Reconnected, View
from hopring.client.outgoing import checked_plain_group
from hopring.haul.calls import CALL_NAME_BYTES_MAX, UNNAMED
from hopring.haul.entries import CastRequest, DoneRequest, SetJoinRequest, SwitchRequest
from hopring.haul.ids import SET_NAME_BYTES_MAX, TALK_NAME_BYTES_MAX, ClusterId, ClusterMask
from hopring.haul.link.frames import WideFile
from hopring.haul.order.events import CastKind
from hopring.haul.order.wide_set import ENTRY_MAX
from hopring.wide.errors import FileRefused, NotAnswered
from hopring.wide.library.events import (
    Completed,
    WideAnswer,
    WideEvent,
    WideGap,
    WideId,
    WideMessage,
    WideReceipt,
)
from hopring.wide.library.files import ATTEMPTS, FileTaking, ReceivedFile, SentFile, sent_file
from hopring.wide.library.service import WideService, beside
from hopring.wide.messages import (
    DATA_BYTES_MAX,
    SERVICE_SESSION,
    CastBody,
    HandedItem,
    decode_body,
    decode_item,
    encode,
)

JOIN_SECONDS = 30.0
"""How long a join waits for a majority of the members."""


class WideConversation:
    """Participants of a set, and the messages among them: in causal order, abcasts in one order besides."""

    def __init__(self, service: WideService, name: str, clusters: tuple[str, ...], talk: str) -> None:
        """Called by `conversation`; no clusters are all of the set."""
        self.set = name
        self.clusters = clusters
        self.name = talk
        self._service = service
        self._participants = service.mask(clusters)

    async def cbcast(
        self,
        data: bytes,
        *,
        to: str | None = None,
        entry: int = 0,
        notify: bool = False,
        timeout_seconds: float | None = None,
    ) -> WideReceipt:
        """Sends a message to all participants, or to one cluster; returns when it is accepted.

        Each gets it behind all messages of this conversation that its cluster had sent or got. With `notify`
        the group of the set here gets a `Completed` when all have it. NotAcceptedYet and NoWideQuorum say that
        it has no answer in time; it is repeated meanwhile.
        """
        return await self._cast(data, CastKind.CBCAST, to, entry, notify, timeout_seconds)

    async def abcast(
        self,
        data: bytes,
        *,
        entry: int = 0,
        notify: bool = False,
        timeout_seconds: float | None = None,
    ) -> WideReceipt:
        """Sends a message to all participants, in one order with all other abcasts of the conversation.

        It waits while the participant with the smallest number is cut off.
        """
        return await self._cast(data, CastKind.ABCAST, None, entry, notify, timeout_seconds)

    async def send_file(
        self,
        path: Path | str,
        data: bytes = b"",
        *,
        name: str | None = None,
        to: str | None = None,
        abcast: bool = False,
        entry: int = 0,
        notify: bool = True,
        delete_source: bool = False,
        timeout_seconds: float | None = None,
    ) -> WideReceipt:
        """Sends a file with a message to all participants, or to one; returns when both are accepted.

        The file is on the disks of a majority here then, and the source is not needed any more. Each receiver
        finds it at `name` in the directory of the set, or at a place that is chosen: `message.file.path`. With
        `notify` the group of the set here gets a `Completed` with this file when all have it. `delete_source`:
        `everywhere` of the receipt deletes the source then, or `Completed.file.delete_source()` of whoever is
        there. FileRefused for a file that cannot be read, that changes meanwhile, or with a name that leaves
        the directory. What was taken in before a loss is not brought again.
        """
        if not isinstance(path, str | Path):
            raise WrongType("path", got(path), "give the path of a file")
        if not isinstance(name, str | None):
            raise WrongType("name", got(name), "give a relative name, or None")
        for flag, value in (("abcast", abcast), ("delete_source", delete_source)):
            check_flag(flag, value)
        if abcast and to is not None:
            raise WrongValue("to", "an abcast goes to all participants", "leave it out")
        check_cast(data, entry, notify, timeout_seconds)
        ends = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
        kind = CastKind.ABCAST if abcast else CastKind.CBCAST

        def left() -> float | None:
            return None if timeout_seconds is None else max(0.0, ends - time.monotonic())

        taking = FileTaking(self._service, path, name, deletes=delete_source)
        for attempt in range(1, ATTEMPTS + 1):
            file = await taking.take(left)
            try:
                return await self._cast(data, kind, to, entry, notify, left(), file)
            except FileRefused:
                # Somebody else has sent the same content, and all had it just now.
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError("not reached")

    async def request(
        self,
        data: bytes,
        *,
        to: str,
        call: str | None = None,
        entry: int = 0,
        timeout_seconds: float | None = None,
    ) -> WideAnswer:
        """Sends a message to one cluster and waits for its answer, which comes though either side crashes.

        A `call` has a name, unique in this set and cluster: a program that asks again by the same name, also
        after a crash, asks once, and gets the answer until it says `done`. Without a name nothing is kept when
        this returns, or is given up. NotAnswered after the time.
        """
        check_cast(data, entry, False, timeout_seconds)
        name = f"{UNNAMED}{os.urandom(12).hex()}" if call is None else checked_call(call)
        cluster = self._service.number_of(to)
        ends = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds

        def left() -> float | None:
            return None if timeout_seconds is None else max(0.0, ends - time.monotonic())

        try:
            body = encode(CastBody(self._service.sender, data, name))
            of = CastKind.CBCAST, entry, cluster, body, False, None, "", name
            await self._submit(of, left())
            try:
                found = await self._service.until_answered(self.set, name, left())
            except TimeoutError:
                raise NotAnswered(name, to, timeout_seconds or 0.0) from None
        except BaseException:
            if call is None:
                self._service.forget_call(self.set, name)
            raise
        answer = WideAnswer(name, to, found.sender, found.data, self)
        if call is None:
            self._service.forget_call(self.set, name)
        return answer

    async def answer(
        self, message: WideMessage, data: bytes, *, timeout_seconds: float | None = None
    ) -> WideReceipt:
        """Answers a call that came as a message; returns when the answer is accepted.

        Of several answers to a call the first one counts.
        """
        check_cast(data, 0, False, timeout_seconds)
        if not isinstance(message, WideMessage):
            raise WrongType("message", got(message), "give a message that is a call")
        if not message.call or message.set != self.set:
            raise WrongValue("message", "no call of this set", "answer messages that have a `call`")
        service = self._service
        talk = WideConversation(service, self.set, message.clusters, message.conversation)
        body = encode(CastBody(service.sender, data))
        to = service.number_of(message.id.cluster)
        of = CastKind.CBCAST, 0, to, body, False, None, "", "", message.id.number
        return await talk._submit(of, timeout_seconds)

    async def end_call(self, call: str, *, timeout_seconds: float | None = None) -> None:
        """Has done with a call, answered or not; of one that is not open nothing is to be done."""
        await self._service.end_call(self.set, checked_call(call), timeout_seconds)

    async def _cast(
        self,
        data: bytes,
        kind: CastKind,
        to: str | None,
        entry: int,
        notify: bool,
        timeout_seconds: float | None,
        file: tuple[WideFile, SentFile] | None = None,
    ) -> WideReceipt:
        check_cast(data, entry, notify, timeout_seconds)
        service = self._service
        cluster = ClusterId(0) if to is None else service.number_of(to)
        of = kind, entry, cluster, encode(CastBody(service.sender, data)), notify
        if file is None:
            return await self._submit(of, timeout_seconds)
        return await self._submit((*of, file[0], file[1].source()), timeout_seconds, file[1])

    async def _submit(
        self, of: tuple[Any, ...], timeout_seconds: float | None, sent: SentFile | None = None
    ) -> WideReceipt:
        """A cast with these fields, from its kind on."""

        def make(client: str, number: int, known: int) -> CastRequest:
            return CastRequest(client, number, known, self.set, self._participants, self.name, *of)

        accepted = await self._service.request(f"a message to {self.set}", make, timeout_seconds)
        assert accepted.parcel is not None, "the answer to a message"
        return WideReceipt(self.set, WideId(self._service.cluster, accepted.parcel.number), self._service, sent)


class WideSender(WideConversation):
    """A set to which a program sends without being its local representative."""

    def __init__(self, session: Session[Any], name: str) -> None:
        """Called by `sender` and `join`; use it as `async with`."""
        self._program = session
        check_set_name(name)
        super().__init__(WideService(session), name, (), "")

    def conversation(self, *clusters: str, name: str = "") -> WideConversation:
        """A conversation of these clusters, of which this one has to be one; without any: of all of the set.

        The same clusters, and name, are the same conversation, wherever it is named.
        """
        if not isinstance(name, str) or len(name.encode(errors="replace")) > TALK_NAME_BYTES_MAX:
            raise WrongValue("name", "too long, or no text", f"give at most {TALK_NAME_BYTES_MAX} bytes")
        return WideConversation(self._service, self.set, clusters, name)

    @property
    def cluster(self) -> str:
        """The cluster in which this program is."""
        return self._service.cluster

    async def __aenter__(self) -> Self:
        await self._service.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._service.close()


class JoinedSet(WideSender):
    """A set whose local representative the program is, as one of perhaps several members of its local group."""

    def __init__(
        self,
        session: Session[Any],
        name: str,
        group: str | None,
        clusters: Sequence[str] | None,
        durable: str | None,
        timeout_seconds: float,
    ) -> None:
        super().__init__(session, name)
        self.group = name if group is None else group
        checked_plain_group(self.group)
        if isinstance(clusters, str) or (
            clusters is not None and not all(isinstance(one, str) for one in clusters)
        ):
            raise WrongType("clusters", "not names", "give a list of names of clusters")
        check_seconds("timeout_seconds", timeout_seconds, forever=False, above_zero=True)
        self.durable = durable
        self.last = 0
        """The delivery number of the last item that this session got."""
        self._named = None if clusters is None else tuple(clusters)
        self._seconds = timeout_seconds
        self._session: Session[bytes]
        self._ready: deque[WideEvent] = deque()
        self._begins = -1  # The rewinds from which on a durable consumer takes items.
        self._all = ClusterMask(0)

    async def __aenter__(self) -> Self:
        """Joins the local group, and names it to the service, which hands over what waited."""
        await self._service.open()
        try:
            self._session = await beside(self._program, membership=True)
            try:
                names = tuple(self._service.ids) if self._named is None else self._named
                self._all = self._service.mask(names)
                await self._session.join(self.group)
                await self._begin(self._seconds)
            except BaseException:
                self._session.abort()
                raise
        except BaseException:
            await self._service.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._session.ended is None:
                await self._session.close()
            else:
                self._session.abort()
        finally:
            await self._service.close()

    async def _begin(self, timeout_seconds: float | None) -> None:
        """Names the local group; a durable consumer learns where it begins."""

        def make(client: str, number: int, known: int) -> SetJoinRequest:
            of = client, number, known, self.set, self.group, self._all
            return SetJoinRequest(*of, self.durable or "")

        accepted = await self._service.request(f"the set {self.set}", make, timeout_seconds)
        if self.durable:
            self._begins, self.last = accepted.rewinds, max(self.last, accepted.done)

    # Events.

    async def receive(self) -> WideEvent:
        """The next event of the set; SessionClosed if none can arrive."""
        while not self._ready:
            self._ready += await self._put(await self._session.receive())
        return self._ready.popleft()

    async def __aiter__(self) -> AsyncIterator[WideEvent]:
        """All events of the set."""
        while True:
            yield await self.receive()

    async def _put(self, event: Event[bytes]) -> list[WideEvent]:
        if isinstance(event, Message):
            if not event.sender.startswith(f"#{SERVICE_SESSION}"):
                return []  # Of another program in the group.
            item = decode_item(event.data)
            return [] if item is None or item.set != self.set else self._item(item)
        if self.durable and _may_have_missed(event):
            await self._begin(None)
        return []

    def _item(self, item: HandedItem) -> list[WideEvent]:
        if self.durable:
            if item.rewinds < self._begins or item.number != self.last + 1:
                return []
        elif item.number <= self.last:
            return []
        out: list[WideEvent] = []
        if self.last and item.number > self.last + 1:
            out.append(WideGap(self.set, self.last + 1, item.number - 1))
        self.last = item.number
        return [*out, self._shown(item)]

    def _shown(self, item: HandedItem) -> WideMessage | Completed:
        service = self._service
        parcel = WideId(service.name_of(item.cluster), item.parcel)
        file = item.file
        if item.everywhere:
            sent = None if file is None else sent_file(file.source, file.size_bytes, file.digest)
            return Completed(self.set, parcel, item.number, sent)
        body = decode_body(item.body)
        return WideMessage(
            self.set,
            parcel,
            body.sender,
            body.data,
            item.number,
            item.entry,
            service.names(item.participants),
            item.talk,
            service.names(item.destinations),
            item.order or None,
            None
            if file is None
            else ReceivedFile(Path(file.path), file.host, file.size_bytes, file.digest.hex()),
            body.call,
        )

    async def done(self, event: WideMessage | Completed, *, timeout_seconds: float | None = None) -> None:
        """A durable consumer has done with this event and all before: it does not get them again."""
        await self._done(event.number, timeout_seconds)

    async def end_durable(self, *, timeout_seconds: float | None = None) -> None:
        """Nothing is kept for this durable consumer any more."""
        await self._done(0, timeout_seconds, leaves=True)

    async def _done(self, up_to: int, timeout_seconds: float | None, *, leaves: bool = False) -> None:
        durable = self.durable
        if not durable:
            raise WrongValue("durable", "this consumer has no name", 'join with durable="NAME"')
        check_seconds("timeout_seconds", timeout_seconds)

        def make(client: str, number: int, known: int) -> DoneRequest:
            return DoneRequest(client, number, known, self.set, durable, up_to, leaves)

        await self._service.request(f"what {durable} has done of {self.set}", make, timeout_seconds)


def _may_have_missed(event: Event[bytes]) -> bool:
    """Whether a durable consumer may have been on another side than the forwarder."""
    return isinstance(event, Reconnected) or (isinstance(event, View) and event.cause == "network")


def check_cast(data: object, entry: object, notify: object, timeout_seconds: object) -> None:
    """Checks what all messages have."""
    if not isinstance(data, bytes):
        raise WrongType("data", got(data), "give bytes")
    check_number("entry", entry, 0, ENTRY_MAX)
    check_flag("notify", notify)
    check_seconds("timeout_seconds", timeout_seconds)
    if len(data) > DATA_BYTES_MAX:
        raise MessageTooLarge(len(data), DATA_BYTES_MAX)


def checked_call(name: object) -> str:
    """Checks the name of a call."""
    if not isinstance(name, str):
        raise WrongType("call", got(name), "give the name of the call as a str")
    if not 0 < len(name.encode(errors="replace")) <= CALL_NAME_BYTES_MAX:
        raise WrongValue("call", "empty or too long", f"give 1 to {CALL_NAME_BYTES_MAX} bytes of UTF-8")
    if name.startswith(UNNAMED):
        raise WrongValue("call", f"begins with {UNNAMED}", "give a name that does not")
    return name


def check_set_name(name: object) -> None:
    """Checks the name of a set."""
    if not isinstance(name, str):
        raise WrongType("name", got(name), "give the name of the set as a str")
    if not 0 < len(name.encode(errors="replace")) <= SET_NAME_BYTES_MAX:
        raise WrongValue("name", "empty or too long", f"give 1 to {SET_NAME_BYTES_MAX} bytes of UTF-8")


def join(
    session: Session[Any],
    name: str,
    *,
    group: str | None = None,
    clusters: Sequence[str] | None = None,
    durable: str | None = None,
    timeout_seconds: float = JOIN_SECONDS,
) -> JoinedSet:
    """Joins a set: `async with wide.join(session, "tickets") as tickets`.

    The set is made in all its clusters if it is new: in those of `clusters`, or in all of the clusters file.
    They are the same wherever it is joined, or ClustersDiffer is raised. `group` is the local group whose
    members are the set's representative in this cluster, by default one of the set's name. A `durable` consumer
    has a name, by which it gets again what it has not `done` with, also after a crash.
    """
    return JoinedSet(session, name, group, clusters, durable, timeout_seconds)


def sender(session: Session[Any], name: str) -> WideSender:
    """Sends to a set that others have joined in this cluster: `async with wide.sender(session, "tickets")`."""
    return WideSender(session, name)


class LongHaulLink:
    """The link of this cluster to another one, for operators."""

    def __init__(self, session: Session[Any], cluster: str) -> None:
        self.cluster = cluster
        self._session = session

    async def on(self, *, timeout_seconds: float | None = None) -> None:
        """Switches it on: it is dialled, and what waits goes."""
        await self._switch(timeout_seconds, on=True)

    async def off(self, *, timeout_seconds: float | None = None) -> None:
        """Switches it off: when this returns nothing is sent on it any more."""
        await self._switch(timeout_seconds, on=False)

    async def drain(self, *, timeout_seconds: float | None = None) -> None:
        """Switches it off when the other end has all that waits now; this returns at once."""
        await self._switch(timeout_seconds, on=False, drain=True)

    async def _switch(self, timeout_seconds: float | None, *, on: bool, drain: bool = False) -> None:
        check_seconds("timeout_seconds", timeout_seconds)
        service = WideService(self._session)
        await service.open()
        try:
            peer = service.number_of(self.cluster)

            def make(client: str, number: int, known: int) -> SwitchRequest:
                return SwitchRequest(client, number, known, peer, on, drain)

            await service.request(f"the link to {self.cluster}", make, timeout_seconds)
        finally:
            await service.close()


def link(session: Session[Any], cluster: str) -> LongHaulLink:
    """The link to another cluster: `await wide.link(session, "norway").off()`."""
    return LongHaulLink(session, cluster)


async def status(session: Session[Any]) -> list[dict[str, Any]]:
    """What each member of the service in this cluster shows of itself, as `hop wide status --json` does."""
    service = WideService(session)
    await service.open()
    try:
        return await service.statuses()
    finally:
        await service.close()
