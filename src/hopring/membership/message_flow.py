"""Message flow of a whole view: from the send queue into the order, and from the order to the layer above.

Implements  thesis 5.1 and 5.2 at one daemon: stamped bundles are held, delivered in order and discarded
            when stable; the token carries the site's line, and a representative owes promises to
            the other sites. The send window is the papers' global flow control.
Below       the view's network.
Above       the membership, which passes in the view and passes on the outputs.
Invariants  the window limits a daemon's own bundles that are sent and not stable. The slowest receiver holds
            back the stability line, so it governs all senders; all daemons have the same window, so none gets
            more than the others for long. A daemon's own messages (session DAEMON_SESSION) go before clients'
            messages and are outside of the window's limit.
            An Unreliable message is never stable. It leaves the window when the stability line has passed a
            clock value that no site had promised when it was sent: then a round of promises has crossed the
            whole network since the send. Otherwise an idle system, whose line is above its clock, would let
            out any number of them at once. The site's clock takes that step when they fill a quarter of the
            window, and otherwise some time later: every step puts the stamps of ordered messages above the
            promises of other sites and so delays them.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hopring.engine import Delivered, Rift, Stamped, SubmitMessage, TransitionalSignal, Withheld
from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, SiteId, SiteMask, ViewId
from hopring.membership.aru_updates import AruUpdates, aru_updates
from hopring.membership.events import Output
from hopring.membership.options import OWN_BUNDLES, MembershipOptions
from hopring.membership.recovery import Decision
from hopring.membership.view import InstalledView
from hopring.ordering.destinations import Destinations
from hopring.ordering.entry import (
    DAEMON_SESSION,
    Entry,
    OrderedMessage,
    Position,
    decode_message,
    encode_message,
)
from hopring.ordering.holders import MAJORITY
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
"""Memory of a queued message beside its payload; counted so that many tiny messages reach the limit too."""


@dataclass(slots=True)
class SendWindow:
    """The messages that wait to be sent, and the size of those that are sent and not stable."""

    window_bytes: int
    window_bundles: int
    queue_bytes_max: int
    # The daemon's own messages may exceed the window by this many bundles: others refuse a sequence or a stamp
    # beyond all windows.
    own_bundles: int = OWN_BUNDLES
    waiting: deque[OrderedMessage] = field(default_factory=deque)
    waiting_bytes: int = 0  # Of clients' messages.
    own_messages: deque[OrderedMessage] = field(default_factory=deque)  # The daemon's own messages.
    held: bool = False  # Clients' messages wait until the layer above resumes.
    out_bytes: int = 0
    out_bundles: int = 0
    # Unreliable messages in the window: the clock at the send, and bytes.
    loose: deque[tuple[int, int]] = field(default_factory=deque)
    loose_bytes: int = 0

    @property
    def open(self) -> bool:
        """Whether the queue takes another message."""
        return self.waiting_bytes < self.queue_bytes_max

    @property
    def ready(self) -> bool:
        """Whether a message waits and the window admits it; an empty window always does."""
        if self.own_messages:
            return self.out_bundles < self.window_bundles + self.own_bundles
        if self.held or not self.waiting:
            return False
        return not self.out_bundles or (
            self.out_bytes < self.window_bytes and self.out_bundles < self.window_bundles
        )

    def put(self, message: OrderedMessage) -> None:
        """Queues a message of a client or of the daemon."""
        if message.session == DAEMON_SESSION:
            self.own_messages.append(message)
            return
        assert self.open, "look at queue_open before SubmitMessage"
        self.waiting.append(message)
        self.waiting_bytes += len(message.payload) + MESSAGE_COST_BYTES

    def admit_next(self) -> OrderedMessage:
        """Moves the next message from the queue into the window and returns it."""
        if self.own_messages:
            message = self.own_messages.popleft()
        else:
            message = self.waiting.popleft()
            self.waiting_bytes -= len(message.payload) + MESSAGE_COST_BYTES
        self.out_bytes += len(message.payload)
        self.out_bundles += 1
        return message

    def release_stable(self, entries: Iterable[Entry], me: int) -> None:
        """Removes own messages from the window; these entries are stable."""
        for entry in entries:
            if entry.message is not None and entry.message.daemon == me:
                self.out_bytes -= len(entry.message.payload)
                self.out_bundles -= 1

    @property
    def loose_crowded(self) -> bool:
        """Whether Unreliable messages fill a quarter of the window."""
        return 4 * len(self.loose) >= self.window_bundles or 4 * self.loose_bytes >= self.window_bytes

    def note_loose(self, message: OrderedMessage, lts: int) -> None:
        """Notes the clock at which an Unreliable message is sent."""
        self.loose.append((lts, len(message.payload)))
        self.loose_bytes += len(message.payload)

    def release_loose(self, aru: int) -> None:
        """Removes Unreliable messages sent below the stability line from the window."""
        while self.loose and self.loose[0][0] < aru:
            size = self.loose.popleft()[1]
            self.loose_bytes -= size
            self.out_bytes -= size
            self.out_bundles -= 1

    def put_back(self, messages: Iterable[OrderedMessage]) -> None:
        """Returns messages that were admitted and not sent to the head of the queue; the oldest comes first."""
        for message in reversed(list(messages)):
            if message.session == DAEMON_SESSION:
                self.own_messages.appendleft(message)
                continue
            self.waiting.appendleft(message)
            self.waiting_bytes += len(message.payload) + MESSAGE_COST_BYTES

    def reset(self) -> None:
        """Empties the window, because a new view begins."""
        self.out_bytes = self.out_bundles = self.loose_bytes = 0
        self.loose.clear()


NO_POSITION: Final = Position(0, 0)
"""Stands for the position of Unreliable messages, which have none in the order."""


@dataclass(slots=True)
class MessageFlow:
    """One daemon's message flow, through one view after the other."""

    me: DaemonId
    site: SiteId
    site_of: Mapping[DaemonId, SiteId]
    window: SendWindow
    updates: AruUpdates
    destinations: Destinations = field(default_factory=Destinations)
    holds: bool = False  # Each view begins with clients' messages held until `Resume`.
    written_aru: int = 0  # The local ARU that was last written on the token.

    def begin(self, options: MembershipOptions, order: Order) -> None:
        """A new view: promises and the window start afresh."""
        self.window.reset()
        self.window.held = self.holds
        self.written_aru = 0
        self.updates = aru_updates(options, self.site, order.sites, order.agreed_line)

    # Down.

    def submit(self, event: SubmitMessage) -> None:
        """Queues a message of the layer above."""
        message = OrderedMessage(event.service, self.me, event.session, event.payload, event.resilience)
        self.window.put(message)

    def send(self, view: InstalledView, stack: Stack) -> Multicast | MulticastLoose:
        """The next message for the network; the window admits it."""
        message = self.window.admit_next()
        mask = stack.network.everywhere
        if message.service.loose:
            return submit_loose(message, mask, self.destinations, self.window, view.order)
        # The mask is narrowed when the bundle is stamped.
        return Multicast(mask, encode_message(message), message.session, message.waits_for_holders)

    def wish(self, view: InstalledView, stack: Stack, now_us: int) -> WishVisit | None:
        """A wish for the token, if this representative owes the other sites a promise."""
        if len(stack.network.sites) == 1 or not stack.network.is_representative:
            return None
        order = view.order
        due = self.updates.check_due(order.clock, order.agreed_line, now_us)
        # The ring takes two visits to agree on a line, so it should begin before a promise is due.
        return WishVisit() if due or order.agreed_line > self.written_aru else None

    # Up.

    def deliver_and_discard(self, view: InstalledView, stack: Stack) -> list[Output]:
        """Delivers the entries that the order releases, discards stable ones, and updates the stack's lines."""
        order = view.order
        out = mark_delivered(view, order.deliver(), bool(view.primary))
        gone = order.discard()
        if gone:
            self.window.release_stable(gone, self.me)
        if self.window.loose:
            self.window.release_loose(order.aru)
        stack.local_aru = order.agreed_line
        stack.waits_for_holders = order.waiting_for_holders > 0
        stack.resilient_lts = order.resilient_lts
        return out

    def receive(self, view: InstalledView, received: Receive, now_us: int) -> list[Output]:
        """Adds a received bundle, or its meta-data, to the order."""
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
            if received.own:
                problem = f"bundle {received.seq} of this daemon, and another one has its number"
                raise PeerError(Drop.INCONSISTENT, problem)
            return []
        if message is not None and message.daemon == self.me and not received.own:
            raise PeerError(
                Drop.FOREIGN_SENDER, f"bundle {received.seq} in the name of this daemon, which did not send it"
            )
        if message is not None and message.session == DAEMON_SESSION:
            self.destinations.heard(message)
        # Meta-data does not include the service.
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
        out.extend(mark_delivered(view, early, bool(view.primary)))
        return out

    def receive_loose(self, view: InstalledView, received: ReceiveLoose) -> list[Output]:
        """Delivers an Unreliable bundle, outside of the order."""
        message = loose_message(received)
        out: list[Output] = []
        if message.daemon == self.me:
            out.append(Stamped(view.id, message, NO_POSITION))
        out.append(Delivered(view.id, message, view.processes[message.daemon], NO_POSITION))
        return out

    def promised(self, view: InstalledView, promised: Promised, now_us: int) -> None:
        """Records the promise of another site."""
        update = promised.update
        if update.aru > update.lts:
            raise PeerError(
                Drop.INCONSISTENT, f"site {update.source} has all below {update.aru} before {update.lts}"
            )
        view.order.promise(update.source, update.seq, update.lts)
        view.order.stable(update.source, update.aru)
        if update.lines:
            view.order.told(update.source, update.lines)
        self.updates.distance.reach(view.order.aru, now_us)

    def visited(self, view: InstalledView, stack: Stack, visited: Visited, now_us: int) -> Promise | None:
        """A visit has ended: the token's values count at once in this site, and in others when promised."""
        order = view.order
        order.promise(self.site, visited.site_seq, visited.site_lts + 1)
        order.stable(self.site, visited.site_aru)
        if visited.lines:
            order.told(self.site, visited.lines)
        self.updates.distance.reach(order.aru, now_us)
        self.written_aru = stack.local_aru
        if len(stack.network.sites) == 1 or not stack.network.is_representative:
            return None
        update = self.updates.visited(self.site, visited, now_us)
        return None if update is None else Promise(update)


