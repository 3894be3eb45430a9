"""A member with a fault sends what no correct daemon sends; the others stay whole, quick and small."""

import pytest
from msgspec.structs import replace

from hopring.check.trace import MessageDelivered, MessageSent
from hopring.config.builder import local_config
from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, Incarnation, Process, SiteId, SiteMask, ViewId
from hopring.links.events import Tick
from hopring.membership import membership
from hopring.membership.events import DaemonMessageReceived
from hopring.membership.gather import PROCESSES_MAX
from hopring.membership.messages import (
    DaemonAlive,
    DaemonJoin,
    DaemonLeave,
    DaemonMessage,
    GatherRecord,
    HeldRun,
    NewMemb,
    RecoveryMessage,
    StateTrans,
    encode_membership_message,
)
from hopring.membership.options import MembershipOptions
from hopring.ordering.entry import OrderedMessage, encode_message
from hopring.routing.network import FromLink
from hopring.services import Service
from hopring.sim.cluster import SimCluster
from hopring.sim.path import Quality
from hopring.stack_events import Input as StackInput
from hopring.stack_events import Multicast, PacketReceived, Promise, Receive
from hopring.wire.control import Control, Update
from hopring.wire.header import Family, Header
from hopring.wire.ring import Hurry, Token
from hopring.wire.routed import Routed
from hopring.wire.train import Packet

SECOND_US = 1_000_000
IN_FLIGHT = MembershipOptions().in_flight_max(4)


def cluster_of(sites: dict[str, int]) -> SimCluster:
    cluster = SimCluster(local_config(sites), 1, Quality(delay_us=500))
    cluster.start()
    cluster.run_for(2 * SECOND_US)
    assert cluster.settled()
    return cluster


def members(cluster: SimCluster, name: str) -> list[str]:
    return [cluster.names[one.daemon] for one in cluster.hosts[name].membership.view.members]


def send(cluster: SimCluster, name: str, event: StackInput) -> None:
    """This daemon's stack sends it, although the layer above never would."""
    host = cluster.hosts[name]
    host.membership._step_stack(event, cluster.engine.now_us)
    host.driver.step(Tick())


def clock(cluster: SimCluster, name: str) -> int:
    return cluster.hosts[name].membership.view.order.clock


@pytest.mark.parametrize("seq", [IN_FLIGHT + 1_000, 2**63])
def test_a_promise_of_bundles_beyond_all_windows_ends_the_view_without_its_sender(seq: int) -> None:
    cluster = cluster_of({"eu": 2, "us": 2})

    send(cluster, "us1", Promise(Update(SiteId(1), seq, clock(cluster, "us1") + 1, 0)))
    cluster.run_for(SECOND_US)

    assert members(cluster, "eu1") == ["eu1", "eu2", "us2"]
    assert cluster.hosts["eu1"].membership.drops[Drop.OUT_OF_WINDOW] == 1


@pytest.mark.parametrize(
    "update",
    [
        Update(SiteId(1), 0, IN_FLIGHT + 1_000, 0),
        Update(SiteId(1), 0, 2**47, 0),
        Update(SiteId(1), 0, 1, 2**62),
    ],
)
def test_a_promise_of_stamps_that_nobody_gave_raises_no_clock(update: Update) -> None:
    cluster = cluster_of({"eu": 2, "us": 2})
    before = clock(cluster, "eu1")

    send(cluster, "us1", Promise(update))
    cluster.run_for(SECOND_US)

    assert members(cluster, "eu1") == ["eu1", "eu2", "us2"]
    assert clock(cluster, "eu1") < before + 100


def test_a_fragment_that_never_becomes_a_bundle_raises_no_stamps() -> None:
    cluster = cluster_of({"eu": 2, "us": 2})
    liar = cluster.hosts["us1"].membership.stack
    assert liar is not None
    lost = Routed(SiteId(1), 1, 2**47, SiteMask(0b11), 0, 2, b"first half")
    for output in liar.network.forward_own(lost):
        liar._handle_routed(output, cluster.engine.now_us)
    cluster.hosts["us1"].driver.step(Tick())
    cluster.run_for(SECOND_US)

    cluster.hosts["eu2"].submit(Service.AGREED, 10)
    cluster.run_for(SECOND_US)

    assert cluster.settled()
    assert clock(cluster, "eu1") < 1_000


