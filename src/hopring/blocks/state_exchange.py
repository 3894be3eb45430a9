"""Binds state transfer to one group of a session: its events, its messages, and the program's provider.

Below       the core of a session (client/core.py).
Above       the shells (aio_state.py, blocking_state.py): they give it the group's events in their order, ask it
            for the next one for the program, and call `advance` whenever bytes have arrived.
Invariants  messages of the transfer are no events of the group. The provider is called only between two events,
            so its state is that after all events that the program has taken.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from hopring.blocks.state_events import (
    BeginAnew,
    BeginsHere,
    GiveEvent,
    GroupMarkShown,
    MemberMarkArrived,
    NobodySpeaks,
    OperationShown,
    Output,
    SendMark,
    SessionLost,
    SnapshotRefused,
    SnapshotTaken,
    SpeakerFailed,
    Standing,
    TakeSnapshot,
    TakeState,
    ViewShown,
)
from hopring.blocks.state_header import STATE_HEADER, ChunkMark, EndMark, TakenMark, decode_state, encode_state
from hopring.blocks.state_transfer import StateTransfer, failure
from hopring.client.core import ClientCore
from hopring.client.errors import NoState, ProviderFailed
from hopring.client.events import Event, Message, Ready, Reconnected, View
from hopring.client.outgoing import OutgoingMessage
from hopring.client.values.providers import MergingProvider, StateProvider, StateSnapshot
from hopring.ids import GroupName
from hopring.services import Service
from hopring.wire.envelope import encode_envelope

GROUP_HEADER: Final = "hop-state-group"
"""Messages from member to member say to which group's state they belong."""


class StateExchange:
    """The state of one group of one session."""

    def __init__(self, core: ClientCore, group: str, provider: StateProvider) -> None:
        self.core = core
        self.group = group
        self.transfer = StateTransfer(isinstance(provider, MergingProvider))
        self.failed: ProviderFailed | None = None  # Why the program's state cannot be used any more.
        self._provider = provider
        self._me = core.welcomed.private_group
        self._outputs: deque[Output] = deque()
        self._to_send: deque[OutgoingMessage] = deque()
        self._connection = core.connection
        self._closed = False
        core.state.add_sink(self.take)

    # Events.

    def take(self, message: Message) -> bool:
        """Uses up a message from member to member; False if it is none of this group."""
        if self._closed or message.headers.get(GROUP_HEADER) != self.group:
            return False
        mark = decode_state(message.headers.get(STATE_HEADER, ""))
        if isinstance(mark, ChunkMark | EndMark | TakenMark):
            for output in self.transfer.step(MemberMarkArrived(message.sender, mark, message.data)):
                if isinstance(output, SendMark):
                    self._queue(output)
                else:
                    self._outputs.append(output)
        return True

    def put(self, event: Event) -> None:
        """The next event of the group, in its order."""
        if isinstance(event, Message):
            self._put_message(event)
        elif isinstance(event, View):
            self._add(self.transfer.step(ViewShown(event, self._me)))
        elif isinstance(event, Reconnected):
            self._me = event.private_group
            self._add(self.transfer.step(SessionLost()))
            if self.transfer.standing >= Standing.FORMER:
                self._outputs.append(GiveEvent(event))
        else:
            self._add(self.transfer.step(OperationShown(event)))

    def _put_message(self, message: Message) -> None:
        text = message.headers.get(STATE_HEADER)
        mark = None if text is None else decode_state(text)
        if mark is None:
            place = message.place if message.service.total else None
            self._add(self.transfer.step(OperationShown(message, place)))
        elif not isinstance(mark, ChunkMark | EndMark | TakenMark):
            self._add(self.transfer.step(GroupMarkShown(message.sender, mark, message.data)))

    def close(self) -> None:
        """The session is not in the group any more."""
        self._closed = True
        self._to_send.clear()

    def begin_anew(self) -> None:
        """Begins with the state that the program has, if nobody in the view has one."""
        self._add(self.transfer.step(BeginAnew()))
        while self._outputs and isinstance(first := self._outputs[0], SendMark):
            self._outputs.popleft()
            self._queue(first)

    def next(self) -> Event | None:
        """The next event for the program; None until there are more of the group. Calls the provider."""
        if self.failed is not None:
            raise self.failed
        while self._outputs:
            output = self._outputs.popleft()
            match output:
                case GiveEvent(item):
                    event: Event = item  # type: ignore[assignment]  # It was an event when it came.
                    return event
                case SendMark():
                    self._queue(output)
                case TakeSnapshot():
                    self._take_snapshot()
                case TakeState():
                    self._take_state(output)
                    return Ready(
                        self.group, output.view, tuple([one[0] for one in output.sources]), output.merged
                    )
                case BeginsHere(view):
                    return Ready(self.group, view, (), False)
                case SpeakerFailed(reason):
                    raise ProviderFailed(
                        self.group, "snapshot", reason, "another member speaks, if there is one"
                    )
                case NobodySpeaks(reasons):
                    raise NoState(self.group, reasons)
        return None

    def _add(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, SendMark) and output.to:
                self._queue(output)  # What goes to one member need not wait for the program.
            else:
                self._outputs.append(output)

    # The provider.

    def _take_snapshot(self) -> None:
        try:
            made = self._provider.snapshot()
            promised = made.size_bytes if isinstance(made, StateSnapshot) else None
            parts = parts_of(made.parts if isinstance(made, StateSnapshot) else made)
        except Exception as error:  # Whatever the program raises.
            answer = self.transfer.step(SnapshotRefused(failure(error)))
        else:
            answer = self.transfer.step(SnapshotTaken(parts, promised))
        for output in reversed(answer):
            self._outputs.appendleft(output)

    def _take_state(self, output: TakeState) -> None:
        call = "merge" if output.merged else "restore"
        try:
            if output.merged:
                assert isinstance(self._provider, MergingProvider), "it said so"
                self._provider.merge(output.states)
            else:
                self._provider.restore(output.states[0])
        except Exception as error:  # Whatever the program raises.
            remedy = "leave the group, and join again"
            self.failed = ProviderFailed(self.group, call, failure(error), remedy)
            raise self.failed from error

    # Output.

    def _queue(self, output: SendMark) -> None:
        self._follow_connection()
        headers = {STATE_HEADER: encode_state(output.mark)}
        if output.to:
            headers[GROUP_HEADER] = self.group
        to = GroupName(output.to or self.group)
        service = Service.FIFO if output.to else Service.AGREED
        body = encode_envelope(headers) + output.data
        self._to_send.append(OutgoingMessage((to,), body, service, enveloped=True))

    def _follow_connection(self) -> None:
        """What was for an earlier connection has no meaning any more."""
        if self.core.connection is not self._connection:
            self._connection = self.core.connection
            self._to_send.clear()

    def advance(self) -> bool:
        """Sends as much as there is room for; returns whether something was sent."""
        core = self.core
        self._follow_connection()
        sent = False
        while self._to_send and core.connected and core.outgoing.has_room(self._to_send[0]):
            core.send(self._to_send.popleft())
            sent = True
        return sent


def parts_of(made: bytes | Iterable[bytes]) -> Iterator[bytes]:
    """The parts of a snapshot."""
    return iter([made]) if isinstance(made, bytes) else iter(made)
