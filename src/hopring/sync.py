"""The library without asyncio: the names of `hopring`, with calls that block."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from hopring.client.blocking import Group, Session, connect

if TYPE_CHECKING:
    from hopring.blocks.replicated.blocking_forms import BlockingJob, ReplicatedDict, ReplicatedLog, WorkQueue
    from hopring.local.blocking import Cluster, local_cluster
    from hopring.local.blocking_peers import Peers, local_peers

__all__ = [
    "BlockingJob",
    "Cluster",
    "Group",
    "Peers",
    "ReplicatedDict",
    "ReplicatedLog",
    "Session",
    "WorkQueue",
    "connect",
    "local_cluster",
    "local_peers",
]

_CLUSTERS: Final = "hopring.local.blocking"
_PEERS: Final = "hopring.local.blocking_peers"
_REPLICATED: Final = "hopring.blocks.replicated.blocking_forms"
_MODULES: Final = {
    **dict.fromkeys(("Cluster", "local_cluster"), _CLUSTERS),
    **dict.fromkeys(("Peers", "local_peers"), _PEERS),
    **dict.fromkeys(("BlockingJob", "ReplicatedDict", "ReplicatedLog", "WorkQueue"), _REPLICATED),
}


def __getattr__(name: str) -> object:
    """Imports clusters and replicated blocks when they are first used; most programs need neither."""
    if name not in _MODULES:
        raise AttributeError(f"module 'hopring.sync' has no attribute {name!r}")
    value: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value
