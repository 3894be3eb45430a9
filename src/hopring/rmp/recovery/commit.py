"""The commit of a recovered list: what is delivered before it, and what the next epoch begins with.

Implements  extended virtual synchrony for a ring: everything that some member delivered before the ring broke,
            the transitional signal, everything else up to the sync point, and the list (traps 18 and 19).
Invariants  all who commit a list from the same old one deliver the same before the signal, and behind it: both
            places are in the New List. Nothing above the sync point keeps its place.
Deviations  lists between the signal and the sync point are not shown: the recovered list replaces them.
"""

from hopring.ordering.holders import MAJORITY
from hopring.rmp.delivery import Delivery
from hopring.rmp.events import ListCause, ListClosing, ListInstalled
from hopring.rmp.lists.quorum import is_quorate
from hopring.rmp.order.slots import Slot
from hopring.rmp.state import PeerRingState
from hopring.wire.rmp.ids import ListMembership
from hopring.wire.rmp.packets import DataPacket, NewListPacket


def commit_list(state: PeerRingState, delivery: Delivery, packet: NewListPacket, now_us: int) -> None:
    """Ends the epoch of this member, and begins the one of a recovered list that it has acknowledged."""
    epoch, new = state.epoch, packet.list
    sync = packet.sync.timestamp
    assert epoch.queue.consecutive >= sync >= epoch.delivered, "who acknowledged has reached the sync point"
    for timestamp in range(epoch.delivered + 1, min(packet.settled, sync) + 1):
        delivery.deliver(epoch.queue.slots[timestamp])
    old, mine = state.installed, state.my_membership
    together: frozenset[ListMembership] = frozenset([mine] if mine is not None else [])
    if old is not None:
        together = new.memberships & old.memberships
        state.emit(ListClosing(old, together, new.id.epoch))
    for timestamp in range(epoch.delivered + 1, sync + 1):
        _deliver_behind_signal(state, delivery, epoch.queue.slots[timestamp], is_quorate(new))
    delivery.deliver_early_up_to(packet.sync)
    state.installed = new
    state.emit(ListInstalled(new, together, ListCause.FAILURE, None, is_quorate(new)))
    _begin_epoch(state, delivery, packet, now_us)


def _deliver_behind_signal(state: PeerRingState, delivery: Delivery, slot: Slot, primary: bool) -> None:
    if isinstance(slot.packet, NewListPacket):
        state.epoch.delivered = slot.timestamp
        return
    majority = isinstance(slot.packet, DataPacket) and slot.packet.resilience == MAJORITY
    delivery.deliver(slot, withheld=majority and not primary)


def _begin_epoch(state: PeerRingState, delivery: Delivery, packet: NewListPacket, now_us: int) -> None:
    """The queue starts with the new list; packets whose places are void wait for an ACK again."""
    slots = state.epoch.queue.slots.values()
    above = [slot.packet for slot in slots if slot.timestamp > packet.sync.timestamp]
    waiting = dict(state.data.packets)
    state.note_gone(state.present, packet.list)
    state.adopt(packet, now_us)
    state.epoch.delivered = packet.timestamp
    for member in packet.list.members:
        state.epoch.holders.learn(member.membership, packet.timestamp)
    for one in above:
        if isinstance(one, DataPacket) and one.id not in waiting:
            state.data.add(one)
    delivery.keep_early(packet.list)
    state.frozen = False
