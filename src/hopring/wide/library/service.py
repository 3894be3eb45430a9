"""A program's connection to the long-haul service of its cluster: requests with their answers, and questions.

Below       a session of its own beside that of the program, so that answers never wait behind messages that the
            program has not taken.
Above       sets.py.
"""

import asyncio
import json
import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from hopring.client.aio import Connecting, Session
from hopring.client.arguments import Reconnect, random_name
from hopring.client.core import ClientCore
from hopring.client.errors import MissingReplies, NoResponders, SessionClosed
from hopring.client.events import Message, Reconnected
from hopring.errors import HopError
from hopring.haul.entries import Accepted, Answer, CallDoneRequest, WideRequestRefused
from hopring.haul.ids import ClusterId, ClusterMask, clusters_in, clusters_mask
from hopring.haul.member import LOG_NAME
from hopring.ids import NEVER
from hopring.wide.errors import (
    ClustersDiffer,
    FileRefused,
    LongHaulRefused,
    NoLongHaul,
    NotAcceptedYet,
    NotEverywhere,
    NotInSet,
    NoWideQuorum,
    UnknownCluster,
    WideFull,
)
from hopring.wide.library.events import WideId
from hopring.wide.library.requests import MakeRequest, OpenRequests
from hopring.wide.messages import QUERY_GROUP, CastBody, decode_answer, decode_body

ASK_SECONDS: Final = 10.0
"""How long members may take for an answer that needs no log."""

LOOK_SECONDS: Final = 0.02
LOOK_SECONDS_MAX: Final = 0.5
"""How often it is asked whether a message is everywhere: soon at first, then this often."""

_REFUSALS: Final[dict[str, tuple[type[LongHaulRefused], str]]] = {
    "NotInSet": (NotInSet, "join it in this cluster, with clusters that the set has"),
    "ClustersDiffer": (ClustersDiffer, "give the same clusters everywhere, or another name"),
    "FileRefused": (FileRefused, "give another name, or send the file again"),
    "WideFull": (WideFull, "wait until the clusters that are away are back: see `hop wide spools`"),
}

T = TypeVar("T")


def beside(session: Session[Any], *, membership: bool) -> Connecting[bytes]:
    """A session beside that of the program, of the same client."""
    core = session._core
    return Connecting(
        ClientCore(
            core.tries.urls,
            random_name(),
            membership=membership,
            slow=core.slow,
            identity=core.identity,
            tls=core.tls,
            reconnect=core.reconnect or Reconnect(),
            answer_seconds=core.answer_seconds,
            epoch_us=core.epoch_us,
            chance=random.random,
        )
    )


