from hopring.ids import NEVER, SiteId, SiteMask, mask_of
from hopring.membership.aru_updates import DELTA_US_MIN, SAMPLES, AruUpdates, Distance, aru_updates
from hopring.membership.options import MembershipOptions
from hopring.stack_events import Visited
from hopring.wire.control import Update

SITE = SiteId(1)
OTHERS = mask_of(SiteId(0), SiteId(2))
DELTA_US = 20_000
FLOOR_US = 1_000_000
HURRY_BYTES = 64_000


def updates() -> AruUpdates:
    return AruUpdates(DELTA_US, FLOOR_US, HURRY_BYTES, OTHERS, Distance(1))


def sampled(*samples_us: int) -> Distance:
    """The updates after samples with these durations."""
    distance = Distance(0)
    for lts, sample_us in enumerate(samples_us, 1):
        distance.show(lts, True, 1_000)
        distance.reach(lts, 1_000 + sample_us)
    return distance


def test_the_first_promise_goes_at_once() -> None:
    assert updates().visited(SITE, Visited(3, 10, 5), now_us=0) == Update(SITE, 3, 11, 5)


def test_a_changed_promise_after_delta_is_sent_at_once() -> None:
    one = updates()
    one.visited(SITE, Visited(3, 10, 5), 0)

    assert one.visited(SITE, Visited(4, 12, 5), DELTA_US) == Update(SITE, 4, 13, 5)
    assert one.count == 2


def test_a_changed_promise_within_delta_waits() -> None:
    one = updates()
    one.visited(SITE, Visited(3, 10, 5), 0)

    assert one.visited(SITE, Visited(4, 12, 5), DELTA_US - 1) is None
    assert one.visited(SITE, Visited(4, 12, 5), DELTA_US) == Update(SITE, 4, 13, 5)


def test_a_higher_stability_line_is_a_change() -> None:
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

    assert not one.check_due(clock=10, agreed_line=5, now_us=DELTA_US)
    assert one.check_due(clock=11, agreed_line=5, now_us=DELTA_US)


def test_the_token_is_wanted_when_more_has_been_received() -> None:
    one = updates()
    one.visited(SITE, Visited(3, 10, 5), 0)

    assert one.check_due(clock=10, agreed_line=6, now_us=DELTA_US)


def test_a_later_need_for_the_token_has_its_time() -> None:
    one = updates()
    one.visited(SITE, Visited(3, 10, 5), 1_000)

    assert not one.check_due(11, 5, now_us=2_000)
    assert one.wake_at_us == 1_000 + DELTA_US

    assert not one.check_due(10, 5, now_us=2_000)
    assert one.wake_at_us == 1_000 + FLOOR_US

    assert one.check_due(10, 5, now_us=1_000 + FLOOR_US)
    assert one.wake_at_us == NEVER


def test_a_bundle_of_the_own_site_is_as_good_as_a_promise() -> None:
    one = updates()
    one.visited(SITE, Visited(3, 10, 5), 0)
    one.stamped(12, OTHERS, ordered=True, now_us=1)

    assert not one.check_due(clock=12, agreed_line=5, now_us=DELTA_US)
    assert one.visited(SITE, Visited(4, 12, 5), DELTA_US) is None
    # A stamp of another site, or more bundles at all daemons here, are news that it does not contain.
    assert one.check_due(clock=13, agreed_line=5, now_us=DELTA_US)
    assert one.visited(SITE, Visited(4, 12, 6), DELTA_US) == Update(SITE, 4, 13, 6)


def test_a_bundle_of_which_some_sites_get_only_meta_data_is_no_promise() -> None:
    """Meta-data wait for other objects, and the promise is one."""
    one = updates()
    one.visited(SITE, Visited(3, 10, 5), 0)
    one.stamped(12, mask_of(SITE, SiteId(2)), ordered=True, now_us=1)

    assert one.visited(SITE, Visited(4, 12, 5), DELTA_US) == Update(SITE, 4, 13, 5)


