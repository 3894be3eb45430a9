"""Planted bugs of pruning and of messages that overtake a join."""

from collections.abc import Callable
from typing import Any, Final

from hopring.groups.delivery import EarlyMessages, Gets
from hopring.groups.events import DeliverBundle
from hopring.groups.groups import Groups
from hopring.groups.interest import InterestTable
from hopring.groups.messages import GroupInterest
from hopring.groups.requests import Requests
from hopring.ids import DaemonId, GroupName
from hopring.membership.events import Rift, SubmitMessage
from hopring.ordering.entry import Message, Position
from hopring.sim.campaign.bugs import Bug, client_bug


def _as_in_one_site(take: Callable[[Requests, bool, bool, bool], GroupInterest | SubmitMessage | None]) -> Any:
    return lambda self, _one_site, queue_open, bulk_open: take(self, True, queue_open, bulk_open)


def _deaf(heard: Callable[[InterestTable, Message], None]) -> Any:
    del heard
    return lambda _self, _message: None


def _for_the_site(apply: Callable[[InterestTable, DaemonId, GroupInterest], None]) -> Any:
    def whoever_speaks_last(self: InterestTable, daemon: DaemonId, word: GroupInterest) -> None:
        apply(self, daemon, word)
        site = self._site_of[daemon]
        for group in word.off:
            said = self._said.get(GroupName(group), {})
            for one in [other for other in said if self._site_of[other] == site]:
                said[one] = -abs(said[one])

    return whoever_speaks_last


def _nothing_owed(take: Callable[[EarlyMessages, Position, Gets], list[DeliverBundle]]) -> Any:
    def forget(self: EarlyMessages, at: Position, gets: Gets) -> list[DeliverBundle]:
        take(self, at, gets)
        return []

    return forget


def _never_behind(behind: Callable[[EarlyMessages, int, DeliverBundle], bool]) -> Any:
    del behind
    return lambda _self, _session, _deliver: False


def _though_joining(look_idle: Callable[[Requests, GroupName, int], None]) -> Any:
    del look_idle
    return lambda self, group, now_us: self.own.idle(group, now_us)


def _past_it(rift: Callable[[Groups, Rift], None]) -> Any:
    del rift
    return lambda _self, _event: None


BUGS: Final[tuple[Bug, ...]] = (
    client_bug(
        "join-unannounced",
        "rule 20",
        "a join is sent before others know of the interest, and they prune what the joiner is owed",
        ("hopring.groups.requests:Requests.take", _as_in_one_site),
    ),
    client_bug(
        "interest-on-delivery",
        "rule 22",
        "interest counts from its delivery, not from its receipt",
        ("hopring.groups.interest:InterestTable.heard", _deaf),
    ),
    client_bug(
        "interest-per-site",
        "rule 19",
        "interest is kept per site: when one daemon loses it, so do its neighbours",
        ("hopring.groups.interest:InterestTable._apply", _for_the_site),
    ),
    client_bug(
        "early-missed",
        "rule 28",
        "a Reliable message that overtakes a join is not kept for the joiner",
        ("hopring.groups.delivery:EarlyMessages.take", _nothing_owed),
    ),
    client_bug(
        "fifo-passes-early",
        "rules 28 and 58",
        "a FIFO message passes one of the same sender that a joiner is still owed",
        ("hopring.groups.delivery:EarlyMessages._behind", _never_behind),
    ),
    client_bug(
        "idle-while-joining",
        "rule 23",
        "interest is called off after a leave, though a join is under way",
        ("hopring.groups.requests:Requests.look_idle", _though_joining),
    ),
    client_bug(
        "rift-ignored",
        "rule 31 with pruning",
        "what some went past, because it is not for their sites, moves the signal of those whom it is for",
        ("hopring.groups.groups:Groups._rift", _past_it),
    ),
)
