import pytest

from hopring.sim.engine import SimEngine
from hopring.sim.network import Address, Delay, Duplicate, Flight, Lose, SentDatagram, SimNetwork, TargetedFault
from hopring.sim.path import IP_UDP_BYTES, LossReason, Quality

Inbox = list[tuple[int, str, bytes]]


def make_network(*hosts: str, quality: Quality | None = None) -> tuple[SimNetwork, dict[str, Inbox]]:
    network = SimNetwork(SimEngine(), 1, quality or Quality(delay_us=100))
    return network, {host: listen(network, host) for host in hosts}


def listen(network: SimNetwork, host: str) -> Inbox:
    inbox: Inbox = []
    network.bind(
        Address(host, 1),
        lambda source, datagram: inbox.append((network.engine.now_us, source.host, datagram)),
    )
    return inbox


def send(network: SimNetwork, source: str, target: str, datagram: bytes = b"x") -> None:
    network.send(Address(source, 1), Address(target, 1), datagram)


def test_a_datagram_arrives_after_the_delay_of_its_path() -> None:
    network, inboxes = make_network("a", "b")

    send(network, "a", "b", b"hello")
    network.engine.run_until(1_000)

    assert inboxes["b"] == [(100, "a", b"hello")]


def test_a_datagram_to_an_unbound_port_is_counted() -> None:
    network, _inboxes = make_network("a", "b")

    network.send(Address("a", 1), Address("b", 2), b"x")
    network.engine.run_until(1_000)

    assert network.path("a", "b").counters.lost == {LossReason.NO_RECEIVER: 1}


def test_a_tally_accounts_for_every_datagram() -> None:
    quality = Quality(loss=0.2, duplicate=0.2, rate_bytes_per_second=100_000, queue_bytes=5_000)
    network, inboxes = make_network("a", "b", quality=quality)

    for _number in range(1_000):
        send(network, "a", "b", bytes(100))
    network.engine.run_until_idle()

    tally = network.path("a", "b").counters
    assert (tally.sent, tally.sent_bytes) == (1_000, 100_000)
    assert tally.sent + tally.doubled == tally.delivered + sum(tally.lost.values())
    assert tally.delivered == len(inboxes["b"])
    assert tally.lost[LossReason.QUEUE] > 0
    assert tally.lost[LossReason.CHANCE] > 0


def test_shape_changes_one_direction_and_shape_all_every_one() -> None:
    network, _inboxes = make_network("a", "b")

    network.shape("a", "b", delay_us=7)
    network.shape_all(loss=0.5)

    assert network.path("a", "b").quality == Quality(delay_us=7, loss=0.5)
    assert network.path("b", "a").quality == Quality(delay_us=100, loss=0.5)


def test_losses_of_a_path_do_not_depend_on_other_hosts() -> None:
    def fates(crowd: bool) -> list[int]:
        network, inboxes = make_network("a", "b", "c", quality=Quality(loss=0.5, jitter_us=50))
        for number in range(200):
            send(network, "a", "b", b"%d" % number)
            if crowd:
                send(network, "c", "b", b"other")
                send(network, "a", "c", b"other")
        network.engine.run_until_idle()
        return sorted(int(datagram) for _at, source, datagram in inboxes["b"] if source == "a")

    assert fates(crowd=False) == fates(crowd=True)


# ---- Multicast ----


def test_a_multicast_reaches_all_members_but_its_sender() -> None:
    network, inboxes = make_network("a", "b", "c", "d")
    for host in "abc":
        network.join("ring", Address(host, 1))

    network.multicast(Address("a", 1), "ring", b"hello")
    network.engine.run_until(1_000)

    assert {host for host, inbox in inboxes.items() if inbox} == {"b", "c"}


def test_a_multicast_is_lost_independently_for_each_receiver() -> None:
    network, inboxes = make_network("a", "b", "c", quality=Quality(loss=0.5))
    for host in "abc":
        network.join("ring", Address(host, 1))

    for number in range(1_000):
        network.multicast(Address("a", 1), "ring", b"%d" % number)
    network.engine.run_until(1_000)

    got = {host: {datagram for _at, _source, datagram in inboxes[host]} for host in "bc"}
    assert all(400 < len(numbers) < 600 for numbers in got.values())
    # Independent: half of what one gets, the other gets too.
    assert 180 < len(got["b"] & got["c"]) < 320


def test_a_member_that_left_or_crashed_gets_nothing() -> None:
    network, inboxes = make_network("a", "b", "c")
    for host in "abc":
        network.join("ring", Address(host, 1))
    network.leave("ring", Address("b", 1))
    network.crash("c")

    network.multicast(Address("a", 1), "ring", b"x")
    network.engine.run_until(1_000)

    assert inboxes == {"a": [], "b": [], "c": []}


def test_an_observer_sees_one_sending_with_the_fate_for_each_receiver() -> None:
    network, _inboxes = make_network("a", "b", "c")
    for host in "abc":
        network.join("ring", Address(host, 1))
    seen: list[SentDatagram] = []
    network.on_send = seen.append
    network.cut("a", "c")

    network.multicast(Address("a", 1), "ring", b"x")

    assert seen == [SentDatagram(0, Address("a", 1), "ring", b"x", (("b", None), ("c", LossReason.CUT)))]


# ---- Cuts and partitions ----


def test_a_cut_has_one_direction() -> None:
    network, inboxes = make_network("a", "b")
    network.cut("a", "b")

    send(network, "a", "b")
    send(network, "b", "a")
    network.engine.run_until(1_000)

    assert (len(inboxes["a"]), len(inboxes["b"])) == (1, 0)


