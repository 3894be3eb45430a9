"""hopring.wide: messages among independent clusters, which wait for links that live for minutes or open rarely.

    async with connect(name="vendor") as session, wide.join(session, "tickets") as tickets:
        await tickets.cbcast(b"3 left")

A name is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hopring.wide.clusters_file import ClustersFile, WideCluster, WideLink, load_clusters
    from hopring.wide.errors import (
        ClustersDiffer,
        FileRefused,
        LongHaulRefused,
        NoLongHaul,
        NotAcceptedYet,
        NotAnswered,
        NotEverywhere,
        NotInSet,
        NoWideQuorum,
        UnknownCluster,
        WideFull,
    )
    from hopring.wide.library.events import (
        Completed,
        WideAnswer,
        WideEvent,
        WideGap,
        WideId,
        WideMessage,
        WideReceipt,
    )
    from hopring.wide.library.files import ReceivedFile, SentFile
    from hopring.wide.library.sets import (
        JoinedSet,
        LongHaulLink,
        WideConversation,
        WideSender,
        join,
        link,
        sender,
        status,
    )
    from hopring.wide.local_clusters.aio import AioLocalWide
    from hopring.wide.local_clusters.aio import AioLocalWide as local

__all__ = [
    "AioLocalWide",
    "ClustersDiffer",
    "ClustersFile",
    "Completed",
    "FileRefused",
    "JoinedSet",
    "LongHaulLink",
    "LongHaulRefused",
    "NoLongHaul",
    "NoWideQuorum",
    "NotAcceptedYet",
    "NotAnswered",
    "NotEverywhere",
    "NotInSet",
    "ReceivedFile",
    "SentFile",
    "UnknownCluster",
    "WideAnswer",
    "WideCluster",
    "WideConversation",
    "WideEvent",
    "WideFull",
    "WideGap",
    "WideId",
    "WideLink",
    "WideMessage",
    "WideReceipt",
    "WideSender",
    "join",
    "link",
    "load_clusters",
    "local",
    "sender",
    "status",
]

_LOCAL: Final = {"AioLocalWide": "AioLocalWide", "local": "AioLocalWide"}
_FILE: Final = ("ClustersFile", "WideCluster", "WideLink", "load_clusters")
_EVENTS: Final = ("Completed", "WideAnswer", "WideEvent", "WideGap", "WideId", "WideMessage", "WideReceipt")
_FILES: Final = ("ReceivedFile", "SentFile")
_SETS: Final = (
    "WideConversation",
    "JoinedSet",
    "LongHaulLink",
    "WideSender",
    "join",
    "link",
    "sender",
    "status",
)


def __getattr__(name: str) -> object:
    """Imports a name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'hopring.wide' has no attribute {name!r}")
    module = "local_clusters.aio" if name in _LOCAL else "errors"
    if name in _FILE:
        module = "clusters_file"
    elif name in _EVENTS:
        module = "library.events"
    elif name in _FILES:
        module = "library.files"
    elif name in _SETS:
        module = "library.sets"
    value: object = getattr(import_module(f"hopring.wide.{module}"), _LOCAL.get(name, name))
    globals()[name] = value
    return value