@pytest.mark.parametrize(("site_seq", "site_lts"), [(0, 2**47), (2**47, 0), (0, IN_FLIGHT + 1_000)])
def test_a_token_that_numbers_more_than_all_windows_is_dropped_and_sent_again(
    site_seq: int, site_lts: int
) -> None:
    cluster = cluster_of({"eu": 3})
    victim = cluster.hosts["eu2"].membership
    assert victim.stack is not None
    ring = victim.stack.ring.state
    token = Token(
        number=ring.expected,
        link_seq=ring.token.link_seq,
        link_aru=ring.token.link_aru,
        link_aru_modifier=ring.token.link_aru_modifier,
        flow_control=0,
        site_seq=ring.token.site_seq + site_seq,
        site_lts=ring.token.site_lts + site_lts,
        site_aru=ring.token.site_aru,
        site_aru_modifier=ring.token.site_aru_modifier,
    )
    own = victim.stack.own
    header = Header(Family.RING, own.cluster, DaemonId(0), victim.view.members[0].incarnation, own.generation)

    cluster.hosts["eu2"].driver.step(PacketReceived(Packet(header, (token,))))
    before = victim.view.id
    cluster.run_for(SECOND_US)

    assert victim.stack.drops[Drop.OUT_OF_WINDOW] == 1
    assert cluster.settled()
    assert victim.view.id == before


def test_drops_of_a_network_still_count_when_it_has_ended() -> None:
    cluster = cluster_of({"eu": 3})
    victim = cluster.hosts["eu2"].membership
    assert victim.stack is not None
    own = victim.stack.own
    stranger = Header(Family.RING, own.cluster, DaemonId(9), Incarnation(1), own.generation)
    packet = Packet(stranger, (Hurry(),))
    before = victim.snapshot().drops.get(Drop.FOREIGN_SENDER, 0)

    cluster.hosts["eu2"].driver.step(PacketReceived(packet))
    cluster.crash("eu1")
    cluster.run_for(3 * SECOND_US)

    assert members(cluster, "eu2") == ["eu2", "eu3"]
    assert victim.snapshot().drops[Drop.FOREIGN_SENDER] == before + 1


def view_of(cluster: SimCluster, name: str, *others: str, **changes: object) -> NewMemb:
    """A NEWMEMB of the view after the present one, by the first of these daemons unless changed."""
    now = cluster.hosts[name].membership
    processes = {cluster.names[one.daemon]: one for one in now.view.members}
    members = tuple(sorted(processes[one] for one in (name, *others)))
    first = processes[name]
    view = ViewId(now.counter + 1, first.daemon, first.incarnation)
    return replace(NewMemb(view, members), **changes)


@pytest.mark.parametrize(
    "change",
    [
        {"view": ViewId(99, DaemonId(70_000), Incarnation(1))},
        {"view": ViewId(99, DaemonId(0), Incarnation(1_234))},
        {"view": ViewId(99, DaemonId(-1), Incarnation(1))},
        {"cut": ((0, 1),)},
        {"cut": ((3, 7),)},
    ],
    ids=str,
)
def test_a_newmemb_that_no_representative_forms_is_refused(change: dict[str, object]) -> None:
    cluster = cluster_of({"eu": 3})
    liar, victim = cluster.hosts["eu1"], cluster.hosts["eu2"]
    before = victim.membership.view.id

    victim.driver.step(DaemonMessageReceived(liar.me, view_of(cluster, "eu1", "eu2", "eu3", **change)))

    assert victim.membership.state().settled
    assert victim.membership.view.id == before
    assert sum(victim.membership.drops.values()) == 1