def test_datagrams_in_flight_when_a_cut_begins_still_arrive() -> None:
    network, inboxes = make_network("a", "b")

    send(network, "a", "b")
    network.cut_both("a", "b")
    network.engine.run_until(1_000)

    assert len(inboxes["b"]) == 1


def test_a_partition_keeps_components_apart_and_the_rest_together() -> None:
    network, _inboxes = make_network(*"abcde")
    network.partition("ab", "c")

    reach = {(one, other) for one in "abcde" for other in "abcde" if network.connected(one, other)}

    pairs = {("a", "b"), ("b", "a"), ("d", "e"), ("e", "d")}
    assert reach == pairs | {(host, host) for host in "abcde"}
    network.heal()
    assert network.connected("a", "e")


# ---- Hosts ----


def test_a_paused_host_finds_its_datagrams_and_timers_when_it_resumes() -> None:
    network, inboxes = make_network("a", "b")
    fired: list[int] = []
    network.timer("b", 500, lambda: fired.append(network.engine.now_us))
    network.pause("b", duration_us=2_000)

    send(network, "a", "b", b"one")
    network.engine.run_until(1_000)
    assert (inboxes["b"], fired) == ([], [])
    network.engine.run_until(2_000)

    assert (inboxes["b"], fired) == ([(2_000, "a", b"one")], [2_000])


def test_a_resumed_host_reads_before_it_looks_at_its_timers() -> None:
    network, _inboxes = make_network("a")
    order: list[str] = []
    network.bind(Address("b", 1), lambda _source, _datagram: order.append("datagram"))
    network.timer("b", 50, order.append, "timer")
    network.pause("b", duration_us=1_000)

    send(network, "a", "b")
    network.engine.run_until(1_000)

    assert order == ["datagram", "timer"]


def test_the_receive_buffer_of_a_paused_host_is_bounded() -> None:
    network, inboxes = make_network("a", "b")
    network.host("b").receive_buffer_bytes = 25
    network.pause("b")

    for _number in range(5):
        send(network, "a", "b", bytes(10))
    network.engine.run_until(1_000)
    network.resume("b")

    assert len(inboxes["b"]) == 2
    assert network.path("a", "b").counters.lost == {LossReason.RECEIVE_BUFFER: 3}


def test_a_crash_takes_ports_and_timers_and_a_restart_does_not_bring_them_back() -> None:
    network, inboxes = make_network("a", "b")
    fired: list[int] = []
    network.timer("b", 500, fired.append, 1)

    network.crash("b")
    send(network, "a", "b")
    network.engine.run_until(200)
    network.restart("b")
    again = listen(network, "b")
    send(network, "a", "b")
    network.engine.run_until(1_000)

    assert (inboxes["b"], fired, len(again)) == ([], [], 1)
    assert network.host("b").starts == 2
    assert network.path("a", "b").counters.lost == {LossReason.HOST_DOWN: 1}


def test_a_pause_that_ends_after_a_crash_does_nothing() -> None:
    network, _inboxes = make_network("a")
    network.pause("a", duration_us=100)
    network.crash("a")
    network.restart("a")
    network.pause("a")

    network.engine.run_until(1_000)

    with pytest.raises(AssertionError):
        network.pause("a")


# ---- Aimed faults ----


def aim(network: SimNetwork, effect: Lose | Delay | Duplicate, first: int, last: int) -> None:
    def matches(flight: Flight) -> bool:
        return flight.datagram.startswith(b"x")

    network.interfere(TargetedFault(matches, effect, first, last))


def test_only_the_chosen_turns_of_matching_datagrams_are_lost() -> None:
    network, inboxes = make_network("a", "b")
    aim(network, Lose(), 2, 3)

    for datagram in (b"x1", b"y1", b"x2", b"y2", b"x3", b"x4"):
        send(network, "a", "b", datagram)
    network.engine.run_until(1_000)

    assert [datagram for _at, _source, datagram in inboxes["b"]] == [b"x1", b"y1", b"y2", b"x4"]
    assert network.path("a", "b").counters.lost == {LossReason.TARGETED: 2}


def test_a_datagram_can_be_delayed_or_doubled() -> None:
    network, inboxes = make_network("a", "b")
    aim(network, Delay(50), 1, 1)
    aim(network, Duplicate(copies=2, gap_us=5), 2, 2)

    send(network, "a", "b", b"x1")
    send(network, "a", "b", b"x2")
    network.engine.run_until(1_000)

    assert [(at_us, datagram) for at_us, _source, datagram in inboxes["b"]] == [
        *((100, b"x2"), (105, b"x2"), (110, b"x2")),
        (150, b"x1"),
    ]


def test_all_paths_of_a_host_share_its_access_line() -> None:
    network, inboxes = make_network("a", "b", "c")
    # 100 bytes with their headers take 100 ms.
    network.access_line("a", rate_bytes_per_second=1_000, queue_bytes=250)

    for target in ("b", "c", "b"):
        send(network, "a", target, bytes(100 - IP_UDP_BYTES))
    send(network, "b", "c")
    network.engine.run_until(1_000_000)

    assert [at_us for at_us, _, _ in inboxes["b"]] == [100_100]
    assert [at_us for at_us, _, _ in inboxes["c"]] == [100, 200_100]
    assert network.path("a", "b").counters.lost == {LossReason.QUEUE: 1}
