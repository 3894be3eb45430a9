"""All peers by name, and a client process of one: `python -m hopring.bench.peers.worker PEER PORT TASK`."""

import gc
import sys
from typing import Final

import msgspec

from hopring.bench.harness.workload import WorkerTask
from hopring.bench.peers.corosync import Corosync
from hopring.bench.peers.jgroups import JGroups
from hopring.bench.peers.nats import JetStream, Nats
from hopring.bench.peers.peer import PeerSystem
from hopring.bench.peers.redis import RedisStreams
from hopring.bench.peers.zenoh import Zenoh
from hopring.bench.peers.zeromq import ZeroMq

PEERS: Final[dict[str, type[PeerSystem]]] = {
    one.name: one for one in (Corosync, JGroups, Nats, JetStream, RedisStreams, ZeroMq, Zenoh)
}


def main() -> None:
    """Runs the task on the command line."""
    name, port, text = sys.argv[1:]
    task = msgspec.json.decode(text, type=WorkerTask)
    gc.freeze()
    getattr(PEERS[name](int(port)), task.role)(task)


if __name__ == "__main__":
    main()
