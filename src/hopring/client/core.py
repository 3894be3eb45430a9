"""The core of a client: a session without sockets. Two shells drive it.

Below       connections.py: one connection after another.
Above       verbs.py: what applications ask for, on top of `may_ask`, `has_room`, `answered` and `take`.
Invariants  no message is sent twice; nothing is asked for before the groups of a lost connection are.
"""

from dataclasses import dataclass, field

from hopring.client.connections import Connections
from hopring.client.errors import SessionClosed
from hopring.client.events import Event
from hopring.client.kept import Request
from hopring.client.outgoing import Outgoing, Ticket
from hopring.client.runs import Lot
from hopring.client.sending import TYPE_MAX, Many, Sending
from hopring.client.sequence import EventSequence
from hopring.client.since import Replay
from hopring.ids import GroupName
from hopring.services import Service
from hopring.session.answers import Told
from hopring.session.options import REQUEST_COST_BYTES
from hopring.session.words import Ask, Join, Leave, Quit


@dataclass(slots=True)
class Core(Connections):
    """One session, seen from the client."""

    asking: set[Request] = field(default_factory=set)  # Calls that wait for their answers.
    replays: dict[str, Replay] = field(default_factory=dict)  # Groups whose live events have to wait.
    _serial: int = 0  # Of questions.

    @property
    def told(self) -> dict[int, Told | None]:
        """What came of questions and nobody has taken, by serial."""
        return self.kept.told

    # Requests.

    @property
    def outgoing(self) -> Outgoing:
        """The way to the daemon; an error says that there is none any more."""
        if self.ended is not None:
            raise self.ended
        return self._outgoing

    @property
    def _ready(self) -> bool:
        """Whether new requests may go; an error if they never will."""
        if self.ended is not None:
            raise self.ended
        return self.connection.is_open and not self._again

    def may_ask(self) -> bool:
        """Whether the daemon takes another join or leave now; an error if the session has ended."""
        return self._ready and self._outgoing.has_room_for_word()

    def answered(self, request: Request) -> bool:
        """Whether the answer is in `answers`; an error if it cannot come any more."""
        if request not in self.answers and self.ended is not None:
            raise self.ended
        return request in self.answers

    def join(self, group: str) -> None:
        """Asks for a membership; look at `may_ask` first."""
        self.outgoing.ask(Join(group), REQUEST_COST_BYTES)
        self.kept.pending.append(("join", group))

    def leave(self, group: str) -> None:
        """Asks for the end of a membership; look at `may_ask` first."""
        self.outgoing.ask(Leave(group), REQUEST_COST_BYTES)
        self.kept.pending.append(("leave", group))

    def ask(self, what: str, name: str = "", after: str = "") -> int:
        """Asks something of the daemon; look at `may_ask` first. The answer is known by the serial."""
        self._serial += 1
        self.told[self._serial] = None
        self.outgoing.ask(Ask(self._serial, what, name, after), REQUEST_COST_BYTES)
        return self._serial

    def has_told(self, serial: int) -> bool:
        """Whether the answer is there, or has to be asked for again; an error if it cannot come any more."""
        if self.told.get(serial) is None and self.ended is not None:
            raise self.ended
        return serial not in self.told or self.told[serial] is not None

    def offer(
        self, groups: object, data: object, service: object, message_type: object, self_discard: object
    ) -> bool:
        """Sends a message if it belongs into the bundle that is open, or if none is: the way of most.

        Whatever is not of the commonest types is left to others, who check it (arguments.py).
        """
        connection = self.connection
        outgoing = connection.outgoing
        if outgoing is None or connection.ended is not None or self.ended is not None or self._again:
            return False
        if type(groups) is not str or type(data) is not bytes or type(message_type) is not int:
            return False
        if not isinstance(service, Service) or not isinstance(self_discard, bool):
            return False
        if not 0 <= message_type <= TYPE_MAX:
            return False
        return outgoing.offer(groups, data, service, message_type, self_discard)

    def has_room(self, sending: Sending) -> bool:
        """Whether the daemon takes this message now; an error if it never will."""
        return self._ready and self._outgoing.takes(sending)

    def send(self, sending: Sending) -> None:
        """Sends a message; look at `has_room` first."""
        self.outgoing.put(sending)

    def has_room_and_ticket(self, sending: Sending) -> bool:
        """The same for a message with a receipt."""
        return self.has_room(sending) and self._outgoing.has_ticket

    def send_for_receipt(self, sending: Sending) -> Ticket:
        """Sends a message and asks for its receipt; look at `has_room_and_ticket` first."""
        return self.outgoing.put_with_ticket(sending)

    def has_room_for_some(self, many: Many) -> bool:
        """Whether the daemon takes the next of these messages now; an error if it never will."""
        return self._ready and self._outgoing.takes_some(many)

    def send_some(self, many: Many) -> None:
        """Sends as many of them as there is room for; look at `has_room_for_some` first."""
        self.outgoing.put_some(many)

    def has_room_for_bundle(self, group: GroupName, messages: int, bodies_bytes: int) -> bool:
        """Whether the daemon takes a bundle of a batch now, and a receipt can be asked for."""
        return self._ready and self._outgoing.takes_bundle(group, messages, bodies_bytes)

    def quit(self) -> None:
        """Asks for the end, when all that was asked for is done; without a connection this is it."""
        self._quitting = True
        if self.connection.is_open:
            self.outgoing.ask(Quit())
        else:
            self._end(SessionClosed("it was closed here"))

    # Events.

    def replay(self, group: str | None) -> Replay | None:
        """What has to be replayed before the live events of this group, or of all."""
        return next(iter(self.replays.values()), None) if group is None else self.replays.get(group)

    def end_replay(self, replay: Replay) -> None:
        """From here on it is live; of what waits, and of what comes, that is dropped which the past had."""
        del self.replays[replay.group]
        for app, number in self.kept.once.remember(replay.group, replay.marks).items():
            messages, credit_bytes = self.stream.drop(replay.group, app, number)
            self.kept.once.dropped += messages
            self.connection.credit(credit_bytes)

    def is_in(self, group: str | None) -> bool:
        """Whether more may come of this group, or at all."""
        return group is None or group in self.groups

    def is_over(self, group: str | None) -> bool:
        """Whether nothing more comes."""
        return self.ended is not None or not self.is_in(group)

    def has_news(self, group: str | None) -> bool:
        """Whether there is an event, or nothing more comes."""
        return self.stream.first(group) is not None or self.is_over(group)

    def has_many(self, messages: int, group: str | None) -> bool:
        """Whether so many messages wait, or so much that more might not come before it is taken."""
        full = self.stream.credit_bytes * 2 >= self.window_bytes
        return (full and self.stream.waits(group)) or self.stream.has(messages, group)

    def take_many(self, messages: int, group: str | None) -> EventSequence:
        """The next events up to so many messages."""
        taken, credit_bytes = self.stream.take_many(messages, group)
        self.connection.credit(credit_bytes)
        return EventSequence(tuple(taken))

    def lot(self, group: str | None) -> Lot | None:
        """The messages that are taken next, if it is messages; all but the last may be taken from it."""
        if self.replays and self.replay(group) is not None:
            return None
        lot = self.stream.first(group)
        return None if lot is None or lot.event is not None else lot

    def take(self, group: str | None = None) -> Event | None:
        """The next event, of this group or at all; the daemon may then send that much more.

        None while something is replayed: the verbs know how to wait for it.
        """
        if self.replays and self.replay(group) is not None:
            return None
        taken = self.stream.take(group)
        if taken is None:
            return None
        self.connection.credit(taken[1])
        return taken[0]
