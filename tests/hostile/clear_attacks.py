"""Attacks on daemons without keys, and what a daemon with a fault sends to others, with keys or without.

Without keys anybody may forge any packet, and views break. These attacks are about the bounds: nobody dies,
hangs, grows or stays apart because of numbers that no correct daemon sends.
"""

import socket
import time
from contextlib import ExitStack
from functools import partial

from tests.hostile.scenes import AttackedCluster, Scenes
from tests.support.descriptors import no_free_descriptor
from tests.unit.daemon.waiting import run_until

from hopring.config import LinkProtocol
from hopring.daemon.net.link_streams import EARLY_BYTES_MAX, EARLY_US_MAX
from hopring.errors import Drop
from hopring.ids import DaemonId, Incarnation, Process, SiteId, SiteMask, ViewId
from hopring.membership.current_network import generation_of
from hopring.membership.messages import DaemonAlive, DaemonJoin, GatherRecord, NewMemb
from hopring.membership.view_counter import COUNTER_NEAR
from hopring.ordering.entry import OrderedMessage, encode_message
from hopring.services import Service
from hopring.stack_events import Multicast, Promise
from hopring.wire.control import Update
from hopring.wire.header import Family, Header
from hopring.wire.routed import Routed
from hopring.wire.stream import encode_greeting

LAST = 2**64 - 1
STEP = 2**32
NEAR = 1_000
SITES = {"eu": 2, "us": 1}
OTHERS = ("eu1", "eu2")
LIAR = SiteId(1)
EVERYWHERE = SiteMask(0b11)
TWO_SITES = {"eu": 1, "us": 1}
STRANGERS = 59
EARLY_TRIED_BYTES = 64 << 20
"""Far more than the kernel's buffers of both ends hold."""

REFUSED_WRITES = 100


# Numbers in promises and bundles.


def numbers(cluster: AttackedCluster, name: str) -> int:
    """The highest stamp or sequence that a daemon believes in."""
    order = cluster.membership(name).view.order
    return max([order.clock, *[line.highest for line in order.lines.values()]])


def survived(cluster: AttackedCluster, views: int) -> None:
    """The lie has ended a view, it moved no number, and the others exchange messages."""

    def has_effect() -> bool:
        return cluster.daemons["eu1"].installed() > views or max(numbers(cluster, one) for one in OTHERS) > NEAR

    run_until(cluster.loop, has_effect)
    assert [numbers(cluster, one) <= NEAR for one in OTHERS] == [True, True]
    for one in OTHERS:
        cluster.daemons[one].member.submit(Service.AGREED, one.encode())
    both = {one.encode() for one in OTHERS}
    run_until(cluster.loop, lambda: all(both <= set(cluster.daemons[one].payloads()) for one in OTHERS))
    assert [numbers(cluster, one) <= NEAR for one in OTHERS] == [True, True]


def beyond(cluster: AttackedCluster) -> tuple[int, ...]:
    """Numbers that no correct daemon reaches: just beyond all windows, and up to the last one."""
    return (cluster.membership("eu1").view.order.in_flight_max + NEAR, 2**47, 2**63, LAST)


def promised_sequences(scenes: Scenes) -> None:
    for at in range(4):
        with scenes.whole(SITES, sealed=False) as cluster:
            views = cluster.daemons["eu1"].installed()
            stamp = numbers(cluster, "us1") + 1
            cluster.lie("us1", Promise(Update(LIAR, beyond(cluster)[at], stamp, 0)))
            survived(cluster, views)


def promised_stamps(scenes: Scenes) -> None:
    for at in range(4):
        with scenes.whole(SITES, sealed=False) as cluster:
            views = cluster.daemons["eu1"].installed()
            cluster.lie("us1", Promise(Update(LIAR, 0, beyond(cluster)[at], 0)))
            survived(cluster, views)


def send_bundle(cluster: AttackedCluster, seq: int, stamp: int) -> None:
    """The liar sends a bundle with these numbers to the other site."""
    message = OrderedMessage(Service.AGREED, cluster.process("us1").daemon, 1, b"a bundle of the liar")
    routed = Routed(LIAR, seq, stamp, EVERYWHERE, 0, 1, encode_message(message))
    stack = cluster.stack("us1")
    for output in stack.network.forward_own(routed):
        stack._handle_routed(output, cluster.loop.now_us())
    cluster.tick("us1")


