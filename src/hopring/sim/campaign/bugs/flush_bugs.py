"""Planted bugs of view synchrony: marks of messages, agreements, kin, the signal."""

from collections.abc import Callable
from typing import Any, Final

from hopring.blocks.flushing import Attempt, BaseView, FlushMember, Output
from hopring.services import Service
from hopring.sim.campaign.bugs.planting import Bug, block_bug


def _of_the_next_view(sending_view: property) -> Any:
    del sending_view
    return property(lambda self: self.view if self.attempt is None else self.attempt.id)


def _any_attempt(current: Callable[..., Attempt | None]) -> Any:
    del current

    def whatever_it_names(self: FlushMember, _attempt_id: str) -> Attempt | None:
        attempt = self.attempt
        return None if attempt is None or attempt.closing else attempt

    return whatever_it_names


def _forgetting_the_way(unchanged: Callable[..., bool]) -> Any:
    def by_the_last_view(self: FlushMember, event: BaseView) -> bool:
        self.kin |= set(event.members) & set(self.members)
        return unchanged(self, event)

    return by_the_last_view


def _own_agreement(agreement: Callable[..., list[Output]]) -> Any:
    def at_its_own(self: FlushMember, sender: str, attempt_id: str, leader: str) -> list[Output]:
        if self.attempt is not None and sender == self.me:
            for one in self.attempt.members:
                self.attempt.agreements.setdefault(one, one)
        return agreement(self, sender, attempt_id, leader)

    return at_its_own


def _as_given(service_in_view: Callable[[Service], Service]) -> Any:
    del service_in_view
    return lambda service: service


BUGS: Final[tuple[Bug, ...]] = (
    block_bug(
        "flush",
        "flush-message-in-next-view",
        "thesis 3.4, Sending View Delivery: a message that is sent while the view is flushed belongs to it",
        "what a member sends between the request to flush and its agreement is marked with the next view",
        ("hopring.blocks.flushing:FlushMember.sending_view", _of_the_next_view),
    ),
    block_bug(
        "flush",
        "late-agreement-counts",
        "property V3, cascades: an agreement for an earlier attempt does not count",
        "an agreement counts for the present attempt, whichever it names",
        ("hopring.blocks.flushing:FlushMember._current", _any_attempt),
    ),
    block_bug(
        "flush",
        "kin-by-last-view",
        "thesis 2.4: who was elsewhere in between is not in the transitional set",
        "members with the same last view count as together, though they were apart since",
        ("hopring.blocks.flushing:FlushMember._unchanged", _forgetting_the_way),
    ),
    block_bug(
        "flush",
        "view-before-all-agreed",
        "property V3: no view before all its members have agreed",
        "a member installs the view with its own agreement",
        ("hopring.blocks.flushing:FlushMember._agreement", _own_agreement),
    ),
    block_bug(
        "flush",
        "reliable-without-a-place",
        "property V6, services: what a member sends that is left behind has a place in the order",
        "Reliable and FIFO messages are sent as such: of a member left behind, only some get them",
        ("hopring.blocks.flushing:service_in_view", _as_given),
    ),
)
