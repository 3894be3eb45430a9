"""Planted bugs between the daemons of a network: the token, the clock, promises, generations."""

from collections.abc import Callable
from typing import Any, Final

from hopring.errors import Drop, PeerError
from hopring.links.ring_events import Release
from hopring.links.ring_state import RingState
from hopring.membership.message_flow import MessageFlow
from hopring.membership.view import DaemonView
from hopring.ordering.order import Order
from hopring.ordering.stamps import Stamps
from hopring.sim.campaign.bugs import Bug, bug
from hopring.stack import Stack
from hopring.stack_events import Promise, WishVisit
from hopring.wire.flood import Update
from hopring.wire.header import Header


def _promise_from_clock(wish: Callable[..., WishVisit | None]) -> Any:
    def promise_without_the_token(
        self: MessageFlow, view: DaemonView, stack: Stack, now_us: int
    ) -> Promise | WishVisit | None:
        updates, order = self.updates, view.order
        if stack.network.is_representative and len(stack.network.sites) > 1:
            news = updates.sent is None or order.clock >= updates.sent.lts
            if news and now_us >= updates.sent_at_us + updates.delta_us:
                line = order.lines[self.site]
                updates.sent = Update(self.site, line.highest, order.clock + 1, line.stable_lts)
                updates.sent_at_us = now_us
                return Promise(updates.sent)
        return wish(self, view, stack, now_us)

    return promise_without_the_token


def _one_value_aru(usable: Callable[[int, int], int]) -> Any:
    del usable
    return lambda written_now, _written_last: written_now


def _kept_counts(keep_token: Callable[..., None]) -> Any:
    def keep_as_if_it_had_gone(s: RingState, release: Release, packets: int, last_segments: int) -> None:
        keep_token(s, release, packets, last_segments)
        s.passed = s.passed.replace(link_aru=s.store.aru, site_aru=release.local_aru)

    return keep_as_if_it_had_gone


def _clock_not_raised(heard: Callable[[Stamps, int], None]) -> Any:
    del heard
    return lambda _self, _lts: None


def _clock_of_the_view(heard: Callable[[Stack, int], None]) -> Any:
    """A new view's clock still counts: without it nothing at all would work."""
    del heard

    def raise_clock(self: Stack, lts: int) -> None:
        self._stamps.clock = max(self._stamps.clock, lts)

    return raise_clock


def _clock_kept(take: Callable[..., Any]) -> Any:
    """The order's own copy of the clock, which says when a promise is due, would notice the difference."""

    def take_without_clock(self: Order, *what: Any) -> Any:
        clock = self.clock
        out = take(self, *what)
        self.clock = clock
        return out

    return take_without_clock


def _stale_generation(check: Callable[[Stack, Header], None]) -> Any:
    def check_all_but_generation(self: Stack, header: Header) -> None:
        try:
            check(self, header)
        except PeerError as error:
            if error.reason is not Drop.STALE_GENERATION:
                raise

    return check_all_but_generation


def _unstamped_lost(take_back: Callable[[Stamps], list[tuple[int, bytes]]]) -> Any:
    def take_nothing_back(self: Stamps) -> list[tuple[int, bytes]]:
        take_back(self)
        return []

    return take_nothing_back


STAMPS: Final = "hopring.ordering.stamps:Stamps"
STACK: Final = "hopring.stack:Stack"
ORDER: Final = "hopring.ordering.order:Order"

BUGS: Final[tuple[Bug, ...]] = (
    bug(
        "promise-from-clock",
        "rule 10",
        "a representative promises from its own clock, without the token: another daemon may yet stamp lower",
        ("hopring.membership.message_flow:MessageFlow.wish", _promise_from_clock),
    ),
    bug(
        "one-value-aru",
        "rule 15, trap 9",
        "the value just written on the token counts as what all have, without that of the visit before",
        ("hopring.links.ring_visit:usable", _one_value_aru),
    ),
    bug(
        "kept-counts",
        "rule 15",
        "a visit after which the token stays counts as one of the two that bracket a rotation",
        ("hopring.links.ring:keep_token", _kept_counts),
    ),
    bug(
        "clock-not-raised",
        "rule 8",
        "the clock that stamps does not rise on receipt",
        (f"{STAMPS}.heard", _clock_not_raised),
        (f"{STACK}.heard", _clock_of_the_view),
        (f"{ORDER}.hold", _clock_kept),
        (f"{ORDER}.promise", _clock_kept),
    ),
    bug(
        "stale-generation",
        "rule 14, trap 5",
        "packets of an earlier network between the same daemons are taken for the present one's",
        (f"{STACK}._check", _stale_generation),
    ),
    bug(
        "unstamped-lost",
        "property 2.15",
        "what waits for the token when a network ends is not taken back",
        (f"{STAMPS}.take_back", _unstamped_lost),
    ),
)
