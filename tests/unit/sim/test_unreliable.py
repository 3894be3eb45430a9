"""The Unreliable service on whole stacks and daemons in virtual time: only losses of the network count."""

from collections import Counter

import pytest

from hopring.check import trace
from hopring.check.judge import check_evs
from hopring.config.builder import local_config
from hopring.config.model import LinkProtocol
from hopring.links.events import Tick
from hopring.services import Service
from hopring.sim.cluster import SimCluster
from hopring.sim.path import Quality
from hopring.stack_events import PacketReceived, StackOptions
from hopring.testing.network_check import check_network
from hopring.testing.overlay import Overlay
from hopring.wire.header import Family
from hopring.wire.train import Packet
from hopring.wire.unreliable import Loose, cut_unreliable, encode_unreliable

SITES = {"ams": 3, "ber": 2}


def overlay(loss: float = 0.0, protocol: LinkProtocol = LinkProtocol.HOP, seed: int = 1) -> Overlay:
    world = Overlay(local_config(SITES, protocol=protocol), seed, Quality(delay_us=300, loss=loss))
    world.start()
    world.run(100_000)
    return world


def drops(world: Overlay) -> Counter[str]:
    return Counter(str(reason) for daemon in world.daemons.values() for reason in daemon.stack.drops.elements())


@pytest.mark.parametrize("protocol", [LinkProtocol.HOP, LinkProtocol.TCP])
def test_without_loss_all_bundles_arrive_once_at_the_sites_of_the_mask(protocol: LinkProtocol) -> None:
    world = overlay(protocol=protocol)

    world.multicast_loose("ams2", b"all")
    world.multicast_loose("ber1", bytes(20_000))
    world.multicast_loose("ams3", b"ber", world.mask("ber"))
    world.multicast_loose("ams1", b"ams", world.mask("ams"))
    world.run(200_000)

    everybody = {"ams1", "ams2", "ams3", "ber1", "ber2"}
    assert world.loose == Counter(
        {
            **{(name, b"all"): 1 for name in everybody},
            **{(name, bytes(20_000)): 1 for name in everybody},
            **{(name, b"ber"): 1 for name in ("ber1", "ber2", "ams3")},
            **{(name, b"ams"): 1 for name in ("ams1", "ams2", "ams3")},
        }
    )
    assert not world.metas
    assert not drops(world)


@pytest.mark.slow
def test_the_share_of_losses_is_that_of_the_network_and_nothing_is_resent() -> None:
    got: Counter[str] = Counter()
    for seed in range(4):
        world = overlay(loss=0.1, seed=seed)
        for number in range(400):
            # Far enough apart that each has its own datagram.
            world.multicast_loose("ams2", b"%d" % number)
            world.multicast("ams2", b"reliable %d" % number)
            world.run(100_000 + 12_000 * number)
        world.run(world.engine.now_us + 2_000_000)
        assert set(world.loose.values()) == {1}
        assert Counter(delivery.daemon for delivery in world.deliveries) == dict.fromkeys(world.daemons, 400)
        assert all(check_network(world.trace))
        got.update(name for name, _ in world.loose)

    assert got["ams2"] == 1_600
    share = {name: count / 1_600 for name, count in got.items()}
    # One, two and three hops.
    assert share["ams1"] == pytest.approx(0.9, abs=0.03)
    assert share["ams3"] == pytest.approx(0.9, abs=0.03)
    assert share["ber1"] == pytest.approx(0.9**2, abs=0.03)
    assert share["ber2"] == pytest.approx(0.9**3, abs=0.03)


def test_a_bundle_with_a_lost_fragment_is_dropped_after_its_time() -> None:
    world = overlay()
    options = StackOptions()
    stack = world.daemons["ber1"].stack
    ams2 = world.numbers["ams2"]
    parts = cut_unreliable(world.daemons["ams2"].site, ams2, 1, world.mask(), bytes(3_000), 1_370)
    head = world.daemons["ams1"].stack.own.header(Family.HOP)
    now_us = world.engine.now_us

    for part in parts[:-1]:
        packet = Packet(head, (Loose(encode_unreliable(part)),))
        stack.step(PacketReceived(packet), now_us)
    assert stack.loose.held_bytes > 0
    assert stack.wake_at_us <= now_us + options.loose_wait_us
    stack.step(Tick(), now_us + options.loose_wait_us)

    assert (stack.loose.held_bytes, stack.loose.incomplete) == (0, 1)


def test_a_bad_loose_frame_is_counted_and_the_network_goes_on() -> None:
    world = overlay()
    stack = world.daemons["ams1"].stack
    foreign = cut_unreliable(stack.network.site, stack.own.me, 1, world.mask(), b"as you", 1_370)[0]
    ring, hop, none = (
        world.daemons["ams2"].stack.own.header(family)
        for family in (Family.RING, Family.HOP, Family.MEMBERSHIP)
    )

    for head, payload in (
        (ring, encode_unreliable(foreign)),
        (hop, encode_unreliable(foreign)),
        (none, encode_unreliable(foreign)),
        (ring, b"no object at all"),
        (ring, bytes([1, 0, 0, 0])),
    ):
        stack.step(PacketReceived(Packet(head, (Loose(payload),))), world.engine.now_us)

    assert sum(stack.drops.values()) == 5
    assert not stack.failed


