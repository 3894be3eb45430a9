from hopring.ids import NEVER, SiteId
from hopring.membership.options import MembershipOptions
from hopring.membership.updates import Updates, updates_of
from hopring.stack_events import Visited
from hopring.wire.flood import Update

SITE = SiteId(1)
DELTA_US = 20_000
FLOOR_US = 1_000_000
HURRY_BYTES = 64_000


def updates() -> Updates:
    return Updates(DELTA_US, FLOOR_US, HURRY_BYTES)


def test_the_first_promise_goes_at_once() -> None:
    assert updates().visited(SITE, Visited(3, 10, 5), now_us=0) == Update(SITE, 3, 11, 5)


def test_news_after_delta_go_at_once() -> None:
    one = updates()
    one.visited(SITE, Visited(3, 10, 5), 0)

    assert one.visited(SITE, Visited(4, 12, 5), DELTA_US) == Update(SITE, 4, 13, 5)


def test_news_within_delta_wait_until_it_has_passed() -> None:
    one = updates()
    one.visited(SITE, Visited(3, 10, 5), 0)

    assert one.visited(SITE, Visited(4, 12, 5), DELTA_US - 1) is None
    assert one.visited(SITE, Visited(4, 12, 5), DELTA_US) == Update(SITE, 4, 13, 5)


def test_a_stability_line_that_has_risen_is_news() -> None:
    one = updates()
    one.visited(SITE, Visited(3, 10, 5), 0)

    assert one.visited(SITE, Visited(3, 10, 9), DELTA_US) == Update(SITE, 3, 11, 9)


def test_without_news_a_promise_goes_at_the_floor_rate() -> None:
    one = updates()
    one.visited(SITE, Visited(3, 10, 5), 0)

    assert one.visited(SITE, Visited(3, 10, 5), FLOOR_US - 1) is None
    assert one.visited(SITE, Visited(3, 10, 5), FLOOR_US) == Update(SITE, 3, 11, 5)


def test_the_token_is_wanted_when_the_clock_has_passed_the_last_promise() -> None:
    one = updates()
    one.visited(SITE, Visited(3, 10, 5), 0)

    assert not one.wants(clock=10, agreed_line=5, now_us=DELTA_US)
    assert one.wants(clock=11, agreed_line=5, now_us=DELTA_US)


def test_the_token_is_wanted_when_more_has_been_received() -> None:
    one = updates()
    one.visited(SITE, Visited(3, 10, 5), 0)

    assert one.wants(clock=10, agreed_line=6, now_us=DELTA_US)


def test_who_wants_the_token_only_later_says_when() -> None:
    one = updates()
    one.visited(SITE, Visited(3, 10, 5), 1_000)

    assert not one.wants(11, 5, now_us=2_000)
    assert one.wake_at_us == 1_000 + DELTA_US

    assert not one.wants(10, 5, now_us=2_000)
    assert one.wake_at_us == 1_000 + FLOOR_US

    assert one.wants(10, 5, now_us=1_000 + FLOOR_US)
    assert one.wake_at_us == NEVER


def test_news_go_at_once_if_much_has_come_from_other_sites_since_the_last_promise() -> None:
    one = updates()
    one.visited(SITE, Visited(3, 10, 5), 0)
    one.heard_bytes = HURRY_BYTES - 1
    assert not one.wants(11, 5, now_us=1)
    assert one.visited(SITE, Visited(4, 12, 5), 1) is None
    one.heard_bytes = HURRY_BYTES
    assert one.wants(11, 5, now_us=1)
    assert one.visited(SITE, Visited(4, 12, 5), 1) == Update(SITE, 4, 13, 5)

    assert not one.wants(13, 5, now_us=2)


def test_without_news_nothing_hurries() -> None:
    one = updates()
    one.visited(SITE, Visited(3, 10, 5), 0)
    one.heard_bytes = HURRY_BYTES

    assert not one.wants(10, 5, now_us=1)
    assert one.visited(SITE, Visited(3, 10, 5), 1) is None


def test_the_more_sites_the_more_has_to_come() -> None:
    options = MembershipOptions()

    assert updates_of(options, 3).hurry_bytes == 3 * options.update_hurry_bytes
