"""The library without asyncio: the names of `hopring`, with calls that block."""

from importlib import import_module
from typing import TYPE_CHECKING

from hopring.client.blocking import Group, Session, connect

if TYPE_CHECKING:
    from hopring.local.blocking import Cluster, local_cluster

__all__ = ["Cluster", "Group", "Session", "connect", "local_cluster"]


def __getattr__(name: str) -> object:
    """Imports the cluster when it is first used; most programs have their daemons elsewhere."""
    if name not in __all__:
        raise AttributeError(f"module 'hopring.sync' has no attribute {name!r}")
    value: object = getattr(import_module("hopring.local.blocking"), name)
    globals()[name] = value
    return value