def bundle_sequences(scenes: Scenes) -> None:
    for at in range(4):
        with scenes.whole(SITES, sealed=False) as cluster:
            views = cluster.daemons["eu1"].installed()
            send_bundle(cluster, beyond(cluster)[at], numbers(cluster, "us1") + 1)
            survived(cluster, views)


def bundle_stamps(scenes: Scenes) -> None:
    for at in range(4):
        with scenes.whole(SITES, sealed=False) as cluster:
            views = cluster.daemons["eu1"].installed()
            send_bundle(cluster, 1, beyond(cluster)[at])
            survived(cluster, views)


def bundle_of_oneself(scenes: Scenes) -> None:
    with scenes.whole({"eu": 2}, sealed=False) as cluster:
        views = cluster.daemons["eu1"].installed()
        forged = OrderedMessage(Service.AGREED, cluster.process("eu1").daemon, 1, b"never sent")
        cluster.lie("eu2", Multicast(SiteMask(1), encode_message(forged)))

        def has_effect() -> bool:
            return cluster.daemons["eu1"].installed() > views or bool(cluster.daemons["eu1"].payloads())

        run_until(cluster.loop, has_effect)
        assert cluster.daemons["eu1"].payloads() == []
        assert cluster.membership("eu1").drops[Drop.FOREIGN_SENDER] > 0


# Numbers in messages of membership.


def counters_far_ahead(scenes: Scenes) -> None:
    with scenes.cluster({"eu": 3}, sealed=False) as cluster:
        cluster.start("eu1", "eu2")
        cluster.together("eu1", "eu2")
        nobody = Process(DaemonId(2), Incarnation(999))
        before = cluster.membership("eu1").counter
        for _ in range(3):
            claimed = cluster.membership("eu1").counter + STEP
            cluster.attack("eu1", [cluster.in_clear(nobody, DaemonAlive(nobody, claimed))])
            assert cluster.membership("eu1").counter <= before + 3 * COUNTER_NEAR
        cluster.attack("eu1", [cluster.in_clear(nobody, DaemonAlive(nobody, LAST))])
        assert cluster.membership("eu1").drops[Drop.OUT_OF_WINDOW] == 1
        cluster.start("eu3")
        cluster.together("eu1", "eu2", "eu3")
        cluster.say("eu3", b"together")


def newmemb_far_ahead(scenes: Scenes) -> None:
    with scenes.whole({"eu": 2}, sealed=False) as cluster:
        views = cluster.daemons["eu1"].installed()
        sender, victim = cluster.process("eu2"), cluster.membership("eu1")
        before = victim.counter
        for counter in (before + 2 * STEP, 2**62, LAST):
            view = ViewId(counter, sender.daemon, sender.incarnation)
            cluster.attack("eu1", [cluster.in_clear(sender, NewMemb(view, victim.view.members))])
            assert victim.state().settled
        assert victim.drops[Drop.OUT_OF_WINDOW] == 3
        cluster.say("eu2", b"after")
        assert cluster.daemons["eu1"].installed() == views


def records_far_ahead(scenes: Scenes) -> None:
    with scenes.cluster(TWO_SITES, sealed=False) as cluster:
        for wire in cluster.wires.values():
            wire.holds = True
        cluster.start("eu1", "us1")
        cluster.together("eu1")
        liar = cluster.process("us1")
        for number in (1, 2**62):
            record = GatherRecord(liar, number, (liar,), (), cluster.membership("us1").counter)
            cluster.attack("eu1", [cluster.in_clear(liar, DaemonJoin((record,), active=True))])
        assert cluster.membership("eu1").discovery._known[liar].record.seq < STEP
        for wire in cluster.wires.values():
            wire.held.clear()
            wire.release()
        cluster.together("eu1", "us1")


