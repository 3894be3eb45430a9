"""Attacks on daemons with cluster keys by somebody on the path between them, and by holders of other keys."""

import ssl
from collections.abc import Sequence
from functools import partial

from tests.hostile.scenes import KEYS, OTHER_KEY, AttackedCluster, Scenes
from tests.unit.daemon.waiting import run_until

from hopring.config import LinkProtocol
from hopring.errors import Drop
from hopring.ids import Process
from hopring.membership.messages import DaemonLeave
from hopring.sealing.keys import EPOCH_SHIFT, KeyRing
from hopring.sealing.packet import (
    EVERYBODY,
    HEAD_BYTES,
    PLACE_BYTES,
    TAG_BYTES,
    Form,
    encode_head,
)
from hopring.sealing.sealer import COUNTER_MAX, CountersUsedUp, SealedCluster
from hopring.sealing.sealing import SECRET_BYTES, Sealing
from hopring.services import Service
from hopring.wire.train import Train

TWO = {"eu": 2}
SHORT = b"one datagram " * 50
LONG = bytes(range(256)) * 80  # More than a datagram: it is sealed as a train.
BITS = 8

FIELDS = {
    # Field: offset, bytes, and the reasons for which a packet with one wrong bit in it may be refused.
    "magic": (0, 2, {Drop.MAGIC}),
    "version": (2, 1, {Drop.VERSION}),
    "form": (3, 1, {Drop.UNKNOWN_TYPE, Drop.SEAL, Drop.FOREIGN_SENDER}),  # Handshakes are for one daemon.
    "cluster": (4, 4, {Drop.CLUSTER}),
    "sender": (8, 2, {Drop.FOREIGN_SENDER}),
    "incarnation": (10, 8, {Drop.SEAL}),
    "key": (18, 4, {Drop.KEY}),
    "receiver": (22, 2, {Drop.FOREIGN_SENDER}),
    "counter": (24, 8, {Drop.SEAL, Drop.REPLAY}),
}