def cluster(loss: float = 0.0, sites: dict[str, int] = SITES) -> SimCluster:
    world = SimCluster(local_config(sites), 1, Quality(delay_us=500, loss=loss))
    world.start()
    world.run_for(2_000_000)
    assert world.settled()
    return world


def delivered(world: SimCluster, service: Service) -> Counter[str]:
    events = [event for event in world.history if isinstance(event, trace.MessageDelivered)]
    return Counter(event.process.daemon for event in events if event.service is service)


@pytest.mark.slow
def test_loss_of_unreliable_messages_delays_nothing() -> None:
    world = cluster(loss=0.05)
    for at in range(300):
        world.hosts["ams2"].submit(Service.UNRELIABLE, 100 if at % 3 else 4_000)
        world.hosts["ber1"].submit(Service.AGREED if at % 2 else Service.FIFO, 100)
        world.run_for(2_000)
    world.run_for(2_000_000)

    assert delivered(world, Service.AGREED) == dict.fromkeys(world.hosts, 150)
    assert delivered(world, Service.FIFO) == dict.fromkeys(world.hosts, 150)
    loose = delivered(world, Service.UNRELIABLE)
    assert loose["ams2"] == 300
    assert all(200 <= loose[name] < 300 for name in world.hosts if name != "ams2")
    assert [verdict for verdict in check_evs(world.history, quiet_end=True) if not verdict] == []


@pytest.mark.parametrize("sites", [{"ams": 1}, {"ams": 3}, {"ams": 2, "ber": 1}])
def test_an_idle_system_frees_the_window(sites: dict[str, int]) -> None:
    world = cluster(sites=sites)
    outbox = world.hosts["ams1"].membership.flow.window
    for _ in range(5):
        world.hosts["ams1"].submit(Service.UNRELIABLE, 1_000)
    assert outbox.out_bundles == 5

    world.run_for(1_500_000)

    assert (outbox.out_bundles, outbox.out_bytes, len(outbox.loose)) == (0, 0, 0)


@pytest.mark.slow
def test_the_window_limits_a_flood_and_lets_all_of_it_pass_in_time() -> None:
    world = cluster(sites={"ams": 2, "ber": 1})
    host = world.hosts["ams2"]
    window = world.options.window_bundles
    for _ in range(2 * window + 100):
        host.submit(Service.UNRELIABLE, 100)

    assert host.membership.flow.window.out_bundles == window
    assert len(host.membership.flow.window.waiting) == window + 100
    world.run_for(1_000_000)

    assert delivered(world, Service.UNRELIABLE) == dict.fromkeys(world.hosts, 2 * window + 100)


@pytest.mark.slow
def test_a_flood_does_not_starve_the_agreed_messages_of_others() -> None:
    alone_us = slowest_agreed_us(flood=0)

    assert slowest_agreed_us(flood=1) < 1.25 * alone_us
    assert slowest_agreed_us(flood=20) < 2 * alone_us


def slowest_agreed_us(flood: int) -> int:
    """The longest latency of an Agreed message beside this many Unreliable ones of 1 kB per millisecond."""
    world = cluster(sites={"ams": 2, "ber": 2})
    for at in range(200):
        for _ in range(flood):
            world.hosts["ams2"].submit(Service.UNRELIABLE, 1_000)
        if at % 4 == 0:
            world.hosts["ams1"].submit(Service.AGREED, 100)
        world.run_for(1_000)
    world.run_for(1_000_000)
    assert delivered(world, Service.AGREED) == dict.fromkeys(world.hosts, 50)
    sent_at_us = {event.message: event.at_us for event in world.history if isinstance(event, trace.MessageSent)}
    events = [event for event in world.history if isinstance(event, trace.MessageDelivered)]
    return max(event.at_us - sent_at_us[event.message] for event in events if event.service is Service.AGREED)


def test_after_the_view_broke_nothing_is_delivered_and_what_waits_goes_into_the_next() -> None:
    world = cluster(sites={"ams": 2, "ber": 1})
    host = world.hosts["ams1"]
    world.crash("ber1")
    world.run_for(400_000)
    view = host.membership.view.id
    world.network.partition(["ams1"], ["ams2"])
    host.submit(Service.UNRELIABLE, 10)
    world.run_for(5_000_000)
    world.network.heal()
    for name in ("ams1", "ams2"):
        for _ in range(3):
            world.hosts[name].submit(Service.UNRELIABLE, 10)
    world.run_for(5_000_000)

    assert world.settled()
    assert host.membership.view.id > view
    sent = Counter(event.process.daemon for event in world.history if isinstance(event, trace.MessageSent))
    assert sent == {"ams1": 4, "ams2": 3}
    assert [verdict for verdict in check_evs(world.history, quiet_end=True) if not verdict] == []
