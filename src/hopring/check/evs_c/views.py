"""Views of groups and their transitional sets: 2.1 to 2.4, and 2.20, as strict as among daemons."""

from hopring.check.evs.history import Stay
from hopring.check.evs.views import (
    INITIAL_VIEW,
    LOCAL_MONOTONICITY,
    membership_agreement,
    self_inclusion,
    transitional_set,
)
from hopring.check.evs.words import Words
from hopring.check.evs_c.history import ClientHistory
from hopring.check.evs_c.words import first_of, of_each_group
from hopring.check.trace import ClientDelivered, GroupSignal
from hopring.check.verdict import Verdict


def initial_view(history: ClientHistory) -> Verdict:
    """2.1: a message comes through a group that the session is in, or is for it alone; so does a signal."""
    words = Words(history.whole)
    for session in history.sessions.values():
        who = words.process(session.process)
        for event in session.homeless:
            if isinstance(event, ClientDelivered):
                to = " ".join(event.groups)
                what = f"{who} delivered {words.message(event.message)} at {event.at_us} us"
                return first_of(INITIAL_VIEW, f"{what}, which was for {to}, and was in none of these")
            if isinstance(event, GroupSignal):
                what = f"{who} got a transitional signal of {event.group} at {event.at_us} us"
                return first_of(INITIAL_VIEW, f"{what} and was not in it")
    return first_of(INITIAL_VIEW, None)


def members_are_in(history: ClientHistory) -> Verdict:
    """2.2: who is shown a view is in it."""
    return of_each_group(self_inclusion, history)


def ids_rise(history: ClientHistory) -> Verdict:
    """2.3: a session is shown views of a group with rising ids, from one stay in it to the next, too."""
    for _, group in sorted(history.groups.items()):
        words = Words(group)
        for life in group.lives.values():
            before: Stay | None = None
            for stay in life.stays:
                if before is not None and stay.view <= before.view:
                    then = f"{words.view(before.view)} at {before.installed.at_us} us"
                    return first_of(LOCAL_MONOTONICITY, f"{words.install(stay)} after {then}")
                before = stay
    return first_of(LOCAL_MONOTONICITY, None)


def who_comes_along(history: ClientHistory) -> Verdict:
    """2.4: who came along, the same for all who came along."""
    return of_each_group(transitional_set, history)


def one_id_one_membership(history: ClientHistory) -> Verdict:
    """2.20: one id, one set of members; between signal and view too, because ids name the side."""
    return of_each_group(membership_agreement, history)
