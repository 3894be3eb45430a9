"""Traffic: a daemon's messages in a whole view, from the outbox into the order and on to the layer above.

Implements  thesis 5.1 and 5.2 at one daemon: what is stamped is held, what has come to its turn is delivered,
            the token brings the site's line, and a representative owes the other sites promises.
Below       the view's network.
Above       the membership, which hands the view in, and passes on what comes out.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, SiteId, SiteMask, ViewId
from hopring.membership.aru_updates import AruUpdates, aru_updates
from hopring.membership.events import Delivered, Output, Rift, Stamped
from hopring.membership.options import MembershipOptions
from hopring.membership.recovery import Decision
from hopring.membership.view import DaemonView
from hopring.ordering.destinations import Destinations
from hopring.ordering.entry import CONTROL_SESSION, Entry, Message, Position, decode_message, encode_message
from hopring.ordering.order import Order
from hopring.stack import Stack
from hopring.stack_events import (
    Multicast,
    MulticastLoose,
    Promise,
    Promised,
    Receive,
    ReceiveLoose,
    Visited,
    WishVisit,
)

MESSAGE_COST_BYTES: Final = 256
"""What keeping a message costs beside its payload; counted, so that many tiny ones do not go unseen."""


@dataclass(slots=True)
class SendWindow:
    """What waits, and what is out and not stable."""

    window_bytes: int
    window_bundles: int
    queue_bytes_max: int
    waiting: deque[Message] = field(default_factory=deque)
    waiting_bytes: int = 0  # Of the clients.
    control: deque[Message] = field(default_factory=deque)
    held: bool = False  # The clients' messages have to wait.
    out_bytes: int = 0
    out_bundles: int = 0
    # Unreliable and out: the clock at the send, and bytes.
    loose: deque[tuple[int, int]] = field(default_factory=deque)
    loose_bytes: int = 0

    @property
    def open(self) -> bool:
        """Whether another message may be put."""
        return self.waiting_bytes < self.queue_bytes_max

    @property
    def ready(self) -> bool:
        """Whether a message waits and the window lets it through; one is always let through."""
        if self.control:
            return True
        if self.held or not self.waiting:
            return False
        return not self.out_bundles or (
            self.out_bytes < self.window_bytes and self.out_bundles < self.window_bundles
        )

    def put(self, message: Message) -> None:
        """Queues a message."""
        if message.session == CONTROL_SESSION:
            self.control.append(message)
            return
        assert self.open, "look at queue_open before Submit"
        self.waiting.append(message)
        self.waiting_bytes += len(message.payload) + MESSAGE_COST_BYTES

    def take(self) -> Message:
        """The next message, which is now out."""
        if self.control:
            message = self.control.popleft()
        else:
            message = self.waiting.popleft()
            self.waiting_bytes -= len(message.payload) + MESSAGE_COST_BYTES
        self.out_bytes += len(message.payload)
        self.out_bundles += 1
        return message

    def stable(self, entries: Iterable[Entry], me: int) -> None:
        """Everybody has these."""
        for entry in entries:
            if entry.message is not None and entry.message.daemon == me:
                self.out_bytes -= len(entry.message.payload)
                self.out_bundles -= 1

    @property
    def loose_crowded(self) -> bool:
        """Whether Unreliable messages have so much of the window that they should soon leave it."""
        return 4 * len(self.loose) >= self.window_bundles or 4 * self.loose_bytes >= self.window_bytes

    def left(self, message: Message, lts: int) -> None:
        """An Unreliable message that was taken has left, when the clock was there."""
        self.loose.append((lts, len(message.payload)))
        self.loose_bytes += len(message.payload)

    def overtaken(self, aru: int) -> None:
        """Everybody has all that is stamped below the line; what left loosely before it is past."""
        while self.loose and self.loose[0][0] < aru:
            size = self.loose.popleft()[1]
            self.loose_bytes -= size
            self.out_bytes -= size
            self.out_bundles -= 1

    def put_back(self, messages: Iterable[Message]) -> None:
        """The oldest first: these were taken and have not gone anywhere."""
        for message in reversed(list(messages)):
            if message.session == CONTROL_SESSION:
                self.control.appendleft(message)
                continue
            self.waiting.appendleft(message)
            self.waiting_bytes += len(message.payload) + MESSAGE_COST_BYTES

    def settle(self) -> None:
        """A new view begins: what was out in the old one is dealt with."""
        self.out_bytes = self.out_bundles = self.loose_bytes = 0
        self.loose.clear()


NO_PLACE: Final = Position(0, 0)
"""What stands for the place in the order of a message that has none."""


@dataclass(slots=True)
class MessageFlow:
    """One daemon's part in the traffic of its views, one after the other."""

    me: DaemonId
    site: SiteId
    site_of: Mapping[DaemonId, SiteId]
    window: SendWindow
    updates: AruUpdates
    destinations: Destinations = field(default_factory=Destinations)
    holds: bool = False  # In each view clients wait until the layer above says `Resume`.
    shown_aru: int = 0  # The line that the token was last told of.

    def begin(self, options: MembershipOptions, order: Order) -> None:
        """A new view and its order: promises begin anew, and what was out in the old one is dealt with."""
        self.window.settle()
        self.window.held = self.holds
        self.shown_aru = 0
        self.updates = aru_updates(options, self.site, order.sites, order.agreed_line)

    # Down.

    def send(self, view: DaemonView, stack: Stack) -> Multicast | MulticastLoose:
        """The next message, which the window lets through."""
        message = self.window.take()
        mask = stack.network.everywhere
        if message.service.loose:
            return submit_loose(message, mask, self.destinations, self.window, view.order)
        # Where it goes is decided when it is stamped.
        return Multicast(mask, encode_message(message), message.session, message.service.stable)

    def wish(self, view: DaemonView, stack: Stack, now_us: int) -> WishVisit | None:
        """A representative that owes the other sites a promise wants the token."""
        if len(stack.network.sites) == 1 or not stack.network.is_representative:
            return None
        order = view.order
        wants = self.updates.wants(order.clock, order.agreed_line, now_us)
        # The ring takes two visits to agree on a line, so it should begin before a promise is due.
        return WishVisit() if wants or order.agreed_line > self.shown_aru else None

    # Up.

    def turn(self, view: DaemonView, stack: Stack) -> list[Output]:
        """Delivers what has come to its turn, and forgets what everybody has."""
        order = view.order
        out = delivered(view, order.deliver())
        gone = order.discard()
        if gone:
            self.window.stable(gone, self.me)
        if self.window.loose:
            self.window.overtaken(order.aru)
        stack.local_aru = order.agreed_line
        stack.settling = order.safe_waiting > 0
        return out

    def receive(self, view: DaemonView, received: Receive, now_us: int) -> list[Output]:
        """A bundle, or only its meta-data."""
        message = None if received.bundle is None else decode_message(received.bundle)
        if message is not None and message.daemon not in view.processes:
            raise PeerError(Drop.FOREIGN_SENDER, f"message of daemon {message.daemon}")
        if message is not None and message.service.loose:
            raise PeerError(Drop.INCONSISTENT, "an Unreliable message in the order")
        if message is not None and self.site_of[message.daemon] != received.source:
            raise PeerError(
                Drop.FOREIGN_SENDER, f"message of daemon {message.daemon} by site {received.source}"
            )
        if view.order.holds(received.source, received.seq):
            return []
        if message is not None and message.session == CONTROL_SESSION:
            self.destinations.heard(message)
        # Meta-data do not tell the service.
        ordered = message is None or not message.service.early
        if received.source == self.site:
            self.updates.stamped(received.lts, received.mask, ordered, now_us)
        else:
            size_bytes = 0 if received.bundle is None else len(received.bundle)
            self.updates.heard(size_bytes, received.lts, ordered)
        early = view.order.hold(received.meta(), message)
        out: list[Output] = []
        if message is not None and message.daemon == self.me:
            position = view.order.entries[received.source, received.seq].position
            out.append(Stamped(view.id, message, position))
        out.extend(delivered(view, early))
        return out

    def receive_loose(self, view: DaemonView, received: ReceiveLoose) -> list[Output]:
        """An Unreliable bundle, whole; it has no place in the order."""
        message = loose_message(received)
        out: list[Output] = []
        if message.daemon == self.me:
            out.append(Stamped(view.id, message, NO_PLACE))
        out.append(Delivered(view.id, message, view.processes[message.daemon], NO_PLACE))
        return out

    def promised(self, view: DaemonView, promised: Promised, now_us: int) -> None:
        """Another site's word."""
        update = promised.update
        view.order.promise(update.source, update.seq, update.lts)
        view.order.stable(update.source, update.aru)
        self.updates.distance.reach(view.order.aru, now_us)

    def visited(self, view: DaemonView, stack: Stack, visited: Visited, now_us: int) -> Promise | None:
        """The token was here: its word on the own site counts here at once, elsewhere by way of a promise."""
        order = view.order
        order.promise(self.site, visited.site_seq, visited.site_lts + 1)
        order.stable(self.site, visited.site_aru)
        self.updates.distance.reach(order.aru, now_us)
        self.shown_aru = stack.local_aru
        if len(stack.network.sites) == 1 or not stack.network.is_representative:
            return None
        update = self.updates.visited(self.site, visited, now_us)
        return None if update is None else Promise(update)


