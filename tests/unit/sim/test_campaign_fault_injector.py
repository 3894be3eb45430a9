from hopring.config.builder import local_config
from hopring.sim.campaign.fault_injector import FaultInjector, sides
from hopring.sim.campaign.fault_schedule import Fault
from hopring.sim.cluster import SimCluster
from hopring.sim.engine import SimEngine
from hopring.sim.network import Address, SimNetwork
from hopring.sim.path import Path, Quality


def test_the_sides_of_a_partition_are_parsed_from_text() -> None:
    assert sides(("a=0", "b=1", "c=0")) == {"0": ["a", "c"], "1": ["b"]}


def test_a_late_copy_comes_within_its_delay() -> None:
    path = Path("a->b", Quality(delay_us=1_000, duplicate=1.0, duplicate_delay_us=500_000), seed=1)

    fates = [path.carry(100, 0) for _ in range(50)]

    copies = [fate[1] for fate in fates if isinstance(fate, list)]
    assert len(copies) == 50
    assert all(1_000 <= at_us <= 501_000 for at_us in copies)
    assert max(copies) > 400_000


def test_a_numb_host_receives_nothing_not_even_datagrams_in_flight() -> None:
    cluster = SimCluster(local_config({"ams": 2}), seed=1, quality=Quality(delay_us=1_000))
    network, came = cluster.network, list[bytes]()
    network.bind(Address("ams2", 9), lambda _source, datagram: came.append(datagram))
    network.send(Address("ams1"), Address("ams2", 9), b"under way")

    FaultInjector(cluster).happen(Fault(0, "numb", ("ams1", "ams2"), 5, "bound", 1), ["ams2"])
    cluster.engine.at(4_500, network.send, Address("ams1"), Address("ams2", 9), b"after")
    cluster.engine.run_until(10_000)

    assert came == [b"after"]
    assert not network.host("ams1").numb


def test_the_first_listed_host_that_has_reached_the_phase_becomes_numb() -> None:
    cluster = SimCluster(local_config({"ams": 3}), seed=1, quality=Quality())

    FaultInjector(cluster).happen(Fault(0, "numb", ("ams3", "ams2", "ams1"), 5, "bound", 1), ["ams1", "ams2"])

    assert [name for name in ("ams1", "ams2", "ams3") if cluster.network.host(name).numb] == ["ams2"]


def test_faint_paths_lose_in_one_direction_until_all_losses_are_set() -> None:
    cluster = SimCluster(local_config({"ams": 2}), seed=1, quality=Quality())
    trouble, network = FaultInjector(cluster), cluster.network

    trouble.happen(Fault(0, "faint", ("ams1>ams2",), 0.5))
    there, back = network.path("ams1", "ams2"), network.path("ams2", "ams1")
    assert (there.quality.loss, back.quality.loss) == (0.5, 0.0)

    trouble.happen(Fault(0, "loss"))
    assert there.quality.loss == 0.0


def test_the_timers_of_a_late_host_run_late() -> None:
    network = SimNetwork(SimEngine(), seed=1)
    rang: list[int] = []
    network.host("a").late_us = 7_000

    network.timer("a", 10_000, lambda: rang.append(network.engine.now_us))
    network.engine.run_until(100_000)

    assert rang == [17_000]


def test_a_slow_host_takes_datagrams_one_by_one_and_catches_up_when_it_is_fast_again() -> None:
    network = SimNetwork(SimEngine(), seed=1, quality=Quality(delay_us=1_000))
    got: list[tuple[int, bytes]] = []
    network.bind(Address("b", 1), lambda _source, datagram: got.append((network.engine.now_us, datagram)))
    network.host("b").packet_cost_us = 300

    for datagram in (b"one", b"two"):
        network.send(Address("a", 1), Address("b", 1), datagram)
    network.engine.run_until(1_000)
    network.host("b").packet_cost_us = 0
    network.send(Address("a", 1), Address("b", 1), b"three")
    network.engine.run_until(10_000)

    assert got == [(1_300, b"one"), (1_600, b"two"), (2_000, b"three")]