@pytest.mark.parametrize("wrong", ["reversed", "twice", "negative"])
def test_a_newmemb_names_its_members_in_order_and_once(wrong: str) -> None:
    cluster = cluster_of({"eu": 3})
    victim = cluster.hosts["eu2"]
    good = view_of(cluster, "eu1", "eu2", "eu3")
    members = {
        "reversed": good.members[::-1],
        "twice": (*good.members, good.members[2]),
        "negative": (*good.members[:2], Process(DaemonId(2), Incarnation(-5))),
    }[wrong]

    victim.driver.step(DaemonMessageReceived(cluster.hosts["eu1"].me, replace(good, members=members)))

    assert victim.membership.state().settled
    assert sum(victim.membership.drops.values()) == 1


def test_only_a_member_of_the_new_view_sends_its_newmemb() -> None:
    cluster = cluster_of({"eu": 3})
    victim = cluster.hosts["eu2"]

    victim.driver.step(DaemonMessageReceived(cluster.hosts["eu3"].me, view_of(cluster, "eu1", "eu2")))

    assert victim.membership.state().settled
    assert victim.membership.drops == {Drop.FOREIGN_SENDER: 1}


def test_a_leave_is_believed_from_its_own_daemon_only() -> None:
    cluster = cluster_of({"eu": 3})
    victim = cluster.hosts["eu1"]

    victim.driver.step(DaemonMessageReceived(cluster.hosts["eu3"].me, DaemonLeave(cluster.hosts["eu2"].me)))
    other_life = Process(cluster.hosts["eu2"].me.daemon, Incarnation(77))
    victim.driver.step(DaemonMessageReceived(other_life, DaemonLeave(cluster.hosts["eu2"].me)))

    assert victim.membership.state().settled
    assert victim.membership.drops == {Drop.FOREIGN_SENDER: 2}


def test_a_bundle_in_the_name_of_its_receiver_is_refused_and_counted() -> None:
    cluster = cluster_of({"eu": 2})
    victim = cluster.hosts["eu1"].membership
    forged = encode_message(OrderedMessage(Service.AGREED, DaemonId(0), 1, bytes(20)))
    seq = victim.view.order.lines[SiteId(0)].cseq + 1
    lts = clock(cluster, "eu1") + 1

    send(cluster, "eu2", Multicast(SiteMask(1), forged))
    cluster.run_for(SECOND_US)

    # Once in the view, and once in the attempt at the next one, for which its sender sends it again.
    assert victim.drops[Drop.FOREIGN_SENDER] == 2
    assert members(cluster, "eu1") == ["eu1"]
    with pytest.raises(PeerError):
        victim.flow.receive(victim.view, Receive(SiteId(0), seq, lts, SiteMask(1), forged), 0)
    deliveries = [one.process.daemon for one in cluster.history if isinstance(one, MessageDelivered)]
    assert "eu1" not in deliveries


def test_a_control_message_in_the_name_of_another_daemon_is_refused() -> None:
    cluster = cluster_of({"eu": 1, "us": 1})
    liar = cluster.hosts["us1"].membership.stack
    assert liar is not None

    for daemon in (0, 1_000):
        control = Control(SiteId(1), DaemonId(daemon), 1, 0, 1, b"x")
        with pytest.raises(PeerError):
            cluster.hosts["eu1"].membership.stack.network.step(FromLink(DaemonId(1), control))  # type: ignore[union-attr]


def hold_false_bundle(
    cluster: SimCluster, victim: str, sender: str, ahead: int = 1, numbers: int = 1_000
) -> None:
    """The victim gets a bundle that its sender never sent, so many numbers ahead and with a near stamp."""
    membership = cluster.hosts[victim].membership
    daemon = cluster.numbers[sender]
    body = encode_message(OrderedMessage(Service.AGREED, daemon, 1, bytes(20)))
    line = membership.view.order.lines[SiteId(0)]
    false = Receive(SiteId(0), line.cseq + numbers, clock(cluster, victim) + ahead, SiteMask(1), body)
    membership.flow.receive(membership.view, false, cluster.engine.now_us)


