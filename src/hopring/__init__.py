"""hopring: wide-area group communication with extended virtual synchrony.

Applications use `connect` (asyncio) or `hopring.sync.connect`. Names are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from hopring import compiled

if TYPE_CHECKING:
    from hopring.client.aio import Connecting, Group, Joining, Session, connect
    from hopring.client.errors import (
        AlreadyMember,
        BadArgument,
        BatchInDoubt,
        ConnectError,
        InDoubt,
        MessageTooLarge,
        MissingExtra,
        NameInUse,
        NoReceipt,
        NotMember,
        RequestRefused,
        SessionClosed,
        SlowConsumer,
        TimedOut,
        WrongType,
        WrongValue,
    )
    from hopring.client.events import (
        Event,
        Gap,
        Member,
        Message,
        Receipt,
        Reconnected,
        ReconnectGap,
        SlowWarning,
        Transition,
        View,
    )
    from hopring.client.queries import (
        DaemonFacts,
        DaemonView,
        GroupInfo,
        GroupMembers,
        LinkFacts,
        LinkWeights,
        WeighedLink,
    )
    from hopring.client.retrying import Reconnect
    from hopring.client.runs import MessageRun
    from hopring.client.sequence import EventSequence, Taken
    from hopring.errors import HopError
    from hopring.groups.names import GroupViewId, ViewCause
    from hopring.ids import ViewId
    from hopring.local.aio import Cluster, local_cluster
    from hopring.local.error import ClusterError, NotSettled
    from hopring.services import AGREED, CAUSAL, FIFO, RELIABLE, SAFE, UNRELIABLE, Service
    from hopring.session.answers import DaemonPhase, LinkProtocolName, LinkUse, WeightsName
    from hopring.session.options import SlowPolicy
    from hopring.session.place import Place

__version__ = "0.1.0"

__all__ = [
    "AGREED",
    "CAUSAL",
    "FIFO",
    "RELIABLE",
    "SAFE",
    "UNRELIABLE",
    "AlreadyMember",
    "BadArgument",
    "BatchInDoubt",
    "Cluster",
    "ClusterError",
    "ConnectError",
    "Connecting",
    "DaemonFacts",
    "DaemonPhase",
    "DaemonView",
    "Event",
    "EventSequence",
    "Gap",
    "Group",
    "GroupInfo",
    "GroupMembers",
    "GroupViewId",
    "HopError",
    "InDoubt",
    "Joining",
    "LinkFacts",
    "LinkProtocolName",
    "LinkUse",
    "LinkWeights",
    "Member",
    "Message",
    "MessageRun",
    "MessageTooLarge",
    "MissingExtra",
    "NameInUse",
    "NoReceipt",
    "NotMember",
    "NotSettled",
    "Place",
    "Receipt",
    "Reconnect",
    "ReconnectGap",
    "Reconnected",
    "RequestRefused",
    "Service",
    "Session",
    "SessionClosed",
    "SlowConsumer",
    "SlowPolicy",
    "SlowWarning",
    "Taken",
    "TimedOut",
    "Transition",
    "View",
    "ViewCause",
    "ViewId",
    "WeighedLink",
    "WeightsName",
    "WrongType",
    "WrongValue",
    "connect",
    "local_cluster",
]

_ROOMS = (
    "hopring.client.events",
    "hopring.client.errors",
    "hopring.client.queries",
    "hopring.client.retrying",
    "hopring.client.sequence",
    "hopring.client.runs",
    "hopring.errors",
    "hopring.services",
    "hopring.ids",
    "hopring.groups.names",
    "hopring.session.place",
    "hopring.session.options",
    "hopring.session.answers",
    "hopring.client.aio",
    "hopring.local.error",
    "hopring.local.aio",
)

compiled.install()


def __getattr__(name: str) -> object:
    """Loads a public name from its room."""
    if name in __all__:
        for room in _ROOMS:
            module = import_module(room)
            if hasattr(module, name):
                value: object = getattr(module, name)
                globals()[name] = value
                return value
    raise AttributeError(f"module 'hopring' has no attribute {name!r}")