def message_flow(
    me: DaemonId,
    site_of: Mapping[DaemonId, SiteId],
    options: MembershipOptions,
    order: Order,
    destinations: Destinations,
    holds: bool,
) -> MessageFlow:
    """The message flow of a daemon that starts."""
    window = SendWindow(
        options.window_bytes, options.window_bundles, options.queue_bytes_max, options.own_bundles
    )
    updates = aru_updates(options, site_of[me], order.sites, order.agreed_line)
    return MessageFlow(me, site_of[me], site_of, window, updates, destinations, holds)


def close_view(
    view: InstalledView, decision: Decision, site: SiteId, next_view: ViewId, next_primary: bool
) -> list[Output]:
    """All that is still delivered in a view that ends, with its signal.

    Behind the signal a majority resilient message is delivered only if the next view is primary: another side
    of the split may go on without it.
    """
    primary = bool(view.primary) and next_primary
    return [
        *deliver_before_signal(view, decision, site, next_view, primary),
        TransitionalSignal(view.id, decision.together, next_view, primary),
        *mark_delivered(view, view.after_signal(decision), primary),
    ]


def deliver_before_signal(
    view: InstalledView, decision: Decision, site: SiteId, next_view: ViewId, primary: bool
) -> list[Output]:
    """The deliveries before the signal, with the rifts at their positions."""
    out: list[Output] = []
    entries = view.before_signal(decision)
    at = 0
    for rift in [one for one in decision.rifts if one.mask >> site & 1]:
        end = bisect_left(entries, rift.position, lo=at, key=lambda entry: entry.position)
        out.extend(mark_delivered(view, entries[at:end], bool(view.primary)))
        mask = SiteMask(rift.mask)
        out.append(Rift(view.id, rift.position, mask, decision.together, next_view, rift.lost, primary))
        at = end
    return [*out, *mark_delivered(view, entries[at:], bool(view.primary))]


