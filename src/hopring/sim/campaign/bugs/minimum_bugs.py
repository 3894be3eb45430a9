"""Planted bugs of minimum sizes: who counts, what is lost, what is delivered and what waits."""

from collections.abc import Callable, Collection
from typing import Any, Final

from hopring.engine import Delivered
from hopring.groups.delivery import GroupDelivery
from hopring.groups.events import DeliverBundle
from hopring.groups.minimum import NO_MINIMUM, GroupMinimum
from hopring.groups.names import GroupMember
from hopring.groups.sessions import LocalSessions
from hopring.ids import GroupName
from hopring.sim.campaign.bugs.planting import Bug, block_bug


def _delivers(deliver: Callable[..., list[DeliverBundle]]) -> Any:
    def although_suspended(self: GroupDelivery, event: Delivered) -> list[DeliverBundle]:
        kept, self.suspended = self.suspended, ()
        out = deliver(self, event)
        self.suspended = kept
        return out

    return although_suspended


def _forgets(lose: Callable[..., None]) -> Any:
    del lose

    def with_what_they_stated(self: GroupMinimum, members: Collection[GroupMember]) -> None:
        for one in members:
            self.stated.pop(one, NO_MINIMUM)

    return with_what_they_stated


def _anywhere(is_met: Callable[..., bool]) -> Any:
    def as_if_primary(self: GroupMinimum, members: int, primary: bool, whole: bool) -> bool:
        del primary
        return is_met(self, members, True, whole)

    return as_if_primary


def _stays_held(unblock: Callable[..., None]) -> Any:
    def without_the_held(self: LocalSessions, groups: Collection[GroupName]) -> None:
        held, self.held = self.held, {}
        unblock(self, groups)
        self.held = held

    return without_the_held


BUGS: Final[tuple[Bug, ...]] = (
    block_bug(
        "minimum",
        "suspended-delivers",
        "property M1, RMP R7 and trap 25",
        "messages that are in the order are delivered although the group is suspended",
        ("hopring.groups.delivery:GroupDelivery.deliver", _delivers),
    ),
    block_bug(
        "minimum",
        "lost-minimum-forgotten",
        "property M4, RMP 3.2: the maximum over the old list counts",
        "a split takes away the minimum of those that it takes away",
        ("hopring.groups.minimum:GroupMinimum.lose", _forgets),
    ),
    block_bug(
        "minimum",
        "minority-goes-on",
        "property M3, RMP traps 15 and 16",
        "a group whose minimum is a majority goes on without a primary view",
        ("hopring.groups.minimum:GroupMinimum.is_met", _anywhere),
    ),
    block_bug(
        "minimum",
        "held-for-ever",
        "property M5, RMP trap 25: what was sent waits until the group goes on",
        "messages that wait for a suspended group are not sent when it goes on",
        ("hopring.groups.sessions:LocalSessions.unblock", _stays_held),
    ),
)
