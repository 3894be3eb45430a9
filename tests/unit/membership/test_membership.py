"""Whole daemons in the simulator, with questions about one of them."""

import pytest

from hopring.check.trace import MessageDelivered, ViewInstalled
from hopring.config import LinkProtocol
from hopring.config.builder import local_config
from hopring.engine import Stalled, Stop, SubmitMessage
from hopring.errors import Drop, PeerError
from hopring.ids import NEVER, Incarnation, Process, SiteId, SiteMask
from hopring.links.ring.options import RingOptions
from hopring.membership.current_network import ROUTING_BYTES
from hopring.membership.events import DaemonMessageReceived, SendDaemonMessage
from hopring.membership.messages import DaemonJoin, DaemonLeave, GatherRecord, NewMemb
from hopring.membership.options import LEAVE_COPIES, MembershipOptions
from hopring.ordering.entry import OrderedMessage, encode_message
from hopring.routing.trees import pair
from hopring.services import Service
from hopring.sim.cluster import SimCluster
from hopring.sim.path import Quality
from hopring.stack_events import Receive, StackOptions
from hopring.wire.bundle import BUNDLE_BYTES_DEFAULT

SECOND_US = 1_000_000


def cluster_of(sites: dict[str, int], options: MembershipOptions | None = None) -> SimCluster:
    cluster = SimCluster(local_config(sites), 1, Quality(delay_us=500), options)
    cluster.start()
    cluster.run_for(2 * SECOND_US)
    assert cluster.settled()
    return cluster


def members(cluster: SimCluster, name: str) -> list[str]:
    return [cluster.names[one.daemon] for one in cluster.hosts[name].membership.view.members]


def test_a_daemon_that_stamps_far_ahead_is_left_out_and_the_others_continue() -> None:
    cluster = cluster_of({"eu": 3, "us": 2})
    liar = cluster.hosts["us2"].membership
    assert liar.stack is not None
    liar.stack.heard(2**50)
    liar.view.order.clock = 2**50  # Otherwise it would withhold a bundle that its own order refuses.

    cluster.hosts["us2"].submit(Service.AGREED, 10)
    cluster.run_for(SECOND_US)

    assert members(cluster, "eu1") == ["eu1", "eu2", "eu3", "us1"]
    assert members(cluster, "us2") == ["us2"]


def test_a_path_that_was_measured_is_known_by_its_ends_and_an_unknown_one_taken_to_be_long() -> None:
    options = MembershipOptions()
    cluster = cluster_of({"eu": 2, "us": 1}, options)
    first = cluster.hosts["eu1"].membership
    second = cluster.hosts["eu2"].membership
    everybody = first.view.members

    cluster.crash("us1")
    cluster.run_for(3 * SECOND_US)

    ends = pair(SiteId(0), SiteId(1))
    assert set(first.network.round_trips_us) == {ends}
    assert 1_000 <= first.network.round_trips_us[ends] < 10_000
    assert first.network.round_trip_to_us(everybody) == first.network.round_trips_us[ends]
    assert second.network.round_trip_to_us(everybody) == options.round_trip_us
    assert second.network.round_trip_to_us(second.view.members) == 0


