"""Two or more sealing layers that exchange trains by hand, with the challenge already answered or not."""

from hopring.errors import PeerError
from hopring.ids import DaemonId, Generation, Incarnation, Process
from hopring.sealing.keys import ClusterKey, KeyRing
from hopring.sealing.sealer import SealedCluster
from hopring.sealing.sealing import SECRET_BYTES, Sealing
from hopring.wire.header import HEAD_BYTES, Family, Header, encode_header
from hopring.wire.train import LongDatagram, Train

KEY = ClusterKey(bytes(range(32)))
OTHER_KEY = ClusterKey(bytes(range(1, 33)))
RING = KeyRing([KEY], KEY.id)
CLUSTER = "paris"


def process(daemon: int, start: int = 1) -> Process:
    return Process(DaemonId(daemon), Incarnation(1000 * daemon + start))


def make(
    daemon: int, start: int = 1, ring: KeyRing = RING, cluster: str = CLUSTER, counter: int = 0
) -> Sealing:
    secret = bytes([daemon, start]) * (SECRET_BYTES // 2)
    return Sealing(process(daemon, start), SealedCluster(cluster, 0xC1, 4), ring, secret, counter)


def head_of(one: Process) -> bytes:
    return encode_header(Header(Family.HOP, 0xC1, one.daemon, one.incarnation, Generation(7)))


def say(one: Sealing, body: bytes, to: DaemonId) -> Train:
    """A datagram of version 1 with this body, sealed."""
    return one.seal_datagram(head_of(one.me) + body, to)


def give(to: Sealing, train: Train, now_us: int = 0) -> list[bytes | PeerError]:
    """Lets a layer open a train that arrived in one read; returns the bodies behind the heads."""
    opened = to.open(memoryview(train.buffer), train.segment_bytes, now_us)
    whole = [one.whole if isinstance(one, LongDatagram) else one for one in opened]
    return [one if isinstance(one, PeerError) else one[HEAD_BYTES:] for one in whole]


def reasons(results: list[bytes | PeerError]) -> list[str]:
    return [one.reason.value for one in results if isinstance(one, PeerError)]


def settle(ends: dict[int, Sealing], now_us: int = 0) -> None:
    """Delivers challenges, responses and announcements until there are none."""
    for _ in range(20):
        waiting = [reply for end in ends.values() for reply in end.replies]
        for end in ends.values():
            end.replies = []
        if not waiting:
            return
        for daemon, train in waiting:
            if daemon in ends:
                give(ends[daemon], train, now_us)
    raise AssertionError("the handshakes do not end")


def meet(one: Sealing, other: Sealing, ids: tuple[int, int] = (1, 2), now_us: int = 0) -> None:
    """Lets both answer each other's challenge."""
    ends = {ids[0]: one, ids[1]: other}
    give(other, say(one, b"first", DaemonId(ids[1])), now_us)
    give(one, say(other, b"first", DaemonId(ids[0])), now_us)
    settle(ends, now_us)
