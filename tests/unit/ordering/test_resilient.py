"""Resilient messages in a view of three sites with one daemon each; this daemon is at the first."""

import pytest
from tests.unit.ordering.small_views import deliver, order_of, promise

from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, SiteId, SiteMask
from hopring.ordering.entry import OrderedMessage
from hopring.ordering.holders import MAJORITY
from hopring.ordering.order import Order
from hopring.services import Service
from hopring.wire.routed import Meta

EU, US, ASIA = SiteId(0), SiteId(1), SiteId(2)
EVERYWHERE = 0b111


def hold(
    order: Order, site: int, seq: int, lts: int, word: str, *, resilience: int = 0, mask: int = EVERYWHERE
) -> None:
    """Adds an Agreed bundle, or its meta-data if it is not for this site."""
    message = OrderedMessage(Service.AGREED, DaemonId(site), 1, word.encode(), resilience)
    order.hold(Meta(SiteId(site), seq, lts, SiteMask(mask), 0), message if mask & 1 else None)


def promise_all(order: Order, lts: int, **seqs: int) -> None:
    """All sites stamp nothing below this any more."""
    for site, name in enumerate(("eu", "us", "asia")):
        promise(order, site, seqs.get(name, 0), lts)


def test_a_resilient_message_waits_until_another_daemon_has_it() -> None:
    order = order_of(0, 1, 2)
    hold(order, 0, 1, 5, "m", resilience=1)
    promise_all(order, 6, eu=1)

    assert deliver(order) == []
    order.told(US, (5,))
    assert deliver(order) == []
    order.told(US, (6,))
    assert deliver(order) == ["m"]


def test_it_holds_back_what_is_behind_it_as_safe_does_and_not_what_is_before() -> None:
    order = order_of(0, 1, 2)
    hold(order, 0, 1, 4, "before")
    hold(order, 0, 2, 5, "m", resilience=2)
    hold(order, 0, 3, 6, "behind")
    promise_all(order, 7, eu=3)

    assert deliver(order) == ["before"]
    assert order.waiting_for_holders == 1
    order.told(US, (6,))
    order.told(ASIA, (6,))
    assert deliver(order) == ["m", "behind"]
    assert order.waiting_for_holders == 0


def test_a_message_tells_how_many_daemons_had_it_when_it_was_delivered() -> None:
    order = order_of(0, 1, 2)
    hold(order, 0, 1, 5, "agreed")
    hold(order, 0, 2, 6, "m", resilience=1)
    promise_all(order, 7, eu=2)
    order.told(US, (7,))

    assert [one.holders for one in order.deliver()] == [0, 2]

    hold(order, 0, 3, 8, "for eu and asia", resilience=1, mask=0b101)
    promise_all(order, 9, eu=3)
    for site in (EU, US, ASIA):
        order.stable(site, 9)

    assert [one.holders for one in order.deliver()] == [2], "us has everything that it wants, but not this one"


def test_a_majority_of_three_is_two() -> None:
    order = order_of(0, 1, 2)
    hold(order, 0, 1, 5, "m", resilience=MAJORITY)
    promise_all(order, 6, eu=1)

    assert deliver(order) == []
    order.told(ASIA, (6,))
    assert deliver(order) == ["m"]


def test_a_stable_message_has_its_holders_though_no_daemon_has_told_its_line() -> None:
    order = order_of(0, 1, 2)
    hold(order, 0, 1, 5, "m", resilience=2)
    promise_all(order, 6, eu=1)
    for site in (EU, US, ASIA):
        order.stable(site, 6)

    assert deliver(order) == ["m"]


def test_an_earlier_message_for_one_site_needs_its_holders_too() -> None:
    # Only us and asia have the body of `first`. If us had it alone and died, it would be a hole for asia, and
    # `m`, which is behind it, would be lost at asia although eu has it.
    order = order_of(0, 1, 2)
    hold(order, 1, 1, 4, "first", mask=0b110)
    hold(order, 1, 2, 5, "m", resilience=1)
    promise_all(order, 6, us=2)

    order.told(US, (6,))
    assert deliver(order) == ["-"], "the meta-data of the first"
    order.told(ASIA, (6,))
    assert deliver(order) == ["m"]


def test_an_earlier_message_that_only_one_daemon_wants_needs_that_one() -> None:
    order = order_of(0, 1, 2)
    hold(order, 1, 1, 4, "for us alone", mask=0b010)
    hold(order, 0, 1, 5, "m", resilience=1)
    promise_all(order, 6, eu=1, us=1)

    order.told(ASIA, (6,))
    assert deliver(order) == ["-"]
    order.told(US, (6,))
    assert deliver(order) == ["m"]


def test_earlier_messages_are_forgotten_when_all_have_them() -> None:
    order = order_of(0, 1, 2)
    hold(order, 1, 1, 4, "for us alone", mask=0b010)
    hold(order, 0, 1, 6, "m", resilience=1)
    promise_all(order, 7, eu=1, us=1)
    deliver(order)
    for site in (EU, US, ASIA):
        order.stable(site, 5)
    order.discard()

    order.told(ASIA, (7,))
    assert deliver(order) == ["m"]


def test_lines_of_other_sites_than_the_views_are_refused() -> None:
    with pytest.raises(PeerError) as caught:
        order_of(0, 1).told(ASIA, (1,))
    assert caught.value.reason is Drop.INCONSISTENT