def closing(view: DaemonView, decision: Decision, site: SiteId, next_view: ViewId) -> list[Output]:
    """What comes before the signal, with the rifts in it at their places."""
    out: list[Output] = []
    entries = view.before_signal(decision)
    at = 0
    for rift in [one for one in decision.rifts if one.mask >> site & 1]:
        end = bisect_left(entries, rift.position, lo=at, key=lambda entry: entry.position)
        out.extend(delivered(view, entries[at:end]))
        mask = SiteMask(rift.mask)
        out.append(Rift(view.id, rift.position, mask, decision.together, next_view, rift.lost))
        at = end
    return [*out, *delivered(view, entries[at:])]


def delivered(view: DaemonView, entries: list[Entry]) -> list[Output]:
    """These entries go to the layer above, now."""
    out: list[Output] = []
    for entry in entries:
        entry.delivered = True
        message: Message | None = entry.message
        if message is not None:
            out.append(Delivered(view.id, message, view.processes[message.daemon], entry.position))
    return out


def submit_loose(
    message: Message, sites: SiteMask, destinations: Destinations, outbox: SendWindow, order: Order
) -> MulticastLoose:
    """The message for the network; from here on it is out."""
    lts = order.clock + 1
    outbox.left(message, lts)
    bundle = encode_message(message)
    return MulticastLoose(destinations.mask(bundle, sites), bundle, lts, outbox.loose_crowded)


def loose_message(received: ReceiveLoose) -> Message:
    """What came; the daemon that numbered it is the one that speaks in it, and nothing else travels so."""
    message = decode_message(received.bundle)
    if message.daemon != received.daemon:
        raise PeerError(Drop.FOREIGN_SENDER, f"daemon {received.daemon} numbers for daemon {message.daemon}")
    if message.service.reliable:
        raise PeerError(Drop.INCONSISTENT, f"{message.service.name} outside the order")
    return message