class WideService:
    """The service of the cluster, as one program reaches it."""

    def __init__(self, session: Session[Any]) -> None:
        self._program = session
        self._session: Session[bytes]
        self._requests = OpenRequests(f"{session.name[:64]}.{os.urandom(8).hex()}")
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None
        self._unsent: list[bytes] = []
        self._ended: HopError | None = None
        self._waiting: set[asyncio.Future[Answer]] = set()
        self.cluster = ""
        self.wide = ""
        self.ids: dict[str, ClusterId] = {}

    @property
    def sender(self) -> str:
        """The name of the program's session."""
        return self._program.name

    # Its life.

    async def open(self) -> None:
        """Connects, and learns which clusters there are; NoLongHaul if no member is here."""
        self._session = await beside(self._program, membership=False)
        try:
            facts = await self.ask({"ask": "status"})
            self.cluster, self.wide = facts["cluster"], facts["wide"]
            self.ids = {name: ClusterId(number) for name, number in facts["clusters"].items()}
        except BaseException:
            self._session.abort()
            raise
        self._task = asyncio.create_task(self._follow())

    async def close(self) -> None:
        """Ends it; requests without an answer are not repeated any more."""
        for task in (self._task, self._sending):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        if self._timer is not None:
            self._timer.cancel()
        self._fail(SessionClosed("the long-haul service was left"))
        if self._session.ended is None:
            await self._session.close()

    async def _follow(self) -> None:
        try:
            async for event in self._session:
                if isinstance(event, Reconnected):
                    self._unsent = self._requests.repeated(_now_us())
                    self._send_soon()
                elif isinstance(event, Message):
                    self._take(event)
            self._fail(self._session.ended or SessionClosed("the session was closed"))
        except HopError as error:
            self._fail(error)

    def _take(self, message: Message) -> None:
        found = decode_answer(message.data)
        if found is not None and found.client == self._requests.client:
            self._requests.answered(found.number, found.answer, _now_us())
            self._set_timer()

    def _fail(self, error: HopError) -> None:
        self._ended = self._ended or error
        for one in self._waiting:
            if not one.done():
                one.set_exception(error)

    # Requests.

    async def request(self, what: str, make: MakeRequest, timeout_seconds: float | None) -> Accepted:
        """Returns when a request is accepted; raises as `answer_to`."""
        found = await self.answer_to(what, make, timeout_seconds)
        assert isinstance(found, Accepted), "what all requests but pieces of files are answered with"
        return found

    async def answer_to(self, what: str, make: MakeRequest, timeout_seconds: float | None) -> Answer:
        """The answer to a request; raises what it is refused with.

        NotAcceptedYet after the time: it is repeated, and may be accepted later.
        """
        if self._ended is not None:
            raise self._ended
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.add(answer)
        self._submit(make, lambda one: _set(answer, one))
        try:
            async with asyncio.timeout(timeout_seconds):
                found = await answer
        except TimeoutError:
            raise await self._why_not(what, timeout_seconds or 0.0) from None
        finally:
            self._waiting.discard(answer)
        if isinstance(found, WideRequestRefused):
            kind, remedy = _REFUSALS.get(found.kind, (LongHaulRefused, "give other arguments"))
            raise kind(what, self._named(found.reason), remedy)
        return found

    def _submit(self, make: MakeRequest, when_answered: Callable[[Answer], None]) -> None:
        self._unsent.append(self._requests.submit(make, when_answered, _now_us()))
        self._send_soon()
        self._set_timer()

    async def _why_not(self, what: str, seconds: float) -> HopError:
        """The error for a request that has no answer."""
        try:
            known = await self.statuses()
        except HopError as error:
            return error
        if not any(one["serving"] for one in known):
            return NoWideQuorum(self.cluster, len(known[0]["members"]), len(known))
        return NotAcceptedYet((what,), f"it is not accepted after {seconds:g} s")

    def _named(self, reason: str) -> str:
        """Members tell of clusters by their numbers."""
        known = ", ".join([f"{number} is {name}" for name, number in sorted(self.ids.items())])
        return f"{reason} ({known})" if "cluster" in reason and self.ids else reason

    def _send_soon(self) -> None:
        if self._unsent and (self._sending is None or self._sending.done()):
            self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        try:
            while self._unsent:
                await self._session.multicast(LOG_NAME, self._unsent.pop(0))
        except HopError as error:
            self._fail(error)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        at_us = self._requests.wake_at_us
        if at_us != NEVER:
            seconds = max(0.0, (at_us - _now_us()) / 1_000_000)
            self._timer = asyncio.get_running_loop().call_later(seconds, self._repeat)

    def _repeat(self) -> None:
        if not self._unsent:
            self._unsent = self._requests.repeated(_now_us())
            self._send_soon()
        self._set_timer()

    # Questions.

    async def ask(self, question: dict[str, Any], timeout_seconds: float = ASK_SECONDS) -> dict[str, Any]:
        """The answer of any member; NoLongHaul if there is none."""
        found: dict[str, Any] = json.loads(await self._ask(question, timeout_seconds))
        return found

    async def _ask(self, question: dict[str, Any], timeout_seconds: float) -> bytes:
        try:
            replies = await self._session.request(
                QUERY_GROUP, json.dumps(question).encode(), timeout_seconds=timeout_seconds
            )
        except (NoResponders, MissingReplies):
            raise NoLongHaul(self._program.daemon) from None
        return replies.data

    async def statuses(self, timeout_seconds: float = ASK_SECONDS) -> list[dict[str, Any]]:
        """What each member that answers shows of itself; NoLongHaul if none does."""
        found: list[dict[str, Any]] = []
        try:
            replies = self._session.replies_to(
                QUERY_GROUP, json.dumps({"ask": "status"}).encode(), timeout_seconds=timeout_seconds
            )
            async for reply in replies:
                if not reply.failed:
                    found.append(json.loads(reply.data))
        except (NoResponders, MissingReplies):
            if not found:
                raise NoLongHaul(self._program.daemon) from None
        return sorted(found, key=lambda one: str(one["member"]))

    async def until_everywhere(self, name: str, parcel: WideId, timeout_seconds: float | None) -> None:
        """Waits until all destinations have a message of this cluster."""
        question = {"ask": "everywhere", "set": name, "parcel": parcel.number}
        wait_seconds = LOOK_SECONDS
        try:
            async with asyncio.timeout(timeout_seconds):
                while not await self._is_everywhere(question):
                    await asyncio.sleep(wait_seconds)
                    wait_seconds = min(LOOK_SECONDS_MAX, 2 * wait_seconds)
        except TimeoutError:
            raise NotEverywhere(f"message {parcel} of {name}", timeout_seconds or 0.0) from None

    async def until_answered(self, name: str, call: str, timeout_seconds: float | None) -> CastBody:
        """Waits for the answer to a call; TimeoutError if there is none in time."""
        question, wait_seconds = {"ask": "answer", "set": name, "call": call}, LOOK_SECONDS
        async with asyncio.timeout(timeout_seconds):
            while True:
                with suppress(NoLongHaul):  # Members may be away for a while: the call stays open.
                    found = await self._ask(question, ASK_SECONDS)
                    if found:
                        return decode_body(found)
                await asyncio.sleep(wait_seconds)
                wait_seconds = min(LOOK_SECONDS_MAX, 2 * wait_seconds)

    async def end_call(self, name: str, call: str, timeout_seconds: float | None) -> None:
        """Nothing is kept of a call any more."""
        await self.request(f"the call {call}", _call_done(name, call), timeout_seconds)

    def forget_call(self, name: str, call: str) -> None:
        """The same without waiting for it, as long as this is open."""
        if self._ended is None:
            self._submit(_call_done(name, call), lambda _answer: None)

    async def _is_everywhere(self, question: dict[str, Any]) -> bool:
        with suppress(NoLongHaul):  # Members may be away for a while: the message is not lost.
            return bool((await self.ask(question))["everywhere"])
        return False

    # Names of clusters.

    def mask(self, names: tuple[str, ...]) -> ClusterMask:
        """The mask of these clusters; UnknownCluster if one is none."""
        return clusters_mask([self.number_of(one) for one in names])

    def number_of(self, name: str) -> ClusterId:
        """The number of a cluster; UnknownCluster if there is none of this name."""
        if name not in self.ids:
            known = ", ".join(sorted(self.ids))
            raise UnknownCluster(name, "no cluster of the clusters file", f"choose of {known}")
        return self.ids[name]

    def names(self, mask: ClusterMask) -> tuple[str, ...]:
        """The names of the clusters of a mask, by their numbers."""
        return tuple([self.name_of(one) for one in clusters_in(mask)])

    def name_of(self, number: ClusterId) -> str:
        """The name of a cluster, by its number."""
        return next((name for name, one in self.ids.items() if one == number), str(number))


def _call_done(name: str, call: str) -> MakeRequest:
    return lambda client, number, known: CallDoneRequest(client, number, known, name, call)


def _set(future: "asyncio.Future[T]", value: T) -> None:
    if not future.done():
        future.set_result(value)


def _now_us() -> int:
    return time.monotonic_ns() // 1_000
