"""Planted bugs of rings of RMP: the token, the order, holders, lists, and what is sent."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from hopring.ordering.holders import MAJORITY
from hopring.rmp.delivery import Delivery
from hopring.rmp.events import PacketArrived
from hopring.rmp.flow.flow import SenderFlow
from hopring.rmp.intake import Intake
from hopring.rmp.joining import Joiner
from hopring.rmp.order.data_list import DataList
from hopring.rmp.order.holders import are_enough
from hopring.rmp.order.list_history import ListHistory
from hopring.rmp.order.slots import Ordering, Slot
from hopring.rmp.ring import GroupRing
from hopring.rmp.state import PeerRingState, RingPhase
from hopring.rmp.token import TokenRole
from hopring.services import Service
from hopring.sim.campaign.bugs.planting import Bug, ring_bug
from hopring.wire.rmp.ids import DataId, ListMembership, PeerProcess
from hopring.wire.rmp.lists import ListMember, PeerList
from hopring.wire.rmp.locks import ListLocks
from hopring.wire.rmp.packets import (
    TUPLES_MAX,
    AckPacket,
    DataPacket,
    ListChangeRequest,
    NewListKind,
    NewListPacket,
)

Holders = frozenset[ListMembership]


# The token.


def _with_holes(here: property) -> Any:
    del here

    def accepted_with_holes(self: TokenRole) -> bool:
        state = self.state
        return state.epoch_state is not None and not state.frozen and state.epoch.queue.highest.next == state.me

    return property(accepted_with_holes)


def _confirms_first(add: Callable[..., None]) -> Any:
    def confirms_as_it_is_named(self: GroupRing, packet: Ordering, now_us: int) -> None:
        add(self, packet, now_us)
        if packet.next == self.state.me and packet.source != self.state.me:
            self.token.confirm(packet)

    return confirms_as_it_is_named


def _named_once_is_named(ordering: Callable[..., None]) -> Any:
    def orders_again(self: GroupRing, packet: Ordering, now_us: int) -> None:
        old = packet.next == self.state.me and packet.timestamp <= self.token.accepted
        ordering(self, packet, now_us)
        queue, member = self.state.epoch.queue, self.state.my_member
        may_order = not self.state.frozen and queue.complete and member is not None
        if old and may_order and not self.token.here:
            ordered = self.state.data.orderable(TUPLES_MAX)
            named = self.state.follower()
            self._order(AckPacket(self.state.me, queue.highest.last + 1, named, ordered), now_us)

    return orders_again


def _first_skipped(follower: Callable[..., PeerProcess]) -> Any:
    def follower_without_the_first(self: PeerRingState) -> PeerProcess:
        found, ring = follower(self), self.present.processes
        # Now and then it is named, or messages that wait for it would keep the token going for ever.
        skips = self.epoch.queue.highest.last // (4 * len(ring)) % 2
        return ring[1] if skips and len(ring) > 2 and found == ring[0] != self.me else found

    return follower_without_the_first


def _never_rests(hold: Callable[..., int]) -> Any:
    return lambda self: min(hold(self), self.state.options.rest_us // (8 * len(self.state.present)))


# Holders, and what is freed.


def _transfers_count(holders: Callable[..., Holders]) -> Any:
    def as_many_as_transfers(self: Delivery, timestamp: int, members: PeerList) -> Holders:
        slots = self.state.epoch.queue.slots.values()
        made = {slot.by.timestamp for slot in slots if slot.by.last >= timestamp}
        # As many members as there were orderings, whoever made them; and this one.
        counted = sorted(members.memberships - holders(self, 2**62, members))[: len(made)]
        return holders(self, 2**62, members) | frozenset(counted)

    return as_many_as_transfers


def _one_fewer(enough: Callable[..., bool]) -> Any:
    def one_holder_fewer(
        holders: Holders, members: PeerList, lists: ListHistory, service: Service, resilience: int
    ) -> bool:
        k = resilience - 1 if 0 < resilience < MAJORITY else resilience
        return enough(holders, members, lists, service, k)

    return one_holder_fewer


def _in_any_list(holders: Callable[..., Holders]) -> Any:
    def holders_of_the_present_list(self: Delivery, timestamp: int, members: PeerList) -> Holders:
        return holders(self, timestamp, members) | self.state.epoch.holders.of(timestamp, self.state.present)

    return holders_of_the_present_list


def _with_source(may: Callable[..., bool]) -> Any:
    def source_is_a_holder(self: Delivery, slot: Slot) -> bool:
        packet = slot.packet
        if not isinstance(packet, DataPacket) or not packet.resilience:
            return may(self, slot)
        lists = self.state.epoch.lists
        members = lists.at(slot.timestamp)
        sources = [one for one in members.memberships if one.process == packet.id.source]
        holders = self._holders(slot.timestamp, members) | frozenset(sources)
        return are_enough(holders, members, lists, packet.service, packet.resilience)

    return source_is_a_holder


def _by_distance(free: Callable[..., None]) -> Any:
    def frees_what_is_far_behind(self: Intake) -> None:
        epoch = self.state.epoch
        epoch.queue.free(min(epoch.delivered, epoch.queue.consecutive - len(self.state.present)))
        free(self)

    return frees_what_is_far_behind


def _frees_nothing(free: Callable[..., None]) -> Any:
    del free
    return lambda _self: None


# The order.


def _any_waiting(orderable: Callable[..., tuple[DataId, ...]]) -> Any:
    del orderable

    def orders_what_is_here(self: DataList, most: int) -> tuple[DataId, ...]:
        return tuple(self.packets)[:most]

    return orders_what_is_here


def _any_epoch(packet: Callable[..., None]) -> Any:
    def takes_orderings_of_any_epoch(self: GroupRing, event: PacketArrived, now_us: int) -> None:
        one = event.packet
        in_order = isinstance(one, AckPacket | DataPacket)
        if in_order and self.state.epoch_state is not None and self.state.phase is RingPhase.IN:
            self._packet_inside(event, now_us)
        else:
            packet(self, event, now_us)

    return takes_orderings_of_any_epoch


# Lists.


def _any_number(old: Callable[..., bool]) -> Any:
    def numbers_do_not_count(members: PeerList, request: ListChangeRequest) -> bool:
        return old(members, replace(request, number=2**40))

    return numbers_do_not_count


def _stops_serving(here: property) -> Any:
    assert here.fget is not None, "a property that can be read"
    is_here = here.fget

    def has_left_for_good(self: TokenRole) -> bool:
        return self.state.my_member is not None and bool(is_here(self))

    return property(has_left_for_good)


def _same_member(joiner: Callable[..., ListMember]) -> Any:
    def joins_as_who_it_was(request: ListChangeRequest) -> ListMember:
        return replace(joiner(request), joined=1)

    return joins_as_who_it_was


def _accepts_any(accepts: Callable[..., bool]) -> Any:
    del accepts

    def accepts_its_place(self: Joiner, packet: NewListPacket) -> bool:
        named = packet.next == self.state.me and packet.kind is NewListKind.ORDERED
        return self.state.phase is RingPhase.JOINING and named and self.state.me in packet.list

    return accepts_its_place


# Locks.


def _dead_fences(settled: Callable[..., PeerList]) -> Any:
    def passes_the_fence_on(members: PeerList) -> PeerList:
        held = {one.number: one for one in members.locks.locks if one.fence}
        out = settled(members)
        locks = [
            replace(one, fence=held[one.number].fence)
            if one.number in held and held[one.number].claims[0].member not in members.memberships
            else one
            for one in out.locks.locks
        ]
        return replace(out, locks=ListLocks(tuple(locks), out.locks.fence))

    return passes_the_fence_on


def _same_fence(settled: Callable[..., PeerList]) -> Any:
    def grants_the_last_fence(members: PeerList) -> PeerList:
        before, out = max(1, members.locks.fence), settled(members)
        taken = {one.fence for one in out.locks.locks if 0 < one.fence <= before}
        locks = [replace(one, fence=before) if one.fence > before else one for one in out.locks.locks]
        if before in taken or sum(one.fence > before for one in out.locks.locks) > 1:
            return out
        return replace(out, locks=ListLocks(tuple(locks), before))

    return grants_the_last_fence


# Sending.


def _kept(give_back: Callable[..., None]) -> Any:
    del give_back

    def keeps_what_it_took(self: SenderFlow, seq: int, now_us: int) -> None:
        del self, seq, now_us

    return keeps_what_it_took


def _kept_for_ever(forget: Callable[..., None]) -> Any:
    del forget

    def forgets_nothing(self: SenderFlow, seq: int) -> None:
        del self, seq

    return forgets_nothing


def _always_open(may_send: Callable[..., bool]) -> Any:
    del may_send

    def is_always_open(self: SenderFlow, size_bytes: int, now_us: int) -> bool:
        del self, size_bytes, now_us
        return True

    return is_always_open


_RING: Final = "hopring.rmp.ring:GroupRing"
_TOKEN: Final = "hopring.rmp.token:TokenRole"
_DELIVERY: Final = "hopring.rmp.delivery:Delivery"
_FLOW: Final = "hopring.rmp.flow.flow:SenderFlow"
_CHANGES: Final = "hopring.rmp.lists.changes"

BUGS: Final[tuple[Bug, ...]] = (
    ring_bug(
        "token-with-holes",
        "RMP 4.2: a site accepts the token when it has everything up to it",
        "a site that is named orders at once, whatever it lacks",
        (f"{_TOKEN}.here", _with_holes),
    ),
    ring_bug(
        "confirm-before-acceptance",
        "RMP trap 8: no Confirm before the token is accepted",
        "a site confirms as soon as it is named",
        (f"{_RING}._add_ordering", _confirms_first),
    ),
    ring_bug(
        "old-naming-accepted",
        "RMP trap 8: only the site that the highest ordering names orders",
        "a late copy of an ACK that once named a site makes it order again",
        (f"{_RING}._ordering", _named_once_is_named),
    ),
    ring_bug(
        "member-skipped",
        "RMP 4.2: the token visits all members",
        "the first member of a list is passed over for some rotations",
        ("hopring.rmp.state:PeerRingState.follower", _first_skipped),
    ),
    ring_bug(
        "null-ack-for-ever",
        "RMP 4.2: an idle token rests",
        "an idle ring passes the token eight times as often as it may",
        (f"{_TOKEN}._hold_us", _never_rests),
    ),
    ring_bug(
        "transfers-counted-as-holders",
        "RMP trap 2: transfers of the token are not holders",
        "a message has as many holders as the token had transfers behind it",
        (f"{_DELIVERY}._holders", _transfers_count),
        aim="joiners",
    ),
    ring_bug(
        "k-minus-one",
        "RMP trap 1: k+1 members hold what survives k losses",
        "a message is resilient when k members have it",
        ("hopring.rmp.delivery:are_enough", _one_fewer),
        aim="joiners",
    ),
    ring_bug(
        "joiner-counts-as-holder",
        "RMP trap 2: holders are members of the list at the message's place",
        "a member that joined behind a message counts as a holder of it",
        (f"{_DELIVERY}._holders", _in_any_list),
        aim="joiners",
    ),
    ring_bug(
        "source-counts",
        "RMP trap 2: the source counts by an ACK of its own",
        "the source of a message counts as a holder of its place in the order",
        (f"{_DELIVERY}.may_deliver", _with_source),
        aim="holders",
    ),
    ring_bug(
        "freed-after-n-timestamps",
        "RMP trap 3: a slot is freed when all members have it",
        "slots are freed that are as many timestamps behind as there are members",
        ("hopring.rmp.intake:Intake._free", _by_distance),
    ),
    ring_bug(
        "acks-kept",
        "RMP 4.2: stable slots are freed",
        "slots are never freed, however many have them",
        ("hopring.rmp.intake:Intake._free", _frees_nothing),
    ),
    ring_bug(
        "gap-ordered",
        "RMP trap 4: packets of a source are ordered without gaps",
        "the token site orders whatever is here",
        ("hopring.rmp.order.data_list:DataList.orderable", _any_waiting),
    ),
    ring_bug(
        "epoch-ignored",
        "RMP trap 11: packets count in their epoch only",
        "ACKs and Data are taken whatever epoch they name",
        (f"{_RING}._packet", _any_epoch),
    ),
    ring_bug(
        "request-ordered-twice",
        "RMP trap 9: requests are numbered, and carried out once",
        "a request is carried out whenever it comes",
        ("hopring.rmp.token:is_old", _any_number),
    ),
    ring_bug(
        "leaver-stops-serving",
        "RMP 4.3: a leaver serves until all it holds is stable",
        "a leaver does not take the token by which it would prove that it has everything",
        (f"{_TOKEN}.here", _stops_serving),
    ),
    ring_bug(
        "removed-returns",
        "RMP 4.3: a removed member returns as a new one",
        "a process that joins again is the member that it was",
        (f"{_CHANGES}:_joiner", _same_member),
        ("hopring.rmp.joining:Joiner.accepts", _accepts_any),
    ),
    ring_bug(
        "ring-lock-of-dead-kept",
        "RMP trap 24: the list that drops a holder releases its lock",
        "the next holder of a dead one's lock has its fence",
        (f"{_CHANGES}:settled_locks", _dead_fences),
    ),
    ring_bug(
        "fence-not-raised",
        "RMP trap 24: each grant has a fence above all before",
        "a grant has the fence of the last one",
        (f"{_CHANGES}:settled_locks", _same_fence),
    ),
    ring_bug(
        "window-not-restored",
        "RMP 4.6: the first ACK of a packet gives its window back",
        "the window is never given back",
        (f"{_FLOW}.acknowledged", _kept),
        (f"{_FLOW}.forget", _kept_for_ever),
    ),
    ring_bug(
        "window-ignored",
        "RMP 4.6: no more bytes than the window are under way",
        "packets are sent whatever is under way",
        (f"{_FLOW}.may_send", _always_open),
    ),
)
