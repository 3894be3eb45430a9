"""All peers by name."""

from typing import Final

from bench.peers.over_corosync import Corosync
from bench.peers.over_jgroups import JGroups
from bench.peers.over_nats import JetStream, Nats
from bench.peers.over_redis import RedisStreams
from bench.peers.over_zenoh import Zenoh
from bench.peers.over_zeromq import ZeroMq
from bench.peers.peer import Peer

PEERS: Final[dict[str, type[Peer]]] = {
    one.name: one for one in (Corosync, JGroups, Nats, JetStream, RedisStreams, ZeroMq, Zenoh)
}
