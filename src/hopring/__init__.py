"""hopring: wide-area group communication with extended virtual synchrony.

Applications use `connect` (asyncio) or `hopring.sync.connect`. A name is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from hopring import compiled

if TYPE_CHECKING:
    from hopring.client.aio import Connecting, Group, Joining, Session, connect
    from hopring.client.arguments import Reconnect
    from hopring.client.errors import (
        AlreadyMember,
        BadArgument,
        BatchInDoubt,
        ConnectError,
        InDoubt,
        MessageTooLarge,
        MissingExtra,
        MissingReplies,
        NameInUse,
        NoReceipt,
        NoResponders,
        NotAllowed,
        NotMember,
        RepliesTimedOut,
        RequestFailed,
        RequestRefused,
        SessionClosed,
        SlowConsumer,
        TimedOut,
        WrongType,
        WrongValue,
    )
    from hopring.client.events import (
        ALL,
        MAJORITY,
        Event,
        Gap,
        Headers,
        Member,
        Message,
        Quorum,
        Receipt,
        Reconnected,
        ReconnectGap,
        Replies,
        Reply,
        Request,
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
    from hopring.client.runs import MessageRun
    from hopring.client.sequence import EventSequence, Taken
    from hopring.client.session_base import ReplyTo, Serving
    from hopring.errors import HopError
    from hopring.groups.names import GroupViewId, ViewCause
    from hopring.ids import Place, ViewId
    from hopring.local.aio import Cluster, local_cluster
    from hopring.local.process import ClusterError, NotSettled
    from hopring.services import AGREED, CAUSAL, FIFO, RELIABLE, SAFE, UNRELIABLE, Service
    from hopring.session.options import SlowPolicy
    from hopring.session.protocol import DaemonPhase, LinkProtocolName, LinkUse, PrimaryName, WeightsName

__version__ = "0.1.0"

__all__ = [
    "AGREED",
    "ALL",
    "CAUSAL",
    "FIFO",
    "MAJORITY",
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
    "Headers",
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
    "MissingReplies",
    "NameInUse",
    "NoReceipt",
    "NoResponders",
    "NotAllowed",
    "NotMember",
    "NotSettled",
    "Place",
    "PrimaryName",
    "Quorum",
    "Receipt",
    "Reconnect",
    "ReconnectGap",
    "Reconnected",
    "Replies",
    "RepliesTimedOut",
    "Reply",
    "ReplyTo",
    "Request",
    "RequestFailed",
    "RequestRefused",
    "Service",
    "Serving",
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

_NAMES = {
    "hopring.client.aio": "Connecting Group Joining Session connect",
    "hopring.client.errors": (
        "AlreadyMember BadArgument BatchInDoubt ConnectError InDoubt MessageTooLarge MissingExtra "
        "MissingReplies NameInUse NoReceipt NoResponders NotAllowed NotMember RepliesTimedOut RequestFailed "
        "RequestRefused SessionClosed SlowConsumer TimedOut WrongType WrongValue"
    ),
    "hopring.client.events": (
        "ALL MAJORITY Event Gap Headers Member Message Quorum Receipt Reconnected ReconnectGap Replies Reply "
        "Request SlowWarning Transition View"
    ),
    "hopring.client.queries": (
        "DaemonFacts DaemonView GroupInfo GroupMembers LinkFacts LinkWeights WeighedLink"
    ),
    "hopring.client.arguments": "Reconnect",
    "hopring.client.runs": "MessageRun",
    "hopring.client.sequence": "EventSequence Taken",
    "hopring.client.session_base": "ReplyTo Serving",
    "hopring.errors": "HopError",
    "hopring.groups.names": "GroupViewId ViewCause",
    "hopring.ids": "Place ViewId",
    "hopring.local.aio": "Cluster local_cluster",
    "hopring.local.process": "ClusterError NotSettled",
    "hopring.services": "AGREED CAUSAL FIFO RELIABLE SAFE UNRELIABLE Service",
    "hopring.session.options": "SlowPolicy",
    "hopring.session.protocol": "DaemonPhase LinkProtocolName LinkUse PrimaryName WeightsName",
}
"""The public names by the module that defines them."""

_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

compiled.install()


def __getattr__(name: str) -> object:
    """Imports a public name from its module when it is first used."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'hopring' has no attribute {name!r}")
    value: object = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value