def mark_delivered(view: InstalledView, entries: list[Entry], majority: bool) -> list[Output]:
    """Marks these entries as delivered; returns the outputs for the layer above.

    Majority resilient messages are withheld unless `majority`; all members of the view decide that alike.
    """
    out: list[Output] = []
    for entry in entries:
        entry.delivered = True
        message: OrderedMessage | None = entry.message
        if message is not None and message.resilience == MAJORITY and not majority:
            out.append(Withheld(view.id, message, view.processes[message.daemon], entry.position))
        elif message is not None:
            sender = view.processes[message.daemon]
            out.append(Delivered(view.id, message, sender, entry.position, entry.holders))
    return out


def submit_loose(
    message: OrderedMessage, sites: SiteMask, destinations: Destinations, window: SendWindow, order: Order
) -> MulticastLoose:
    """An Unreliable message for the network; it enters the window."""
    lts = order.clock + 1
    window.note_loose(message, lts)
    bundle = encode_message(message)
    return MulticastLoose(destinations.mask(bundle, sites), bundle, lts, window.loose_crowded)


def loose_message(received: ReceiveLoose) -> OrderedMessage:
    """Decodes an Unreliable message and checks its sender and service."""
    message = decode_message(received.bundle)
    if message.daemon != received.daemon:
        raise PeerError(Drop.FOREIGN_SENDER, f"daemon {received.daemon} numbers for daemon {message.daemon}")
    if message.service.reliable:
        raise PeerError(Drop.INCONSISTENT, f"{message.service.name} outside the order")
    return message