def flipped(datagram: bytes, bit: int) -> bytes:
    """The datagram with one bit changed."""
    changed = bytearray(datagram)
    changed[bit // BITS] ^= 1 << bit % BITS
    return bytes(changed)


def leave_of(cluster: AttackedCluster, name: str, process: Process | None = None) -> bytes:
    """A LEAVE in the name of a daemon: if it is believed, the view ends."""
    one = process or cluster.process(name)
    return cluster.in_clear(one, DaemonLeave(one))


def stranger(cluster: AttackedCluster, keys: KeyRing, name: str = "local") -> Sealing:
    """Somebody with other keys, or of another cluster, who speaks as eu2."""
    facts = SealedCluster(name, cluster.hash, len(cluster.config.daemons))
    return Sealing(cluster.process("eu2"), facts, keys, bytes(SECRET_BYTES), counter=1 << 20)


def still_whole(cluster: AttackedCluster, views: int) -> None:
    """Both daemons are in the view in which they were, and it carries messages."""
    cluster.say("eu2", b"after")
    assert {one.installed() for one in cluster.daemons.values()} == {views}
    assert {one.size() for one in cluster.daemons.values()} == {len(cluster.daemons)}


def views_of(cluster: AttackedCluster) -> int:
    (views,) = {one.installed() for one in cluster.daemons.values()}
    return views


def hold_packet(cluster: AttackedCluster, payload: bytes) -> Train:
    """Lets eu2 send a message; returns the packet with it, held back before eu1 with all later ones."""
    wire = cluster.wires["eu1"]
    wire.holds_from = lambda train: len(train.buffer) > len(payload)
    cluster.daemons["eu2"].member.submit(Service.AGREED, payload)
    run_until(cluster.loop, lambda: bool(wire.held))
    return wire.held[0]


def released(cluster: AttackedCluster, payload: bytes, *, singly: bool = False) -> None:
    """Passes on what was held: the message arrives as it was sent, once, and nothing else does."""
    before = len(cluster.daemons["eu1"].payloads())
    cluster.wires["eu1"].release(singly)
    run_until(cluster.loop, lambda: len(cluster.daemons["eu1"].payloads()) > before)
    cluster.say("eu1", b"then")
    assert cluster.daemons["eu1"].payloads()[before:] == [payload, b"then"]


# What is no packet of this cluster.


def clear_text(scenes: Scenes) -> None:
    with scenes.whole(TWO) as cluster:
        views = views_of(cluster)

        assert cluster.attack("eu1", [leave_of(cluster, "eu2")]) == {Drop.CLEAR_TEXT: 1}
        still_whole(cluster, views)


def foreign_key(scenes: Scenes) -> None:
    with scenes.whole(TWO) as cluster:
        views, leave, to = views_of(cluster), leave_of(cluster, "eu2"), cluster.process("eu1").daemon
        foreign = stranger(cluster, KeyRing([OTHER_KEY], OTHER_KEY.id)).seal_datagram(leave, to).buffer
        head = cluster.head(foreign)
        disguised = encode_head(head._replace(key=KEYS.use)) + foreign[HEAD_BYTES:]
        elsewhere = stranger(cluster, KEYS, "another").seal_datagram(leave, to).buffer

        assert cluster.attack("eu1", [disguised, elsewhere]) == {Drop.SEAL: 2}
        assert cluster.attack("eu1", [foreign]) == {Drop.KEY: 1}
        still_whole(cluster, views)


# What was changed.


def flipped_bit_in_a_datagram(scenes: Scenes) -> None:
    with scenes.whole(TWO) as cluster:
        views = views_of(cluster)
        packet = hold_packet(cluster, SHORT).buffer
        assert cluster.head(packet).form in (Form.DATAGRAM, Form.SHARED)
        places = {name: (at, size, reasons) for name, (at, size, reasons) in FIELDS.items()}
        places["ciphertext"] = HEAD_BYTES, len(packet) - HEAD_BYTES - TAG_BYTES, {Drop.SEAL}
        places["tag"] = len(packet) - TAG_BYTES, TAG_BYTES, {Drop.SEAL}
        assert sum(size for _, size, _ in places.values()) == len(packet), "every field has its turn"

        for name, (at, size, reasons) in places.items():
            changed = [flipped(packet, bit) for bit in range(at * BITS, (at + size) * BITS)]
            refused = cluster.attack("eu1", changed)
            assert set(refused) <= reasons, name
            assert refused.total() == len(changed), name
        released(cluster, SHORT)
        still_whole(cluster, views)


def flipped_bit_in_a_train(scenes: Scenes) -> None:
    """The place in a train: segment, number of segments, bytes; and what a segment has of the ciphertext."""
    for bit in (0, BITS, 2 * BITS, PLACE_BYTES * BITS + 5):
        with scenes.whole(TWO) as cluster:
            views = views_of(cluster)
            train = hold_packet(cluster, LONG)
            first = bytes(next(iter(train.datagrams())))

            cluster.attack("eu1", [flipped(first, HEAD_BYTES * BITS + bit)])
            released(cluster, LONG, singly=True)
            still_whole(cluster, views)


def injected_segment(scenes: Scenes) -> None:
    with scenes.whole(TWO) as cluster:
        views = views_of(cluster)
        train = hold_packet(cluster, LONG)
        start = HEAD_BYTES + PLACE_BYTES
        second = [bytes(one) for one in train.datagrams()][1]

        assert not cluster.attack("eu1", [second[:start] + bytes(len(second) - start)])
        before = cluster.dropped("eu1")
        released(cluster, LONG, singly=True)
        assert cluster.dropped("eu1")[Drop.SEAL] == before[Drop.SEAL] + 1
        still_whole(cluster, views)


# What was sent before.


def packets_to(cluster: AttackedCluster, name: str, seen: Sequence[bytes] | None = None) -> list[bytes]:
    """The packets that a daemon got, without the handshakes of the sealing."""
    every = cluster.wires[name].datagrams() if seen is None else seen
    return [one for one in every if cluster.head(one).form in (Form.DATAGRAM, Form.SHARED, Form.TRAIN)]


def replay_of_this_view(scenes: Scenes) -> None:
    with scenes.whole(TWO) as cluster:
        views = views_of(cluster)
        cluster.say("eu2", b"once")
        cluster.say("eu2", LONG)
        recorded = cluster.wires["eu1"].datagrams()

        assert cluster.attack("eu1", recorded) == {Drop.REPLAY: len(recorded)}
        still_whole(cluster, views)
        assert cluster.daemons["eu1"].payloads().count(b"once") == 1


def replay_of_an_earlier_view(scenes: Scenes) -> None:
    with scenes.whole({"eu": 3}) as cluster:
        cluster.say("eu2", b"once")
        recorded = packets_to(cluster, "eu1")
        cluster.stop("eu3")
        cluster.together("eu1", "eu2")
        views = views_of(cluster)

        assert cluster.attack("eu1", recorded) == {Drop.REPLAY: len(recorded)}
        still_whole(cluster, views)


def replay_from_before_the_sender_restarted(scenes: Scenes) -> None:
    with scenes.whole(TWO) as cluster:
        cluster.say("eu2", b"once")
        cluster.stop("eu2")
        cluster.together("eu1")
        recorded = cluster.wires["eu1"].datagrams()
        cluster.start("eu2")
        cluster.together("eu1", "eu2")
        views = cluster.daemons["eu1"].installed()
        met = cluster.sealing("eu1").met

        refused = cluster.attack("eu1", recorded)
        assert set(refused) == {Drop.UNMET}
        assert refused[Drop.UNMET] >= len(packets_to(cluster, "eu1", recorded))
        assert cluster.sealing("eu1").met == met
        cluster.say("eu2", b"after")
        assert cluster.daemons["eu1"].installed() == views


def replay_from_before_the_receiver_restarted(scenes: Scenes) -> None:
    with scenes.whole(TWO) as cluster:
        cluster.say("eu2", b"once")
        cluster.stop("eu1")
        cluster.together("eu2")
        recorded = cluster.wires["eu1"].datagrams()
        cluster.wires["eu1"].holds = True
        cluster.start("eu1")

        refused = cluster.attack("eu1", recorded)
        assert set(refused) <= {Drop.UNMET, Drop.STALE_INCARNATION}
        assert refused.total() == len(recorded)
        assert cluster.sealing("eu1").met == []
        cluster.wires["eu1"].release()
        cluster.together("eu1", "eu2")
        assert cluster.attack("eu1", recorded) == {Drop.REPLAY: len(recorded)}
        cluster.say("eu2", b"after")
        assert b"once" not in cluster.daemons["eu1"].payloads()


def reflected_packet(scenes: Scenes) -> None:
    with scenes.whole(TWO) as cluster:
        views = views_of(cluster)
        cluster.say("eu1", b"once")
        own = cluster.wires["eu2"].datagrams()
        assert EVERYBODY in [cluster.head(one).receiver for one in own]

        assert cluster.attack("eu1", own) == {Drop.FOREIGN_SENDER: len(own)}
        still_whole(cluster, views)


def packet_for_another(scenes: Scenes) -> None:
    with scenes.whole({"eu": 3}) as cluster:
        views = views_of(cluster)
        eu2, eu3 = cluster.process("eu2").daemon, cluster.process("eu3").daemon
        heads = [(one, cluster.head(one)) for one in cluster.wires["eu3"].datagrams()]
        misdirected = [one for one, head in heads if head.sender == eu2 and head.receiver == eu3]
        assert misdirected

        assert cluster.attack("eu1", misdirected) == {Drop.FOREIGN_SENDER: len(misdirected)}
        still_whole(cluster, views)


def name_within_a_seal(scenes: Scenes) -> None:
    with scenes.whole({"eu": 3}) as cluster:
        views = views_of(cluster)
        leave = leave_of(cluster, "eu2")
        sealed = cluster.sealing("eu3").seal_datagram(leave, cluster.process("eu1").daemon).buffer

        assert cluster.attack("eu1", [sealed]) == {Drop.INCONSISTENT: 1}
        still_whole(cluster, views)


def counter_at_its_end(scenes: Scenes) -> None:
    with scenes.whole(TWO) as cluster:
        views = views_of(cluster)
        cluster.sealing("eu2").counter = (1 << EPOCH_SHIFT) - 3
        for at in range(10):
            cluster.say("eu2", b"over the end of an epoch %d" % at)
        still_whole(cluster, views)
        assert cluster.sealing("eu2").counter > 1 << EPOCH_SHIFT
        cluster.sealing("eu2").counter = COUNTER_MAX - 20
        ended = False
        try:
            for at in range(100):
                cluster.say("eu2", b"%d" % at)
        except CountersUsedUp:
            ended = True
        cluster.daemons.pop("eu2").member.close()
        cluster.attack("eu1", [])
        counters = [cluster.head(one).counter for one in cluster.wires["eu1"].datagrams()]
        assert ended, "a daemon whose numbers are used up ends"
        assert max(counters) == COUNTER_MAX - 1
        assert len(set(counters)) == len(counters), "no number was used twice"


# TCP links over TLS.


def _refused_by(cluster: AttackedCluster, name: str) -> bool:
    return cluster.dropped(name)[Drop.CERTIFICATE] > 0 or cluster.daemons[name].size() > 1


def certificate_of_another_daemon(scenes: Scenes) -> None:
    """At the daemon that dials, which is eu1, and at the one that accepts."""
    for victim, liar in (("eu1", "us1"), ("us1", "eu1")):
        tls = scenes.certificates("eu1", "us1", "us2")
        tls[liar] = tls["us2"]
        with scenes.cluster({"eu": 1, "us": 1}, protocol=LinkProtocol.TCP, tls=tls) as cluster:
            cluster.start("eu1", "us1")
            run_until(cluster.loop, partial(_refused_by, cluster, victim))
            assert cluster.daemons[victim].size() == 1
            assert cluster.dropped(victim)[Drop.CERTIFICATE] > 0


def first_of_a_handshake() -> bytes:
    """The first message of a TLS client that never goes on."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake needs an answer")
