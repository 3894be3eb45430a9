"""Takes in what has come: advances over slots that are complete, learns from them, and frees stable ones.

Invariants  lists, lines of sources and holders follow the consecutive timestamp, not what is delivered: the
            token does, too. A slot is freed when it is delivered and all members of its list have it (trap 3).
"""

from dataclasses import dataclass

from hopring.rmp.calls.clients import ClientCalls
from hopring.rmp.delivery import Delivery
from hopring.rmp.order.slots import Ordering
from hopring.rmp.state import PeerRingState
from hopring.wire.rmp.packets import NewListPacket


@dataclass(slots=True)
class Intake:
    """The pass over the queue that follows each change of it."""

    state: PeerRingState
    delivery: Delivery
    clients: ClientCalls

    def take_in(self) -> None:
        """Advances over what is here, learns from it, delivers, and frees what is stable."""
        epoch = self.state.epoch
        for slot in epoch.queue.advance():
            if slot.id is not None:
                self.state.data.pass_line(slot.id)
                self.clients.passed(slot.id)
            elif isinstance(slot.packet, NewListPacket):
                self._list_passed(slot.packet)
            if slot.by is slot.packet:
                self.learn(slot.by)
        self.delivery.advance()
        self._free()

    def _list_passed(self, packet: NewListPacket) -> None:
        """A list has its turn in the order: the token follows it, whether or not it is shown yet."""
        lists = self.state.epoch.lists
        if packet.timestamp <= lists.present.id.timestamp:
            return
        old = lists.present
        lists.add(packet.list)
        self.state.note_gone(old, packet.list)
        for one in packet.list.members:
            if one.membership not in old.memberships:
                self.state.data.add_source(one.process, one.seq)
        for process in old.processes:
            if process not in packet.list:
                self.state.data.remove_source(process)
        for process in self.clients.list_passed(packet.list):
            self.delivery.passed.pop(process, None)

    def learn(self, ordering: Ordering) -> None:
        """Notes that who made an ordering has everything up to it."""
        member = self.state.epoch.lists.membership(ordering.source)
        if member is not None:
            self.state.epoch.holders.learn(member, ordering.last)

    def _free(self) -> None:
        """Frees slots from the front that were delivered and that all members have (trap 3)."""
        epoch, mine = self.state.epoch, self.state.my_membership
        ignored = epoch.lists.lost if mine is None else epoch.lists.lost | {mine}
        while epoch.queue.front <= epoch.delivered:
            members = epoch.lists.at(epoch.queue.front)
            line = min(epoch.holders.stable_line(members, ignored), epoch.delivered)
            following = next(
                (one.id.timestamp for one in epoch.lists.lists if one.id.timestamp > members.id.timestamp),
                line + 1,
            )
            front = epoch.queue.front
            epoch.queue.free(min(line, following - 1))
            if epoch.queue.front == front:
                break
        epoch.lists.forget_below(min(epoch.queue.front, epoch.delivered))
