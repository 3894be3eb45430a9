"""The figures of the RMP paper (section 5, abstract) in virtual time: latency, packets, throughput, failures.

D is the delay of a path in one direction. Processing takes no time here, and nobody is starved on the line.
"""

from dataclasses import replace
from statistics import fmean

import pytest
from tests.paper.rmp_rings import MS, NAMES, SECOND, FigureRing, keep_sending, ring_of, sender_at

from hopring.check.rmp.observer import RingMoment
from hopring.check.rmp.peer_events import DataSent
from hopring.ordering.holders import MAJORITY
from hopring.rmp.events import ClaimRingLock, LeaveRing, ReleaseRingLock
from hopring.rmp.flow.policies import FlowOptions
from hopring.rmp.options import PeerRingOptions, paper_options
from hopring.services import Service
from hopring.sim.line import SharedLine
from hopring.wire.rmp.lists import MINIMUM_MAJORITY

pytestmark = pytest.mark.slow

D = 1 * MS


# Latency: "Source ordered about Unordered; total about twice that" (5.3, figure 5.3).


@pytest.mark.parametrize("service", [Service.UNRELIABLE, Service.RELIABLE, Service.FIFO])
def test_what_needs_no_order_takes_one_delay(service: Service) -> None:
    ring = ring_of(4, D)
    for sender in NAMES[:4]:
        assert set(ring.latencies(sender, service).values()) == {D}


@pytest.mark.parametrize("members", range(2, 9))
def test_total_order_takes_one_delay_or_two_by_the_place_of_the_token(members: int) -> None:
    ring = ring_of(members, D)
    sender, taken_us = NAMES[0], []
    for place in NAMES[:members]:
        ring.wait_for_token(place)
        for receiver, one_us in ring.latencies(sender, Service.AGREED).items():
            assert one_us == (D if place in (sender, receiver) else 2 * D), (place, receiver)
            taken_us.append(one_us)

    assert fmean(taken_us) == pytest.approx((2 * members - 2) / members * D)


@pytest.mark.parametrize("members", [3, 5, 8])
def test_resilience_takes_a_delay_for_each_holder_in_an_idle_ring(members: int) -> None:
    ring = ring_of(members, D)
    for k in range(1, members):
        for sender in NAMES[:3]:
            assert max(ring.latencies(sender, Service.AGREED, k).values()) <= (k + 2) * D
    for sender in NAMES[:members]:
        assert max(ring.latencies(sender, Service.SAFE).values()) <= (members + 2) * D


# Packets: "between one and three multicasts for each packet" (4.2).


def test_at_low_load_a_message_costs_three_packets_at_most() -> None:
    ring = ring_of(5, D, paper_options())
    counts = ring.count()
    for number in range(100):
        peer = ring.rings.hosts[NAMES[number % 5]]
        ring.rings.engine.at(ring.now_us + number * 100 * MS, peer.send, Service.AGREED, 100)
    ring.run_for(10 * SECOND)

    assert counts.all <= 300