def newmemb_of_nobody(scenes: Scenes) -> None:
    with scenes.whole({"eu": 2}, sealed=False) as cluster:
        views = cluster.daemons["eu1"].installed()
        sender, victim = cluster.process("eu2"), cluster.membership("eu1")
        members = victim.view.members
        for daemon, nonce in ((70_000, 1), (3, 1), (int(sender.daemon), 5)):
            view = ViewId(victim.counter + 1, DaemonId(daemon), Incarnation(nonce))
            cluster.attack("eu1", [cluster.in_clear(sender, NewMemb(view, members))])
            assert victim.state().settled
        assert victim.drops[Drop.INCONSISTENT] == 3
        cluster.say("eu2", b"after")
        assert cluster.daemons["eu1"].installed() == views


# Connections.


def greeting(cluster: AttackedCluster, sender: Process, counter: int) -> bytes:
    """A greeting of eu1 for the network of a view to come, whose id is foreseeable."""
    generation = generation_of(ViewId(counter, sender.daemon, sender.incarnation))
    return encode_greeting(Header(Family.TCP, cluster.hash, sender.daemon, sender.incarnation, generation))


def connections_that_come_first(scenes: Scenes) -> None:
    """Somebody connects in the name of eu1 for all views to come, and then does nothing."""
    with scenes.cluster(TWO_SITES, sealed=False, protocol=LinkProtocol.TCP) as cluster, ExitStack() as held:
        own = cluster.config.daemons[cluster.config.daemon_id("us1")]
        cluster.wires["us1"].holds = True
        cluster.start("us1", "eu1")
        cluster.together("us1")
        cluster.together("eu1")
        eu1, counter = cluster.process("eu1"), cluster.membership("eu1").counter
        for ahead in range(1, STRANGERS + 1):
            stranger = held.enter_context(socket.create_connection((own.address, own.port)))
            stranger.sendall(greeting(cluster, eu1, counter + ahead))
            cluster.turns(3)
        cluster.wires["us1"].release()
        cluster.together("eu1", "us1")
        cluster.say("eu1", b"over the link")


def _send_early(stranger: socket.socket, cluster: AttackedCluster) -> int:
    """Sends until the daemon takes nothing for a while, however often it is its turn; returns the bytes."""
    sent, refused, since = 0, 0, time.monotonic()
    while sent < EARLY_TRIED_BYTES and (refused < REFUSED_WRITES or time.monotonic() - since < 0.2):
        try:
            sent += stranger.send(bytes(1 << 18))
            refused, since = 0, time.monotonic()
        except BlockingIOError:
            refused += 1
        cluster.turns(1)
    return sent


def connections_that_send_early(scenes: Scenes) -> None:
    """What comes for a network that has not begun is kept up to a limit, and for a limited time."""
    with scenes.cluster(TWO_SITES, sealed=False, protocol=LinkProtocol.TCP) as cluster:
        own = cluster.config.daemons[cluster.config.daemon_id("us1")]
        cluster.start("us1")
        cluster.together("us1")
        nobody = Process(DaemonId(0), Incarnation(999))
        with socket.create_connection((own.address, own.port)) as stranger:
            since_us = cluster.loop.now_us()
            stranger.sendall(greeting(cluster, nobody, 10**6))
            stranger.setblocking(False)
            sent = _send_early(stranger, cluster)
            assert EARLY_BYTES_MAX < sent < EARLY_TRIED_BYTES
            run_until(cluster.loop, partial(_has_ended, stranger), 2 * EARLY_US_MAX)
            assert cluster.loop.now_us() - since_us >= EARLY_US_MAX


def _has_ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def no_descriptor_to_dial(scenes: Scenes) -> None:
    with scenes.cluster(TWO_SITES, sealed=False, protocol=LinkProtocol.TCP) as cluster:
        for wire in cluster.wires.values():
            wire.holds = True
        cluster.start("eu1", "us1")
        cluster.together("eu1")
        cluster.together("us1")
        with no_free_descriptor():
            for wire in cluster.wires.values():
                wire.held.clear()
                wire.release()
            # Their attempt fails, because eu1 cannot dial.
            reasons = cluster.membership("eu1").reasons
            run_until(cluster.loop, lambda: "no socket for the connection" in reasons.text)
            assert cluster.daemons["eu1"].size() == 1
        cluster.together("eu1", "us1")
        cluster.say("us1", b"after")
