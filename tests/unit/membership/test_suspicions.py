from hopring.ids import SiteId
from hopring.membership.suspicions import Suspicions
from hopring.routing.trees import Pair

LINK: Pair = (SiteId(0), SiteId(1))
OTHER: Pair = (SiteId(0), SiteId(2))
SECOND_US = 1_000_000


def suspicions() -> Suspicions:
    return Suspicions(back_off_us=2 * SECOND_US, back_off_us_max=60 * SECOND_US)


def test_one_failure_is_forgiven() -> None:
    one = suspicions()
    one.blame(LINK, 0)

    assert one.cut(0) == ()


def test_the_second_failure_in_a_row_leaves_the_link_out_for_a_while() -> None:
    one = suspicions()
    one.blame(LINK, 0)
    one.blame(LINK, SECOND_US)

    assert one.cut(SECOND_US) == (LINK,)
    assert one.cut(3 * SECOND_US - 1) == (LINK,)
    assert one.cut(3 * SECOND_US) == ()


def test_each_failure_doubles_the_time_up_to_the_limit() -> None:
    one = suspicions()
    spans_s = []
    now_us = 0
    for _ in range(9):
        one.blame(LINK, now_us)
        until_us = one.links[LINK].until_us
        spans_s.append((until_us - now_us) // SECOND_US if until_us else 0)
        now_us = max(until_us, now_us + SECOND_US)

    assert spans_s == [0, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_link_that_was_good_for_long_begins_anew() -> None:
    one = suspicions()
    one.blame(LINK, 0)
    one.blame(LINK, 61 * SECOND_US)

    assert one.cut(61 * SECOND_US) == ()


def test_links_are_judged_one_by_one() -> None:
    one = suspicions()
    one.blame(LINK, 0)
    one.blame(OTHER, 0)
    one.blame(OTHER, 1)

    assert one.cut(2) == (OTHER,)
