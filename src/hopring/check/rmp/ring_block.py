"""Rings of peers as a block: records of their events, judged by the checks of R1 to R17 or by queries.

Below       the events and checks of this package.
Above       the table of blocks, by which traces hold records and audits judge them.
Invariants  a record has the events of one group, in the order of their times.
"""

from itertools import islice
from typing import Final

from hopring.check.block_record import BlockFindings, BlockInstance, BlockRecord, block_property
from hopring.check.properties.property import VIOLATIONS_MAX
from hopring.check.rmp import peer_events, ring_queries
from hopring.check.rmp.peer_events import PeerEvent
from hopring.check.rmp.peer_history import index_peers
from hopring.check.rmp.peer_judge import PEER_PROPERTIES
from hopring.check.rmp.ring_tables import (
    BODY,
    CONFIRMED,
    ENDED,
    HEARD,
    LIST,
    ORDERED,
    SENT,
    SHOWN,
    SIGNAL,
    STRANGER_ACKNOWLEDGED,
    STRANGER_SHOWN,
    SUSPENDED,
    TOLD,
)

RING_KINDS: Final[dict[str, type]] = {
    "ring_peer_started": peer_events.PeerStarted,
    "ring_join_asked": peer_events.AskedToJoin,
    "ring_leave_asked": peer_events.AskedToLeave,
    LIST: peer_events.ListSeen,
    SIGNAL: peer_events.ListClosed,
    SENT: peer_events.DataSent,
    "ring_data_left": peer_events.DataLeft,
    BODY: peer_events.BodySeen,
    ORDERED: peer_events.SlotsOrdered,
    HEARD: peer_events.OrderingSeen,
    CONFIRMED: peer_events.PassConfirmed,
    SHOWN: peer_events.DataShown,
    SUSPENDED: peer_events.PeerSuspended,
    ENDED: peer_events.RingStayEnded,
    "ring_queue_seen": peer_events.QueueSeen,
    "ring_fence_given": peer_events.FenceGiven,
    "ring_fence_ended": peer_events.FenceEnded,
    TOLD: peer_events.ToldToAnswer,
    STRANGER_ACKNOWLEDGED: peer_events.StrangerAcknowledged,
    STRANGER_SHOWN: peer_events.StrangerShown,
    "ring_packet_sent_again": peer_events.PacketSentAgain,
    "ring_window_seen": peer_events.WindowSeen,
    "ring_end_seen": peer_events.EndSeen,
}
"""By the kind of a row in a trace: the event."""


def judge_rings(record: BlockRecord) -> BlockFindings:
    """All violations in a record of a ring."""
    findings = BlockFindings(record.name)
    events = [event for event in record.events if isinstance(event, PeerEvent)]
    assert len(events) == len(record.events), "a record of rings has their events only"
    history = index_peers(events, record.quiet_end)
    for name, check in PEER_PROPERTIES.items():
        for fault in islice(check(history), VIOLATIONS_MAX):
            findings.at(name, history.place_of(fault.event), fault.text)
    return findings


_QUERIES: Final = {
    "R1": (
        ring_queries.ONE_CONTENT,
        "{process} says something else of {timestamp} of epoch {epoch} than others",
    ),
    "R2": (ring_queries.RISING_ORDER, "{process} goes back in the order, or leaves numbers of a source out"),
    "R3": (ring_queries.WITHOUT_HOLES, "{process} orders or confirms without all that comes before"),
    "R4": (ring_queries.AS_NAMED, "{process} orders where it was not named, or where something is ordered"),
    "R5": (ring_queries.SURVIVES, "{process} goes on without {message}, which was to survive the loss"),
    "R6": (ring_queries.ONE_PRIMARY, "{process} breaks the chain of primary lists, or their order"),
    "R7": (ring_queries.MINIMUM, "{process} goes on with too few members"),
    "R8": (ring_queries.GONE, "{process} installs a list with {member}, which was gone"),
    "R9": (ring_queries.JOINER, "{process} sees a joiner out of its place, or members that move"),
    "R10": (ring_queries.FREED, "{process} has freed what {other} lacks"),
    "R11": (ring_queries.KEPT, "{process} keeps what nobody needs, or a message twice"),
    "R12": (
        ring_queries.ONE_HOLDER,
        "{process} gets {lock}, which another has, or with a fence that is passed",
    ),
    "R13": (ring_queries.HOLDER_ANSWERS, "{process} is wrongly told, or not told, to answer {message}"),
    "R14": (ring_queries.STRANGERS, "{process} acknowledges or delivers {message} of {client} wrongly"),
    "R15": (ring_queries.RESTS, "{process} does not come to rest with the others"),
    "R16": (ring_queries.LIMITS, "{process} passes a limit"),
    "R17": (ring_queries.VISITS, "from the ordering of {process} on, the token leaves somebody out"),
}

_WHEN_QUIET: Final = "R15"


def _property(name: str) -> BlockInstance:
    number = name.partition(" ")[0]
    query, sentence = _QUERIES[number]
    return block_property(judge_rings, name, query, sentence, when_quiet=number == _WHEN_QUIET)


RING_PROPERTIES: Final = tuple([_property(name) for name in PEER_PROPERTIES])
