from tests.unit.membership.state_reports import A, B

from hopring.ids import Incarnation, Process, SiteId
from hopring.membership.discovery import Suspicions
from hopring.routing.trees import Pair

LINK: Pair = (SiteId(0), SiteId(1))
OTHER: Pair = (SiteId(0), SiteId(2))
SECOND_US = 1_000_000


def suspicions() -> Suspicions:
    return Suspicions(back_off_us=2 * SECOND_US, back_off_us_max=60 * SECOND_US)


def test_one_failure_is_forgiven() -> None:
    one = suspicions()
    one.blame_link(LINK, 0)

    assert one.cut(0) == ()


def test_the_second_failure_in_a_row_leaves_the_link_out_for_a_while() -> None:
    one = suspicions()
    one.blame_link(LINK, 0)
    one.blame_link(LINK, SECOND_US)

    assert one.cut(SECOND_US) == (LINK,)
    assert one.cut(3 * SECOND_US - 1) == (LINK,)
    assert one.cut(3 * SECOND_US) == ()


def test_each_failure_doubles_the_time_up_to_the_limit() -> None:
    one = suspicions()
    spans_s = []
    now_us = 0
    for _ in range(9):
        one.blame_link(LINK, now_us)
        until_us = one.links[LINK].until_us
        spans_s.append((until_us - now_us) // SECOND_US if until_us else 0)
        now_us = max(until_us, now_us + SECOND_US)

    assert spans_s == [0, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_link_that_was_good_for_long_starts_without_suspicion() -> None:
    one = suspicions()
    one.blame_link(LINK, 0)
    one.blame_link(LINK, 61 * SECOND_US)

    assert one.cut(61 * SECOND_US) == ()


def test_links_are_judged_one_by_one() -> None:
    one = suspicions()
    one.blame_link(LINK, 0)
    one.blame_link(OTHER, 0)
    one.blame_link(OTHER, 1)

    assert one.cut(2) == (OTHER,)


# Daemons of a site.


def test_a_daemon_that_did_not_hear_us_once_is_not_named() -> None:
    one = suspicions()
    one.blame_process(B, 0)

    assert one.suspects(0) == ()


def test_a_daemon_that_did_not_hear_us_twice_is_named_for_a_while() -> None:
    one = suspicions()
    one.blame_process(B, 0)
    one.blame_process(B, SECOND_US)

    assert one.suspects(SECOND_US) == (B,)
    assert one.suspects(3 * SECOND_US) == ()


def test_of_two_that_do_not_hear_each_other_the_higher_is_left_out_whoever_says_so() -> None:
    for accuser, suspect in ((A, B), (B, A)):
        one = suspicions()
        one.accused_by(accuser, (suspect,), 0)

        assert one.left_out(0) == {B}
        assert one.left_out(2 * SECOND_US) == frozenset()


def test_hearing_it_again_does_not_prolong_the_time() -> None:
    one = suspicions()
    one.leave_out([B], 0)
    one.leave_out([B], SECOND_US)

    assert one.left_out(2 * SECOND_US) == frozenset()


def test_each_time_it_is_left_out_for_longer_up_to_the_limit() -> None:
    one = suspicions()
    spans_s = []
    now_us = 0
    for _ in range(8):
        one.leave_out([B], now_us)
        until_us = one.exclusions[B].until_us
        spans_s.append((until_us - now_us) // SECOND_US)
        now_us = until_us

    assert spans_s == [2, 4, 8, 16, 32, 60, 60, 60]


def test_another_incarnation_of_a_daemon_is_not_suspected() -> None:
    one = suspicions()
    one.leave_out([B], 0)

    assert Process(B.daemon, Incarnation(77)) not in one.left_out(0)


def test_a_link_that_was_left_out_is_remembered_for_longer_than_it_is_left_out() -> None:
    one = suspicions()
    one.blame_link(LINK, 0)
    assert not one.remembers(LINK, 100 * SECOND_US, SECOND_US)

    one.blame_link(LINK, SECOND_US)

    assert one.cut(10 * SECOND_US) == ()
    assert one.remembers(LINK, 100 * SECOND_US, 10 * SECOND_US)
    assert not one.remembers(LINK, 100 * SECOND_US, 101 * SECOND_US)


def test_old_records_are_forgotten_however_often_a_daemon_starts_anew() -> None:
    one = suspicions()

    for number in range(1_000):
        start = Process(A.daemon, Incarnation(number))
        one.blame_process(start, number * SECOND_US)
        one.leave_out([start], number * SECOND_US)
        one.blame_link((SiteId(0), SiteId(number + 1)), number * SECOND_US)

    assert len(one.processes) <= 62
    assert len(one.links) <= 62
    assert len(one.exclusions) <= 124


def test_a_link_that_fails_right_after_it_was_left_out_for_long_is_left_out_for_long_again() -> None:
    one = suspicions()
    at_us = 0
    for _ in range(8):
        one.blame_link(LINK, at_us)
        at_us = max(at_us, one.links[LINK].until_us) + SECOND_US

    one.blame_link(LINK, at_us)

    assert one.cut(at_us + 59 * SECOND_US) == (LINK,)
