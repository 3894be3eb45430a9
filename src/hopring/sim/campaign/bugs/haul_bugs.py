"""Planted bugs of the members of the long-haul service: their log, their connections, what they do outside."""

from collections.abc import Callable
from typing import Any, Final

from hopring.blocks.log.events import SendToGroup
from hopring.blocks.log.messages import EpochPromise, Tell
from hopring.blocks.log.records import LogRecord, PromiseRecord
from hopring.blocks.log.replica import Replica, voters
from hopring.haul.application import ApplicationManager
from hopring.haul.entries import Accepted, LinkOpened, SwitchRequest
from hopring.haul.handing import Handing
from hopring.haul.ids import ClusterId, ClusterMask
from hopring.haul.link.connection import Connection
from hopring.haul.link.frames import LinkFrame, LinkGeneration, ReceivedFrame, SetReceived
from hopring.haul.managed_set import ManagedSet, cost_of
from hopring.haul.member import WideMember
from hopring.haul.member_events import HandOver
from hopring.sim.campaign.bugs.log_bugs import (
    applied_again,
    behind_the_signal,
    of_the_view,
    told_from_memory,
)
from hopring.sim.campaign.bugs.planting import Bug, wide_bug


def _in_memory(write: Callable[..., None]) -> Any:
    def promises_without_a_record(self: Replica, record: LogRecord, then: EpochPromise | None = None) -> None:
        if not isinstance(record, PromiseRecord):
            write(self, record, then)
            return
        self.image.take(record)
        if then is not None:
            self._out.append(SendToGroup(then))

    return promises_without_a_record


def _by_length(best: Callable[..., str]) -> Any:
    def longest(tells: dict[str, Tell]) -> str:
        able = [one for one, tell in tells.items() if tell.name and tell.votes]
        if not voters(list(tells.values())):
            return best(tells)
        return min(able, key=lambda one: (-tells[one].end, -tells[one].table[-1][0], tells[one].name, one))

    return longest


def _by_link(due: Callable[..., list[HandOver]]) -> Any:
    def each_manager_hands_over(self: Handing) -> list[HandOver]:
        mine = self._app.forwarders
        self._app.forwarders = dict.fromkeys(mine, self._name)
        found = due(self)
        self._app.forwarders = mine
        return [one for one in found if _manager_of(self._app, one, mine) == self._name]

    return each_manager_hands_over


def _manager_of(app: ApplicationManager, one: HandOver, forwarders: dict[str, str]) -> str:
    sender = app.me if one.item.parcel is None else one.item.parcel.id.sender
    link = app.links.get(sender)
    return link.member if link is not None and link.member in app.members else forwarders[one.set]


def _any_copy(seen: Callable[..., None]) -> Any:
    def counts_the_highest(self: Handing, name: str, number: int, *, present: bool) -> None:
        seen(self, name, number, present=present)
        one = self._sets.get(name)
        if one is not None and present:
            one.seen = max(one.seen, number)

    return counts_the_highest


def _on_arrival(acknowledgements: Callable[..., list[LinkFrame]]) -> Any:
    def acknowledges_what_arrived(
        self: Connection, sets: dict[str, ManagedSet], now_us: int
    ) -> list[LinkFrame]:
        found = acknowledgements(self, sets, now_us)
        early = [
            SetReceived(name, one.arrived)
            for name, one in self.receivers.items()
            if one.arrived > self.told.get(name, 0)
        ]
        self.told.update(early)
        return [*found, ReceivedFrame(tuple(early))] if early else found

    return acknowledges_what_arrived


def _not_kept(shorten: Callable[..., None]) -> Any:
    def for_the_group_alone(self: ManagedSet) -> None:
        durable, self.durable = self.durable, {}
        shorten(self)
        self.durable = durable

    return for_the_group_alone


def _from_one(opened: Callable[..., None]) -> Any:
    def begins_to_count_again(self: ApplicationManager, event: LinkOpened) -> None:
        before = self.links[event.peer].generation if event.peer in self.links else LinkGeneration(0, 0)
        opened(self, event)
        if event.peer in self.links and self.links[event.peer].generation != before:
            for managed in self.sets.values():
                if event.peer in managed.channels:
                    managed.channels[event.peer].received = 0

    return begins_to_count_again


def _without_a_look(due: Callable[..., list[HandOver]]) -> Any:
    def to_whoever_is_there(self: Handing) -> list[HandOver]:
        present = self.present
        self.present = {one.group for one in self._app.sets.values() if one.group}
        found = due(self)
        self.present = present
        return found

    return to_whoever_is_there


def _as_if_seen(seen: Callable[..., None]) -> Any:
    def counts_without_a_member(self: Handing, name: str, number: int, *, present: bool) -> None:
        del present
        seen(self, name, number, present=True)

    return counts_without_a_member