def test_at_high_load_a_message_costs_little_more_than_one_packet() -> None:
    ring = ring_of(8, D)
    for name in NAMES[:8]:
        ring.run_for(200)
        sender_at(ring, name, Service.AGREED, 100, 1_600, 400)
    counts, since = ring.count(), ring.begun()
    ring.run_for(SECOND // 2)
    delivered = sum(one.process == NAMES[0] for one in ring.shown(since))

    assert delivered >= 2_400
    assert counts.all <= 1.25 * delivered


def acknowledged_packets(receivers: int, loss: float) -> float:
    """The least that positive acknowledgements cost: a message is sent until all have it, and have said so."""
    # Another copy is sent if some receiver has lost all before it; lost acknowledgements are not even counted.
    copies = sum(1 - (1 - loss**turn) ** receivers if turn else 1.0 for turn in range(200))
    return copies + receivers


@pytest.mark.parametrize("members", range(3, 9))
@pytest.mark.parametrize("loss", [0.0, 0.01, 0.05, 0.1])
def test_a_message_costs_fewer_packets_than_acknowledgements_of_all_receivers(
    members: int, loss: float
) -> None:
    ring = ring_of(members, D, loss=loss)
    for name in NAMES[:members]:
        sender_at(ring, name, Service.AGREED, 100, members * MS, 800 // members)
    counts, since = ring.count(), ring.begun()
    ring.run_for(SECOND)
    delivered = sum(one.process == NAMES[0] for one in ring.shown(since))

    assert delivered >= 780
    assert counts.all / delivered < acknowledged_packets(members - 1, loss)


# Changes of the list: "a single group message" (4.3).


STAYING, CHANGING = NAMES[:4], NAMES[4]


def slowest_us(ring: FigureRing, since: int) -> int:
    """How long the slowest message took to the members that stay, of those that were sent since."""
    events = ring.rings.observer.events[since:]
    sent = {event.message: event.at_us for event in events if isinstance(event, DataSent)}
    shown = [one for one in ring.shown(since) if one.process in STAYING and one.message in sent]
    return max(one.at_us - sent[one.message] for one in shown)


@pytest.mark.parametrize(("minimum", "more"), [(1, 2), (MINIMUM_MAJORITY, 5 // 2 + 2)])
@pytest.mark.parametrize("change", ["none", "join", "leave", "lock", "release"])
def test_a_change_costs_one_new_list_and_holds_messages_up_for_two_delays(
    change: str, minimum: int, more: int
) -> None:
    """A joiner itself waits longer: it has to ask for what was under way when it came."""
    ring = ring_of(5, D, minimum=minimum)
    peer = ring.rings.hosts[CHANGING]
    if change in ("join", "release"):
        peer.driver.step(ClaimRingLock("jobs", 1, partial=True))
        ring.run_for(SECOND)
    if change == "join":
        peer.driver.step(LeaveRing())
        peer.wants = False
        ring.run_for(3 * SECOND)
    since = ring.begun()
    for name in STAYING:
        sender_at(ring, name, Service.AGREED, 100, 700, 200)
    ring.run_for(50 * MS)
    match change:
        case "join":
            peer.join()
        case "leave":
            peer.driver.step(LeaveRing())
        case "lock":
            peer.driver.step(ClaimRingLock("keys", 2, partial=True))
        case "release":
            peer.driver.step(ReleaseRingLock(1))
    ring.run_for(SECOND // 2)

    assert ring.new_lists(since) == (change != "none")
    # Without a change a message waits up to a delay for the token site to order, besides the two that it takes.
    assert slowest_us(ring, since) <= (3 + (more if change != "none" else 0)) * D


# Throughput (figures 5.1 and 5.2).

LEVELS = {
    "unreliable": (Service.UNRELIABLE, 0),
    "reliable": (Service.RELIABLE, 0),
    "fifo": (Service.FIFO, 0),
    "agreed": (Service.AGREED, 0),
    "resilient": (Service.AGREED, 1),
    "majority": (Service.AGREED, MAJORITY),
    "safe": (Service.SAFE, 0),
}
SIZE = 8_000
WINDOW = 64_000
"""More than the line holds; nothing is dropped on an Ethernet, senders wait."""

ON_LINE = PeerRingOptions(flow=FlowOptions(packet_bytes_max=SIZE, window_bytes_max=WINDOW))


def user_rate(members: int, senders: int, level: str = "agreed", minimum: int = 1) -> float:
    """Bytes of user data a second that each member delivers on one shared line of 1,250 KB/s."""
    ring = ring_of(members, 50, ON_LINE, minimum, prepare=lambda rings: rings.network.shared_line(SharedLine()))
    service, resilience = LEVELS[level]
    keep_sending(ring, NAMES[:senders], service, SIZE, ring.now_us + 3 * SECOND, resilience)
    ring.run_for(SECOND)
    since = ring.begun()
    ring.run_for(2 * SECOND)
    shown = ring.shown(since)
    return min(sum(one.process == name for one in shown) * SIZE / 2 for name in NAMES[:members])


def test_one_sender_reaches_any_number_of_destinations_at_86_percent_of_the_line() -> None:
    """'The throughput remains roughly constant' (figure 5.2), with 1,070 KB/s to one destination."""
    rates = [user_rate(members, 1) for members in (2, 3, 5, 9)]

    assert min(rates) >= 1_070_000
    assert max(rates) <= 1.05 * min(rates)


def test_eight_members_deliver_six_times_the_line() -> None:
    """7,384 KB/s in all, with the sender as one of them (figure 5.1)."""
    assert 8 * user_rate(8, 1) >= 7_384_000


def test_many_senders_share_the_line() -> None:
    """Figure 5.1 has less for 4 and 8 senders, which starve each other; here nobody is starved."""
    assert min(user_rate(8, senders) for senders in (4, 8)) >= 1_000_000


def test_all_levels_have_the_same_throughput() -> None:
    rates = {level: user_rate(4, 2, level, MINIMUM_MAJORITY) for level in LEVELS}

    assert max(rates.values()) <= 1.1 * min(rates.values()), rates


# Failures (3.2, 4.6): "within 5 seconds" near, "15 to 20 seconds" far.


@pytest.mark.parametrize(
    ("first_us", "delay_us", "least_us", "most_us"),
    [(5 * MS, 500, 4_500 * MS, 5_000 * MS), (200 * MS, 40 * MS, 15 * SECOND, 20 * SECOND)],
)
def test_a_dead_member_is_noticed_in_the_papers_time(
    first_us: int, delay_us: int, least_us: int, most_us: int
) -> None:
    ring = ring_of(4, delay_us, replace(paper_options(), first_us=first_us))
    ring.rings.crash(NAMES[2])
    begun_us = ring.now_us
    # Its own Data and the passes of the token find it.
    sender_at(ring, NAMES[0], Service.AGREED, 100, 10 * MS, 10)
    starts: list[int] = []
    while not starts and ring.now_us < begun_us + 30 * SECOND:
        ring.run_for(10 * MS)
        starts += [ring.now_us for peer in ring.peers if peer.ring.snapshot().recovering]

    assert least_us <= starts[0] - begun_us <= most_us


@pytest.mark.parametrize("busy", [False, True])
def test_by_default_a_crash_becomes_a_view_within_a_second(busy: bool) -> None:
    ring = ring_of(5, 200)
    if busy:
        for name in NAMES[:2]:
            sender_at(ring, name, Service.AGREED, 100, 2 * MS, 1_000)
        ring.run_for(100 * MS)
    ring.rings.crash(NAMES[3])
    begun_us, since = ring.now_us, ring.begun()
    ring.run_for(2 * SECOND)
    shown = [one for one in ring.lists(since) if one.cause == "failure"]

    assert {one.process for one in shown} == {"ann", "bob", "cyd", "eve"}
    assert max(one.at_us for one in shown) - begun_us <= SECOND
    assert RingMoment.COMMITTED in {moment for moment, _ in ring.rings.observer.reached}
