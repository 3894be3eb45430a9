"""A link kind from outside the product: alone, under the link checker, and below whole clusters."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.link_kinds.go_back_n import GoBackN, GoBackNOptions, in_place_of_hop
from tests.unit.links.fake_wire import FakeWire
from tests.unit.links.loose_objects import an_object

from hopring.config.model import UNTUNED, LinkProtocol
from hopring.errors import PeerError
from hopring.ids import NEVER
from hopring.links.events import Deliver, LinkFailed, LinkOutput, Submit, Tick, Transmit
from hopring.links.hop.hop import Hop
from hopring.links.kinds import KINDS
from hopring.sim.campaign.parallel import run_many
from hopring.sim.campaign.runner import run_seed
from hopring.sim.campaign.world import WorldKind
from hopring.sim.path import Quality
from hopring.testing.link_world import LinkWorld
from hopring.testing.trace import DatagramDropped, LinkEndFailed, ObjectReceived
from hopring.wire.data import Data, Missing, Segment
from hopring.wire.hop import Ack, Nack
from hopring.wire.ring import Hurry
from hopring.wire.train import Frame
from hopring.wire.unreliable import Loose

OPTIONS = GoBackNOptions(window_packets=4, silence_us=400_000)
ROUGH = Quality(delay_us=5_000, jitter_us=1_000, loss=0.05, duplicate=0.02, reorder=0.02)
ROOT = Path(__file__).parents[2]
JOBS = 2


@pytest.fixture
def made() -> Iterator[list[GoBackN]]:
    """Makes every datagram link between sites a GoBackN; returns the list of those made in this process."""
    with in_place_of_hop() as links:
        yield links


def make_link(options: GoBackNOptions = OPTIONS, initial_seq: int = 1) -> GoBackN:
    return GoBackN(options, initial_seq)


def make_wire(options: GoBackNOptions = OPTIONS, initial_seq: int = 1) -> FakeWire[GoBackN]:
    return FakeWire(make_link(options, initial_seq), make_link(options, initial_seq))


def frames_of(outputs: list[LinkOutput]) -> list[Frame]:
    return [frame for output in outputs if isinstance(output, Transmit) for frame in output.frames]


def data_of(outputs: list[LinkOutput]) -> list[Frame]:
    return [frame for frame in frames_of(outputs) if isinstance(frame, Data)]


# One end.


def test_a_submitted_object_goes_at_the_tick_and_not_before() -> None:
    link = make_link()
    link.step(Tick(), now_us=0)

    assert link.step(Submit(b"one"), now_us=5) == []
    assert link.wake_at_us <= 5
    assert data_of(link.step(Tick(), now_us=5)) == [Data(1, b"one")]


def test_a_lazy_object_waits_for_other_objects_but_not_for_ever() -> None:
    link = make_link()
    link.step(Tick(), now_us=0)
    link.step(Submit(b"meta", lazy=True), now_us=0)

    assert link.wake_at_us == 5_000
    assert frames_of(link.step(Tick(), now_us=4_999)) == []
    assert data_of(link.step(Tick(), now_us=5_000)) == [Data(1, b"meta")]


def test_data_stops_at_the_window_and_an_urgent_object_does_not() -> None:
    link = make_link()
    for _ in range(6):
        link.step(Submit(bytes(1_200)), now_us=0)
    assert len(data_of(link.step(Tick(), now_us=0))) == 4

    link.step(Submit(b"now", urgent=True), now_us=1)

    assert data_of(link.step(Tick(), now_us=1)) == [Data(5, b"now")]
    assert link.backlog_bytes == 2_400


def test_all_unacknowledged_packets_go_again_when_the_timer_expires() -> None:
    link = make_link()
    for word in (bytes(1_200), bytes(1_300)):
        link.step(Submit(word), now_us=0)
    first = data_of(link.step(Tick(), now_us=0))

    assert data_of(link.step(Tick(), now_us=149_999)) == []
    assert not link.stuck
    assert data_of(link.step(Tick(), now_us=150_000)) == first
    assert link.stuck
    assert link.counters.retransmissions == 2

    link.step(Ack(2, 2, 0, stamp_us=1, echo_us=0, echo_delay_us=0), now_us=151_000)
    assert not link.stuck
    assert data_of(link.step(Tick(), now_us=380_000)) == []


def test_a_duplicate_is_dropped_and_acknowledged_again() -> None:
    link = make_link()
    assert link.step(Data(1, b"one"), now_us=0) == [Deliver(b"one")]
    link.step(Tick(), now_us=0)

    assert link.step(Data(1, b"one"), now_us=10) == []
    assert [frame for frame in frames_of(link.step(Tick(), now_us=10)) if isinstance(frame, Ack)]
    assert link.counters.duplicates == 1


def test_objects_of_unreliable_bundles_go_once_and_outside_of_the_numbering() -> None:
    link = make_link()
    link.step(Submit(an_object(1), loose=True), now_us=0)

    assert link.wake_at_us == 0
    assert Loose(an_object(1)) in frames_of(link.step(Tick(), now_us=0))
    assert link.counters.sent == 0
    assert not any(isinstance(frame, Loose) for frame in frames_of(link.step(Tick(), now_us=300_000)))


def test_a_link_whose_backlog_is_full_fails_once_and_is_silent() -> None:
    link = make_link(GoBackNOptions(backlog_bytes_max=1_000))
    link.step(Submit(bytes(900)), now_us=0)

    failed = link.step(Submit(bytes(101)), now_us=0)

    assert failed == [LinkFailed("more than 1000 bytes wait for the neighbour")]
    assert link.failure == "more than 1000 bytes wait for the neighbour"
    assert (link.wake_at_us, link.early_tick_at_us) == (NEVER, NEVER)
    assert link.step(Tick(), now_us=1) == []
    assert link.step(Data(1, b"late"), now_us=1) == []


@pytest.mark.parametrize(
    "frame",
    [
        Data(9, b"past the window"),
        Segment(9, 0, 2, 20, bytes(10)),
        Ack(1, 1, 0, stamp_us=1, echo_us=0, echo_delay_us=0),
        Ack(0, 1, 0, stamp_us=1, echo_us=0, echo_delay_us=0),
        Ack(0, 0, 9, stamp_us=1, echo_us=0, echo_delay_us=0),
        Nack((Missing(1, 1),)),
        Hurry(),
    ],
)
def test_a_frame_that_no_correct_end_sends_is_refused_and_changes_nothing(frame: Frame) -> None:
    link, twin = make_link(), make_link()
    link.step(Tick(), now_us=0)
    twin.step(Tick(), now_us=0)

    with pytest.raises(PeerError):
        link.step(frame, now_us=10)

    assert link.state == twin.state


# Two ends.


def test_everything_arrives_once_although_a_third_of_the_datagrams_is_lost() -> None:
    dice = random.Random(7)
    wire = make_wire(GoBackNOptions(silence_us=60_000_000, heartbeat_us=100_000), initial_seq=1_000)
    wire.lose = lambda _end, _frame: dice.random() < 0.3
    arguments = [b"%d" % number * 400 for number in range(100, 140)]
    for word in arguments:
        wire.submit("a", word)
        wire.submit("b", word)
        wire.run(wire.now_us + 3_000)
    wire.run(20_000_000)

    for end in "ab":
        assert sorted(b"".join(wire.delivered[end])) == sorted(b"".join(arguments))
        assert len(wire.delivered[end]) == len(arguments)
    assert wire.a.counters.retransmissions > 0
    assert wire.b.counters.duplicates > 0
    assert wire.failed == {}


def test_a_packet_of_many_datagrams_is_put_together_from_several_attempts() -> None:
    dice = random.Random(3)
    wire = make_wire(GoBackNOptions(silence_us=60_000_000, heartbeat_us=100_000))
    wire.lose = lambda _end, _frame: dice.random() < 0.3
    payload = random.Random(1).randbytes(wire.a.object_bytes_max)
    wire.submit("a", payload)
    wire.run(20_000_000)

    assert wire.delivered["b"] == [payload]


def test_an_idle_link_stays_up_and_measures_its_round_trip() -> None:
    wire = make_wire()
    wire.run(5_000_000)

    assert wire.failed == {}
    assert wire.a.least_round_trip_us == 19_999  # At time 0 the stamp is 1.
    assert wire.a.learned is not None


def test_a_link_fails_at_both_ends_after_silence() -> None:
    wire = make_wire()
    wire.run(1_000_000)
    wire.lose = lambda _end, _frame: True
    wire.run(1_600_000)

    assert set(wire.failed) == {"a", "b"}
    assert all(reason == "nothing heard for 400 ms" for reason in wire.failed.values())


def test_a_link_that_stops_losing_before_the_silence_is_over_goes_on() -> None:
    wire = make_wire()
    wire.run(1_000_000)
    wire.lose = lambda _end, _frame: wire.now_us < 1_200_000
    wire.submit("a", b"patience")
    wire.run(3_000_000)

    assert wire.failed == {}
    assert wire.delivered["b"] == [b"patience"]


# The link checker of the simulator.


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_object_arrives_once_over_a_rough_network(seed: int) -> None:
    world = LinkWorld(seed, ROUGH)
    a, b = world.datagram_link("a", "b", make_link)
    for number in range(50):
        a.submit(b"a %d" % number)
        b.submit(b"b %d" % number, urgent=number % 2 == 0)
        world.run_for(7_000)
    world.run_for(10_000_000)

    assert [verdict.witness for verdict in world.verdicts() if not verdict] == []
    assert not any(isinstance(event, LinkEndFailed | DatagramDropped) for event in world.trace)
    assert sum(isinstance(event, ObjectReceived) for event in world.trace) == 100


def test_a_crashed_host_is_noticed_and_the_next_generation_works() -> None:
    world = LinkWorld(4, Quality(delay_us=5_000))
    a, _b = world.datagram_link("a", "b", make_link)
    a.submit(b"before")
    world.run_for(100_000)
    world.crash("b")
    a.submit(b"lost")
    world.run_for(1_000_000)
    assert a.failed

    world.restart("b")
    a, b = world.datagram_link("a", "b", make_link)
    a.submit(b"after")
    world.run_for(1_000_000)

    assert [verdict.witness for verdict in world.verdicts() if not verdict] == []
    received = [event.payload for event in world.trace if isinstance(event, ObjectReceived)]
    assert received == [b"before", b"after"]
    assert not b.failed


# The table, and whole clusters.


def test_the_row_is_given_back_after_use() -> None:
    before = KINDS[LinkProtocol.HOP]
    with in_place_of_hop():
        row = KINDS[LinkProtocol.HOP]
        assert row is not before
        assert row.object_bytes_max(UNTUNED) == make_link().object_bytes_max == Hop().object_bytes_max

    assert KINDS[LinkProtocol.HOP] is before


@pytest.mark.slow
@pytest.mark.both
@pytest.mark.parametrize("clients", [False, True])
def test_clusters_whose_sites_are_joined_by_this_kind_keep_every_property(
    made: list[GoBackN], clients: bool
) -> None:
    outcomes = [run_seed(seed, WorldKind(clients)) for seed in range(1, 7)]

    assert [(outcome.seed, outcome.broken) for outcome in outcomes if outcome.broken] == []
    assert sum(link.counters.received for link in made) > 1_000
    assert any(link.counters.retransmissions for link in made)


@pytest.mark.slow
def test_a_kind_with_a_name_of_its_own_is_two_lines_and_a_row() -> None:
    command = [sys.executable, "-m", "tests.link_kinds.named"]
    environment = os.environ | {"HOPRING_PURE": "1"}
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )

    assert (done.stderr, done.returncode) == ("", 0)


@pytest.mark.long
@pytest.mark.usefixtures("made")
def test_a_campaign_over_this_kind_finds_nothing_broken() -> None:
    reports = list(run_many(range(1, 401), JOBS))

    assert [(report.seed, report.broken) for report in reports if report.failed] == []
    assert sum(report.views for report in reports) > 400