def test_the_timeout_doubles_after_each_attempt_that_timed_out_until_a_view_is_installed() -> None:
    cluster = cluster_of({"eu": 2})
    daemon = cluster.hosts["eu1"].membership
    allowed: list[int] = []
    for _ in range(3):
        daemon.timeouts = len(allowed)
        daemon._newmemb(
            NewMemb(daemon.view.id._replace(counter=daemon.counter + 1), daemon.view.members),
            cluster.engine.now_us,
        )
        allowed.append(daemon.deadline_us - cluster.engine.now_us)

    assert [one // allowed[0] for one in allowed] == [1, 2, 4]
    cluster.run_for(10 * SECOND_US)
    assert cluster.settled()
    assert daemon.timeouts == 0


def test_no_queue_of_a_network_is_smaller_than_all_windows_together() -> None:
    options = MembershipOptions(window_bytes=3_000_000, window_bundles=100)
    cluster = cluster_of({"eu": 2, "us": 2}, options)
    stack = cluster.hosts["eu1"].membership.stack
    assert stack is not None
    window = 3_000_000 + BUNDLE_BYTES_DEFAULT + 100 * ROUTING_BYTES

    assert stack.ring.options.queue_bytes_max == 4 * window
    assert all(link.backlog_bytes_max >= 4 * window for link in stack.links.values())


def test_full_windows_of_all_senders_fit_the_queues_while_a_ring_stands_still() -> None:
    ring = RingOptions(queue_bytes_max=256 * 1024)
    cluster = SimCluster(
        local_config({"eu": 4, "us": 2}), 1, Quality(delay_us=500), stack_options=StackOptions(ring=ring)
    )
    cluster.start()
    cluster.run_for(2 * SECOND_US)
    view = cluster.hosts["eu1"].membership.view.id

    cluster.network.pause("us2", 200_000)
    for name in ("eu1", "eu2", "eu3", "eu4"):
        for _ in range(30):
            cluster.hosts[name].submit(Service.AGREED, 60_000)
    cluster.run_for(4 * SECOND_US)

    assert cluster.settled()
    assert cluster.hosts["us2"].membership.view.id == view
    last = cluster.hosts["us2"].process
    delivered = [one for one in cluster.history if isinstance(one, MessageDelivered) and one.process == last]
    assert len(delivered) == 120


def test_a_stopped_daemon_takes_no_further_part() -> None:
    cluster = cluster_of({"eu": 2})
    daemon = cluster.hosts["eu2"].membership
    cluster.hosts["eu2"].submit(Service.SAFE, 10)
    assert not daemon.drained
    cluster.run_for(SECOND_US)
    assert daemon.drained

    said = daemon.step(Stop(), cluster.engine.now_us)

    assert said == [SendDaemonMessage((cluster.numbers["eu1"],), DaemonLeave(daemon.local.me))] * LEAVE_COPIES
    assert daemon.wake_at_us == NEVER
    assert daemon.step(SubmitMessage(Service.SAFE, b"late"), cluster.engine.now_us) == []


def test_a_leave_of_a_daemon_outside_the_view_changes_nothing() -> None:
    cluster = cluster_of({"eu": 3})
    daemon = cluster.hosts["eu1"].membership
    view = daemon.view.id
    earlier = Process(cluster.numbers["eu2"], Incarnation(77))

    daemon.step(DaemonMessageReceived(earlier, DaemonLeave(earlier)), cluster.engine.now_us)
    other = cluster.hosts["eu3"].me
    daemon.step(DaemonMessageReceived(other, DaemonLeave(cluster.hosts["eu2"].me)), cluster.engine.now_us)

    assert daemon.view.id == view
    assert not daemon.view.broken
    assert daemon.drops[Drop.FOREIGN_SENDER] == 1


def test_a_suspicion_that_ends_during_a_search_ends_in_its_records_too() -> None:
    cluster = cluster_of({"ams": 1, "ber": 1})
    search = cluster.hosts["ber1"].membership.discovery
    link, now_us = pair(SiteId(0), SiteId(1)), cluster.engine.now_us
    search.suspicions.blame_link(link, now_us)
    search.suspicions.blame_link(link, now_us)
    search.seek(9, now_us)
    assert search.gather is not None
    assert link in search.gather.cut

    search.refresh(now_us + 3 * SECOND_US)

    assert link not in search.gather.cut


def test_a_search_dismisses_what_it_heard_and_nothing_that_was_known_before_it() -> None:
    """Two whole views whose searches miss each other would otherwise never meet."""
    cluster = cluster_of({"ams": 2})
    daemon, now_us = cluster.hosts["ams1"].membership, cluster.engine.now_us
    search, view = daemon.discovery, daemon.view
    stranger = Process(view.members[1].daemon, Incarnation(99))

    def said(seq: int) -> DaemonJoin:
        return DaemonJoin((GatherRecord(stranger, seq, (stranger,), (), 4),), active=True)

    def probe(at_us: int, *heard: DaemonJoin) -> None:
        search.probe(4, view, at_us)
        assert search.gather is not None
        for message in heard:
            search.gather.join(message, at_us)
        search.end_search(view, at_us)

    probe(now_us, said(1))
    assert not search.concerns(said(2), view, now_us + 1)
    probe(now_us + 10)
    assert search.concerns(said(2), view, now_us + 11)


def test_a_link_with_losses_is_not_to_blame_when_a_member_leaves() -> None:
    cluster = SimCluster(local_config({"ams": 2, "ber": 2}), 1, Quality(delay_us=5_000, loss=0.2))
    cluster.start()
    cluster.run_for(3 * SECOND_US)
    for _ in range(50):
        cluster.hosts["ber1"].submit(Service.AGREED, 1_000)
        cluster.run_for(1_000)

    near = cluster.hosts["ams1"].membership
    assert near.stack is not None
    assert near.stack.stuck
    assert near.network.suspects(late=False) == ([], None)
    assert near.network.suspects(late=True) == ([pair(SiteId(0), SiteId(1))], None)

    cluster.stop("ams2")
    cluster.run_for(10_000)

    assert near.discovery.suspicions.links == {}


def test_a_duplicate_bundle_is_neither_stamped_nor_delivered_again() -> None:
    cluster = cluster_of({"ams": 2})
    daemon = cluster.hosts["ams1"].membership
    cluster.hosts["ams1"].submit(Service.AGREED, 10)
    cluster.run_for(SECOND_US)
    body = encode_message(OrderedMessage(Service.AGREED, daemon.local.me.daemon, 0, b"again"))
    line = daemon.view.order.lines[SiteId(0)]

    again = Receive(SiteId(0), line.cseq, 5, SiteMask(1), body)

    assert daemon.flow.receive(daemon.view, again, cluster.engine.now_us) == []


def test_a_site_cannot_send_for_the_daemons_of_another() -> None:
    cluster = cluster_of({"ams": 1, "ber": 1})
    daemon = cluster.hosts["ams1"].membership
    body = encode_message(OrderedMessage(Service.AGREED, daemon.local.me.daemon, 0, b"forged"))

    with pytest.raises(PeerError):
        daemon.flow.receive(daemon.view, Receive(SiteId(1), 1, 5, SiteMask(3), body), cluster.engine.now_us)


def causes_at(cluster: SimCluster, name: str) -> list[str]:
    process = cluster.hosts[name].process
    return [one.cause for one in cluster.history if isinstance(one, ViewInstalled) and one.process == process]


@pytest.mark.parametrize("protocol", list(LinkProtocol))
def test_a_daemon_that_did_not_run_names_that_cause_and_blames_nobody(protocol: LinkProtocol) -> None:
    cluster = SimCluster(local_config({"eu": 2, "us": 1}, protocol=protocol), 1, Quality(delay_us=500))
    cluster.start()
    cluster.run_for(2 * SECOND_US)
    before = {name: len(causes_at(cluster, name)) for name in cluster.hosts}

    for name in ("eu2", "us1"):
        cluster.network.pause(name, 3_200_000)
        cluster.run_for(20 * SECOND_US)
        assert cluster.settled()

        own = causes_at(cluster, name)[before[name] :]
        assert own[0] == "this daemon did not run for 3.2 s"
        assert not [cause for cause in own if "link with" in cause or "ring" in cause]
        theirs = causes_at(cluster, "eu1")[before["eu1"] :]
        assert theirs
        assert "this daemon" not in theirs[0]
        before = {name: len(causes_at(cluster, name)) for name in cluster.hosts}


def test_a_short_stall_does_not_hide_what_happens_to_others() -> None:
    cluster = cluster_of({"eu": 1, "us": 1})
    cluster.network.pause("eu1", 400_000)
    cluster.run_for(SECOND_US)
    cluster.crash("us1")
    cluster.run_for(5 * SECOND_US)

    assert causes_at(cluster, "eu1")[-1] == "link with us1: nothing heard for 1200 ms"


def test_a_daemon_that_leaves_soon_after_a_stall_is_named_as_leaving() -> None:
    cluster = cluster_of({"eu": 1, "us": 1})
    daemon = cluster.hosts["eu1"].driver
    daemon.step(Stalled(3 * SECOND_US))
    cluster.stop("us1")
    cluster.run_for(5 * SECOND_US)

    assert causes_at(cluster, "eu1")[-1] == "us1 leaves"