@pytest.mark.parametrize("numbers", [1, 1_000])
def test_an_own_bundle_that_a_false_one_leaves_no_place_is_sent_in_the_next_view_and_only_there(
    numbers: int,
) -> None:
    """With the very number of the own bundle, it went to others, and the daemon itself never saw it."""
    cluster = cluster_of({"eu": 3})
    hold_false_bundle(cluster, "eu1", "eu2", numbers=numbers)
    before = cluster.hosts["eu1"].membership.view.id

    cluster.hosts["eu1"].submit(Service.AGREED, 10)
    cluster.run_for(5 * SECOND_US)

    sent = [one for one in cluster.history if isinstance(one, MessageSent)]
    assert [one.process.daemon for one in sent] == ["eu1"]
    assert sent[0].view.counter > before.counter
    delivered = [one for one in cluster.history if isinstance(one, MessageDelivered)]
    assert [one.message for one in delivered if one.message == sent[0].message] == [sent[0].message] * len(
        {one.process for one in delivered}
    )
    assert "eu1" in {one.process.daemon for one in delivered}


def test_members_that_were_told_different_things_share_a_view_again() -> None:
    cluster = cluster_of({"eu": 3})
    hold_false_bundle(cluster, "eu1", "eu2", ahead=1)
    hold_false_bundle(cluster, "eu3", "eu2", ahead=5)

    cluster.hosts["eu1"].submit(Service.AGREED, 10)
    cluster.run_for(20 * SECOND_US)

    assert cluster.settled()
    assert members(cluster, "eu1") == ["eu1", "eu2", "eu3"]


@pytest.mark.interpreted
def test_a_member_that_claims_a_bundle_and_does_not_resend_it_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = cluster_of({"eu": 2, "us": 2})
    liar = cluster.hosts["us2"].me

    def forged(message: DaemonMessage | RecoveryMessage) -> bytes:
        if isinstance(message, StateTrans) and message.sender == liar and len(message.sites) == 2:
            first, *others = message.sites
            lts = message.clock + 1
            claimed = replace(
                first,
                highest=first.highest + 1,
                held=(*first.held, HeldRun(first.highest + 1, lts, (), 0b11, body=True)),
            )
            message = replace(message, clock=lts, sites=(claimed, *others))
        return encode_membership_message(message)

    monkeypatch.setattr(membership, "encode_membership_message", forged)
    cluster.crash("us1")
    cluster.run_for(7 * SECOND_US)

    assert members(cluster, "eu1") == members(cluster, "eu2") == ["eu1", "eu2"]
    cluster.run_for(5 * SECOND_US)
    assert members(cluster, "eu1") == ["eu1", "eu2", "us2"], "it comes from another view now"


def many(daemon: int, first: int) -> tuple[Process, ...]:
    """As many processes of a daemon as a message may name."""
    return tuple([Process(DaemonId(daemon), Incarnation(2**63 + first + at)) for at in range(4_000)])


def test_thousands_of_suspects_do_not_fill_the_records_of_the_daemon_that_hears_of_them() -> None:
    """Three such messages ended a daemon: its own next JOIN, which named them all, fitted no datagram."""
    cluster = cluster_of({"eu": 3, "us": 1})
    victim, liar = cluster.hosts["eu1"], cluster.hosts["eu2"].me

    for first in (0, 4_000, 8_000):
        alive = DaemonAlive(liar, victim.membership.counter, many(2, first))
        victim.driver.step(DaemonMessageReceived(liar, alive))
    cluster.crash("us1")
    cluster.run_for(3 * SECOND_US)

    assert victim.membership.state().settled
    assert len(victim.membership.discovery.suspicions.left_out(0)) <= 2 * PROCESSES_MAX


def test_thousands_of_records_of_unknown_processes_are_not_kept_nor_passed_on() -> None:
    cluster = cluster_of({"eu": 2, "us": 2})
    victim, liar = cluster.hosts["eu1"], cluster.hosts["us1"].me
    cluster.crash("us2")
    cluster.run_for(SECOND_US // 2)
    counter = victim.membership.counter
    own = GatherRecord(liar, 1_000, (liar,), (0,), counter)

    for first in range(0, 4_000, 500):
        others = [GatherRecord(one, 1, (one,), (), counter) for one in many(3, first)[:500]]
        victim.driver.step(DaemonMessageReceived(liar, DaemonJoin((own, *others))))
    gather = victim.membership.discovery.gather

    assert gather is not None
    assert len(gather.known) <= 4 * PROCESSES_MAX