def test_a_changed_promise_is_sent_at_once_if_many_bundles_came_since_the_last() -> None:
    one = updates()
    one.visited(SITE, Visited(3, 10, 5), 0)
    one.heard(HURRY_BYTES - 1, 11, ordered=True)
    assert not one.check_due(11, 5, now_us=1)
    assert one.visited(SITE, Visited(4, 12, 5), 1) is None
    one.heard(1, 11, ordered=True)
    assert one.check_due(11, 5, now_us=1)
    assert one.visited(SITE, Visited(4, 12, 5), 1) == Update(SITE, 4, 13, 5)

    assert not one.check_due(13, 5, now_us=2)


def test_without_a_change_nothing_is_sent_early() -> None:
    one = updates()
    one.visited(SITE, Visited(3, 10, 5), 0)
    one.heard(HURRY_BYTES, 10, ordered=True)

    assert not one.check_due(10, 5, now_us=1)
    assert one.visited(SITE, Visited(3, 10, 5), 1) is None


def test_with_more_sites_more_bundles_have_to_come() -> None:
    options = MembershipOptions()
    made = aru_updates(options, SITE, (SiteId(0), SITE, SiteId(2)), 1)

    assert made.hurry_bytes == 3 * options.update_hurry_bytes
    assert made.others == OTHERS


# The distance.


def test_a_sample_is_the_time_from_a_new_line_until_all_have_it() -> None:
    distance = Distance(1)
    distance.show(5, True, now_us=1_000)
    distance.show(6, True, now_us=2_000)  # One sample at a time.
    distance.reach(4, now_us=3_000)
    assert distance.least_us == NEVER

    distance.reach(5, now_us=4_000)
    assert distance.least_us == 3_000


def test_a_line_that_was_shown_before_is_not_timed() -> None:
    """All sites have had it for a while, so the time to the answer would not measure the path."""
    distance = Distance(5)
    distance.show(5, True, now_us=1_000)
    distance.reach(5, now_us=1_001)

    assert distance.least_us == NEVER


def test_a_line_that_no_message_waits_for_is_not_timed() -> None:
    distance = Distance(1)
    distance.show(5, False, now_us=1_000)
    distance.reach(5, now_us=9_000)

    assert distance.least_us == NEVER


def test_the_distance_is_the_least_of_the_last_samples() -> None:
    assert sampled(3_000, 2_000, 4_000).least_us == 2_000


def test_a_longer_path_is_found_after_some_samples() -> None:
    assert sampled(2_000, *[9_000] * (SAMPLES - 1)).least_us == 2_000
    assert sampled(2_000, *[9_000] * (2 * SAMPLES - 1)).least_us == 9_000


def test_near_sites_wait_in_proportion_to_their_distance_and_others_as_long_as_before() -> None:
    one = updates()
    assert one.delta_us == DELTA_US
    one.distance = sampled(10_000)
    assert one.delta_us == 6_000
    one.distance = sampled(2)
    assert one.delta_us == DELTA_US_MIN
    one.distance = sampled(2 * DELTA_US)
    assert one.delta_us == DELTA_US


def test_only_a_bundle_that_is_wanted_in_order_shortens_the_wait() -> None:
    one = updates()
    one.distance = sampled(10_000)
    one.visited(SITE, Visited(3, 10, 11), 0)

    one.heard(100, 11, ordered=False)
    assert not one.check_due(11, 11, now_us=6_000)
    assert one.wake_at_us == DELTA_US
    one.heard(100, 12, ordered=True)
    assert one.check_due(12, 11, now_us=6_000)


def test_a_bundle_that_this_site_has_acknowledged_shortens_nothing() -> None:
    one = updates()
    one.distance = sampled(10_000)
    one.heard(100, 11, ordered=True)
    one.visited(SITE, Visited(3, 12, 12), 0)

    assert not one.check_due(13, 12, now_us=6_000)
    assert one.wake_at_us == DELTA_US


def test_a_single_site_sends_no_promises() -> None:
    assert aru_updates(MembershipOptions(), SITE, (SITE,), 1).others == SiteMask(0)


def test_lines_that_have_changed_are_news_and_the_same_lines_are_not() -> None:
    one = updates()
    one.visited(SITE, Visited(3, 10, 5, (7, 0)), 0)

    assert one.visited(SITE, Visited(3, 10, 5, (7, 0)), DELTA_US) is None
    assert one.visited(SITE, Visited(3, 10, 5), DELTA_US) is None
    assert one.visited(SITE, Visited(3, 10, 5, (7, 7)), DELTA_US) == Update(SITE, 3, 11, 5, (7, 7))
