"""Reports of measured weights, and the decision of the representative about them. Sites 0, 1 and 2."""

from hopring.ids import NEVER, SiteId
from hopring.links.timing import LinkSample
from hopring.membership.measuring import REPORTED_US, Measuring, worst
from hopring.routing.trees import LinkPlan, Pair, Topology
from hopring.routing.weights import TRIPS_KEPT, TRIPS_MIN

A, B, C = (SiteId(at) for at in range(3))
LINKS: dict[Pair, LinkPlan] = {(A, B): LinkPlan(70_000), (A, C): LinkPlan(80_000), (B, C): LinkPlan(90_000)}
EVERYWHERE = Topology((A, B, C), LINKS, measured=True)


def measuring(topology: Topology = EVERYWHERE) -> Measuring:
    return Measuring(topology, A, 500_000)


def sampled(one: Measuring, *round_trips_us: int, times: int = TRIPS_KEPT, now_us: int = 0) -> Measuring:
    """Samples of the link to B, and of that to C if there is a second round trip, seen from A."""
    samples = {site: LinkSample(trip_us, 1, 0) for site, trip_us in zip((B, C), round_trips_us, strict=False)}
    for _ in range(times):
        one.sample(samples, now_us)
    return one


def test_only_measured_links_are_reported() -> None:
    one = sampled(measuring(), 100_000, times=TRIPS_MIN - 1)
    assert one.report(0) == ()

    sampled(one, 100_000, times=1)

    assert one.report(0) == ((A, B, 49_152),)


def test_old_measurements_are_not_reported() -> None:
    one = sampled(measuring(), 100_000, now_us=1_000)

    assert one.report(1_000 + REPORTED_US) != ()
    assert one.report(1_001 + REPORTED_US) == ()


def test_a_report_stays_while_the_measurement_is_near_it_over_however_many_networks() -> None:
    one = sampled(measuring(), 130_000)
    assert one.report(0) == ((A, B, 57_344),)

    one.end()
    one.begin(())
    sampled(one, 132_000)  # Just inside the next step.
    assert one.report(0) == ((A, B, 57_344),)
    sampled(one, 140_000)
    assert one.report(0) == ((A, B, 65_536),)


def test_of_two_ends_the_worse_one_counts_whoever_reports_first() -> None:
    assert worst([(A, B, 40), (A, B, 56)]) == worst([(A, B, 56), (A, B, 40)]) == {(A, B): 56}


def test_weights_for_a_view_are_those_reported_then_those_of_the_network_before() -> None:
    one = measuring()
    one.begin(((A, B, 11), (B, C, 12)))

    assert one.agree([(A, B, 40)], {A, B, C}) == ((A, B, 40), (B, C, 12))
    assert one.agree([(A, B, 40)], {A, B}) == ((A, B, 40),)
    assert one.agree([], {A, C}) == ()  # No daemon has measured it: the configured one applies.


def test_a_network_has_the_weights_of_its_newmemb_and_no_others() -> None:
    one = sampled(measuring(), 100_000, 100_000)
    one.report(0)

    assert one.begin(((B, C, 12),)).weights == {(A, B): 70_000, (A, C): 80_000, (B, C): 12}
    assert one.begin(()).weights == {(A, B): 70_000, (A, C): 80_000, (B, C): 90_000}


def test_with_fixed_weights_nothing_is_measured_or_agreed_on() -> None:
    fixed = Topology(EVERYWHERE.site_of, LINKS)
    one = measuring(fixed)

    assert one.begin(()) is fixed
    one.installed(0)
    assert one.wake_at_us == NEVER
    assert one.agree([(A, B, 40)], {A, B, C}) == ()


def test_links_are_measured_from_the_installation_to_the_end_of_the_network() -> None:
    one = measuring()
    one.begin(())
    assert one.wake_at_us == NEVER

    one.installed(1_000)
    assert one.wake_at_us == 501_000
    sampled(one, 100_000, times=1, now_us=501_000)
    assert one.wake_at_us == 1_001_000
    one.end()
    assert one.wake_at_us == NEVER


def test_a_daemon_without_links_stops_sampling() -> None:
    one = measuring()
    one.installed(0)

    one.sample({}, 500_000)

    assert one.wake_at_us == NEVER