def _leaves_open(switch: Callable[..., object]) -> Any:
    def from_the_next_connection_on(self: ApplicationManager, request: SwitchRequest) -> object:
        link = self.links.get(request.peer)
        if link is None:
            return switch(self, request)
        link.is_on = request.on
        return Accepted()

    return from_the_next_connection_on


def _never_full(full: Callable[..., ClusterId | None]) -> Any:
    del full

    def has_always_room(self: ManagedSet, destinations: ClusterMask) -> ClusterId | None:
        del self, destinations
        return None

    return has_always_room


def _own_clock(shared: property) -> Any:
    del shared

    def by_the_own_clock(self: WideMember) -> int:
        return self._now_us

    return property(by_the_own_clock)


def _with_delayed(full: property) -> Any:
    def counts_what_waits_for_causes(self: ManagedSet) -> bool:
        assert full.fget is not None, "a property that can be read"
        size_bytes = sum([cost_of(self.kept[one]) for one in self.core.delayed.delayed])
        return bool(full.fget(self)) or self.line_bytes + size_bytes >= self.options.spool_bytes_max

    return property(counts_what_waits_for_causes)


_REPLICA: Final = "hopring.blocks.log.replica"
_APP: Final = "hopring.haul.application:ApplicationManager"
_HANDING: Final = "hopring.haul.handing:Handing"

BUGS: Final[tuple[Bug, ...]] = (
    wide_bug(
        "sends-before-sync",
        "long-haul 5.1: nothing goes out that is not accepted",
        "a member tells the others that an entry is synced when it has it in memory",
        (f"{_REPLICA}:Replica._operation", told_from_memory),
    ),
    wide_bug(
        "acks-before-sync",
        "long-haul 5.1: what is acknowledged is accepted",
        "frames are acknowledged when they arrive",
        ("hopring.haul.link.connection:Connection._acknowledgements", _on_arrival),
    ),
    wide_bug(
        "view-majority",
        "long-haul 2.1.2: only a majority of the configured members serves",
        "a majority of the members of the view is enough",
        (f"{_REPLICA}:Replica.majority", of_the_view),
    ),
    wide_bug(
        "no-promise",
        "property W11: a promise outlives a crash",
        "the promise of an epoch is kept in memory only",
        (f"{_REPLICA}:Replica._write", _in_memory),
    ),
    wide_bug(
        "longest-log",
        "property W11: the log with the highest epoch is chosen",
        "the longest log is chosen, whatever its last epoch is",
        (f"{_REPLICA}:best_of", _by_length),
    ),
    wide_bug(
        "appends-after-signal",
        "property W11: entries behind a signal may be missing at others",
        "messages behind a signal count as those before it",
        (f"{_REPLICA}:Replica._message", behind_the_signal),
    ),
    wide_bug(
        "two-forwarders",
        "long-haul 5.1: one forwarder for each set",
        "the manager of each connection hands over what came by it",
        (f"{_HANDING}.due", _by_link),
        (f"{_HANDING}.seen", _any_copy),
    ),
    wide_bug(
        "handed-unseen",
        "long-haul 4.1.1: handed over is what a member of the group was there for",
        "an item counts as handed over although nobody was in the group",
        (f"{_HANDING}.due", _without_a_look),
        (f"{_HANDING}.seen", _as_if_seen),
    ),
    wide_bug(
        "durable-forgotten",
        "property W7: a durable consumer has what it has not done with",
        "an item goes when the group has it, though a durable consumer has not done with it",
        ("hopring.haul.managed_set:ManagedSet._shorten", _not_kept),
    ),
    wide_bug(
        "clock-behind",
        "property W8: time of the state goes on whoever keeps it",
        "a member whose clock is behind takes its own clock for the time of the state",
        ("hopring.haul.member:WideMember._shared_us", _own_clock),
    ),
    wide_bug(
        "delayed-fill",
        "property W7: what waits for its causes leaves room for them",
        "parcels that wait for their causes count for the limit of the group",
        ("hopring.haul.managed_set:ManagedSet.is_full", _with_delayed),
    ),
    wide_bug(
        "number-restarts",
        "long-haul 2.1.3: a frame keeps its number over all connections",
        "with each connection the numbers of received frames begin again",
        (f"{_APP}._opened", _from_one),
    ),
    wide_bug(
        "request-twice",
        "property W10: a client repeats what may be lost",
        "a request is carried out as often as it is sent",
        ("hopring.blocks.log.book:OperationBook.apply", applied_again),
    ),
    wide_bug(
        "off-link-sends",
        "long-haul 2.1.1: a link that is off is silent",
        "a link that is switched off stays in use until its connection ends",
        (f"{_APP}._switch", _leaves_open),
    ),
    wide_bug(
        "limit-ignored",
        "property W15: what waits has a limit",
        "requests are taken whatever waits for their destinations",
        ("hopring.haul.managed_set:ManagedSet.full_towards", _never_full),
    ),
)
