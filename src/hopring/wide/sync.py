"""The long-haul service without an event loop: `hopring.wide.sync`, with calls that block.

    with sync.join("hop://localhost:4893", "tickets", session={"name": "vendor"}) as tickets:
        receipt = tickets.cbcast(b"3 left")
        receipt.everywhere()
        for event in tickets: ...

Each set has sessions of its own, in a thread of the library.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hopring.blocks.replicated.in_thread import BlockInThread
from hopring.client.arguments import ConnectOptions
from hopring.wide.library import sets
from hopring.wide.library.events import Completed, WideAnswer, WideEvent, WideId, WideMessage, WideReceipt
from hopring.wide.local_clusters.blocking import LocalWide

__all__ = [
    "BlockingAnswer",
    "BlockingConversation",
    "BlockingReceipt",
    "BlockingSender",
    "BlockingSet",
    "LocalWide",
    "join",
    "local",
    "sender",
]

local = LocalWide


@dataclass(frozen=True, slots=True)
class BlockingReceipt:
    """A message is accepted: it is on the disks of a majority here, and is delivered whatever happens."""

    set: str
    id: WideId
    _block: "BlockingSender"
    _receipt: WideReceipt

    def everywhere(self, *, timeout_seconds: float | None = None) -> None:
        """Waits until all destinations have it on disk; NotEverywhere if that is not so in time."""
        self._block._run(self._receipt.everywhere(timeout_seconds=timeout_seconds))


@dataclass(frozen=True, slots=True)
class BlockingAnswer:
    """The answer to a call. It is kept until `done`, except of a call without a name of its own."""

    call: str
    cluster: str
    sender: str
    data: bytes
    _block: "BlockingSender"
    _answer: WideAnswer

    def done(self, *, timeout_seconds: float | None = None) -> None:
        """The caller has done with it: nothing is kept of the call, and its name makes another one."""
        self._block._run(self._answer.done(timeout_seconds=timeout_seconds))


class BlockingConversation:
    """Participants of a set, and the messages among them."""

    def __init__(self, block: "BlockingSender", talk: sets.WideConversation) -> None:
        """Called by `conversation`, not by applications."""
        self._block = block
        self._talk = talk

    def cbcast(
        self,
        data: bytes,
        *,
        to: str | None = None,
        entry: int = 0,
        notify: bool = False,
        timeout_seconds: float | None = None,
    ) -> BlockingReceipt:
        """Sends a message in causal order; see `WideConversation.cbcast`."""
        options = {"to": to, "entry": entry, "notify": notify, "timeout_seconds": timeout_seconds}
        return self._block._accepted(self._block._run(self._talk.cbcast(data, **options)))  # type: ignore[arg-type]

    def abcast(
        self, data: bytes, *, entry: int = 0, notify: bool = False, timeout_seconds: float | None = None
    ) -> BlockingReceipt:
        """Sends a message in one order with all other abcasts; see `WideConversation.abcast`."""
        options = {"entry": entry, "notify": notify, "timeout_seconds": timeout_seconds}
        return self._block._accepted(self._block._run(self._talk.abcast(data, **options)))  # type: ignore[arg-type]

    def send_file(
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
    ) -> BlockingReceipt:
        """Sends a file with a message; see `WideConversation.send_file`."""
        sent = self._talk.send_file(
            path,
            data,
            name=name,
            to=to,
            abcast=abcast,
            entry=entry,
            notify=notify,
            delete_source=delete_source,
            timeout_seconds=timeout_seconds,
        )
        return self._block._accepted(self._block._run(sent))

    def request(
        self,
        data: bytes,
        *,
        to: str,
        call: str | None = None,
        entry: int = 0,
        timeout_seconds: float | None = None,
    ) -> BlockingAnswer:
        """Sends a message to one cluster and waits for its answer; see `WideConversation.request`."""
        asked = self._talk.request(data, to=to, call=call, entry=entry, timeout_seconds=timeout_seconds)
        return self._block._answered(self._block._run(asked))


class BlockingSender(BlockInThread[sets.WideSender]):
    """A set to which a program sends without being its local representative."""

    def conversation(self, *clusters: str, name: str = "") -> BlockingConversation:
        """A conversation of these clusters; without any, of all of the set."""
        return BlockingConversation(self, self._inner.conversation(*clusters, name=name))

    def cbcast(
        self,
        data: bytes,
        *,
        to: str | None = None,
        entry: int = 0,
        notify: bool = False,
        timeout_seconds: float | None = None,
    ) -> BlockingReceipt:
        """Sends a message to all of the set, or to one cluster, in causal order."""
        talk = BlockingConversation(self, self._inner)
        return talk.cbcast(data, to=to, entry=entry, notify=notify, timeout_seconds=timeout_seconds)

    def abcast(
        self, data: bytes, *, entry: int = 0, notify: bool = False, timeout_seconds: float | None = None
    ) -> BlockingReceipt:
        """Sends a message to all of the set, in one order with all other abcasts to it."""
        talk = BlockingConversation(self, self._inner)
        return talk.abcast(data, entry=entry, notify=notify, timeout_seconds=timeout_seconds)

    def send_file(
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
    ) -> BlockingReceipt:
        """Sends a file with a message; to all of the set, or to one cluster."""
        return BlockingConversation(self, self._inner).send_file(
            path,
            data,
            name=name,
            to=to,
            abcast=abcast,
            entry=entry,
            notify=notify,
            delete_source=delete_source,
            timeout_seconds=timeout_seconds,
        )

    def request(
        self,
        data: bytes,
        *,
        to: str,
        call: str | None = None,
        entry: int = 0,
        timeout_seconds: float | None = None,
    ) -> BlockingAnswer:
        """Sends a message to one cluster and waits for its answer; see `WideConversation.request`."""
        talk = BlockingConversation(self, self._inner)
        return talk.request(data, to=to, call=call, entry=entry, timeout_seconds=timeout_seconds)

    def answer(
        self, message: WideMessage, data: bytes, *, timeout_seconds: float | None = None
    ) -> BlockingReceipt:
        """Answers a call that came as a message; of several answers the first one counts."""
        return self._accepted(self._run(self._inner.answer(message, data, timeout_seconds=timeout_seconds)))

    def end_call(self, call: str, *, timeout_seconds: float | None = None) -> None:
        """Has done with a call, answered or not."""
        self._run(self._inner.end_call(call, timeout_seconds=timeout_seconds))

    @property
    def cluster(self) -> str:
        """The cluster in which this program is."""
        return self._inner.cluster

    def _answered(self, answer: WideAnswer) -> BlockingAnswer:
        return BlockingAnswer(answer.call, answer.cluster, answer.sender, answer.data, self, answer)

    def _accepted(self, receipt: WideReceipt) -> BlockingReceipt:
        return BlockingReceipt(receipt.set, receipt.id, self, receipt)


class BlockingSet(BlockingSender):
    """A set that was joined, with its events."""

    @property
    def _joined(self) -> sets.JoinedSet:
        inner = self._inner
        assert isinstance(inner, sets.JoinedSet), "made by `join`"
        return inner

    def receive(self) -> WideEvent:
        """The next event of the set; SessionClosed if none can arrive."""
        return self._run(self._joined.receive())

    def __iter__(self) -> Iterator[WideEvent]:
        """All events of the set."""
        while True:
            yield self.receive()

    def done(self, event: WideMessage | Completed, *, timeout_seconds: float | None = None) -> None:
        """A durable consumer has done with this event and all before: it does not get them again."""
        self._run(self._joined.done(event, timeout_seconds=timeout_seconds))

    def end_durable(self, *, timeout_seconds: float | None = None) -> None:
        """Nothing is kept for this durable consumer any more."""
        self._run(self._joined.end_durable(timeout_seconds=timeout_seconds))


def join(
    url: str,
    name: str,
    *,
    group: str | None = None,
    clusters: Sequence[str] | None = None,
    durable: str | None = None,
    timeout_seconds: float = sets.JOIN_SECONDS,
    session: ConnectOptions | None = None,
) -> BlockingSet:
    """Joins a set at a daemon: `with sync.join(url, "tickets") as tickets`; see `hopring.wide.join`.

    `session` has further arguments of `connect`, as {"name": "vendor"}.
    """
    return BlockingSet(
        url,
        session or {},
        lambda own: sets.JoinedSet(own, name, group, clusters, durable, timeout_seconds),
    )


def sender(url: str, name: str, *, session: ConnectOptions | None = None) -> BlockingSender:
    """Sends to a set that others have joined in the cluster of this daemon."""
    return BlockingSender(url, session or {}, lambda own: sets.WideSender(own, name))
