"""Planted bugs of times to live and of retained values."""

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from hopring.engine import SubmitMessage
from hopring.groups.groups import Groups
from hopring.groups.messages import RetainedEntry
from hopring.groups.retained import RetainedValues
from hopring.groups.sessions import LocalSessions
from hopring.ids import GroupName
from hopring.sim.campaign.bugs.planting import Bug, block_bug
from hopring.wire.bundle import decode_bundle


def _sent_all_the_same(next_submission: Callable[..., SubmitMessage | None]) -> Any:
    def and_sent(
        self: LocalSessions, known: Collection[GroupName], bulk_open: bool = True
    ) -> SubmitMessage | None:
        before, now_us = len(self.expired), self.now_us
        out = next_submission(self, known, bulk_open)
        for send in self.expired[before:]:
            session = self.by_number.get(send.session)
            if session is not None and now_us - send.deadline_us < 1_000:
                # It was late by little: it is told as expired, and sent behind the others.
                self.put(session, type(send)(send.session, send.key, send.bundle))
        return out

    return and_sent


def _oldest(merge: Callable[..., list[GroupName]]) -> Any:
    def of_the_lowest_place(self: RetainedValues, entries: Iterable[RetainedEntry]) -> list[GroupName]:
        lowest: dict[str, RetainedEntry] = {}
        for one in entries:
            known = lowest.get(one.group)
            if known is None or (one.view, one.lts, one.site) < (known.view, known.lts, known.site):
                lowest[one.group] = one
        return merge(self, lowest.values())

    return of_the_lowest_place


def _only_for_joiners(show: Callable[..., None]) -> Any:
    def unless_by_a_merge(self: Groups, sessions: tuple[int, ...], group: GroupName) -> None:
        if len(sessions) == 1 and self.settled:
            show(self, sessions, group)

    return unless_by_a_merge


def _of_members(put: Callable[..., None]) -> Any:
    def once_in_two(self: RetainedValues, group: GroupName, value: Any, bundle: Any) -> None:
        if group not in self.by_group or decode_bundle(value.bundle).key.session % 2:
            put(self, group, value, bundle)

    return once_in_two


BUGS: Final[tuple[Bug, ...]] = (
    block_bug(
        "values",
        "expired-is-sent",
        "property X1: the end of a time to live is decided once",
        "a message is told as expired and sent nevertheless",
        ("hopring.groups.sessions:LocalSessions.next_submission", _sent_all_the_same),
    ),
    block_bug(
        "values",
        "older-value-wins",
        "property X5: a value is not older than the view",
        "when sides merge, the value with the lower place stays",
        ("hopring.groups.retained:RetainedValues.merge", _oldest),
    ),
    block_bug(
        "values",
        "merged-value-not-shown",
        "property X4: members learn which value counts after a merge",
        "members whose value was replaced by a merge are not told",
        ("hopring.groups.groups:Groups._show_retained", _only_for_joiners),
    ),
    block_bug(
        "values",
        "value-not-replaced",
        "property X3: a joiner gets the last value",
        "a later value of some sessions does not replace the one that is there",
        ("hopring.groups.retained:RetainedValues.put", _of_members),
    ),
)
