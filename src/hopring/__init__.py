"""hopring: wide-area group communication with extended virtual synchrony.

Applications use `connect` (asyncio) or `hopring.sync.connect`. A name is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from hopring import compiled

if TYPE_CHECKING:
    from hopring.blocks.log.book import LogEntry, StateMachine
    from hopring.blocks.log.errors import (
        ApplyFailed,
        LogDiskFailed,
        LogTrimmed,
        NoQuorum,
        NotAccepted,
        NotAMember,
    )
    from hopring.blocks.log.replicated_log import ReplicatedLog
    from hopring.blocks.replicated.replicated_dict import MapChange, ReplicatedDict
    from hopring.blocks.work_queue.errors import ClaimLost, QueueFull
    from hopring.blocks.work_queue.job_queue import DeadLetter, Job, QueueCounts, WorkQueue
    from hopring.client.aio import Connecting, Group, Joining, Session, connect
    from hopring.client.arguments import (
        ConnectOptions,
        LatePolicy,
        Reconnect,
        Requirement,
        SynchronyName,
        ViewSynchrony,
    )
    from hopring.client.errors import (
        AlreadyMember,
        BadArgument,
        BatchInDoubt,
        ConnectError,
        Expired,
        FlushPending,
        GroupSuspended,
        InDoubt,
        LockLost,
        LockNotHeld,
        LockRefused,
        LockTimedOut,
        MessageTooLarge,
        MissingExtra,
        MissingReplies,
        NameInUse,
        NoReceipt,
        NoResponders,
        NoState,
        NotAllowed,
        NotAsked,
        NotMember,
        NotOffered,
        NotPrimary,
        ProviderFailed,
        RepliesTimedOut,
        RequestFailed,
        RequestRefused,
        SessionClosed,
        SlowConsumer,
        TimedOut,
        Undecodable,
        WrongType,
        WrongValue,
    )
    from hopring.client.events import (
        ALL,
        MAJORITY,
        Event,
        Excluded,
        FlushRequest,
        Gap,
        Headers,
        Member,
        Message,
        Quorum,
        Ready,
        Receipt,
        Reconnected,
        ReconnectGap,
        Replies,
        Reply,
        Request,
        SlowWarning,
        Suspended,
        Transition,
        View,
    )
    from hopring.client.features.requests import ReplyTo, Serving
    from hopring.client.locks.handles import BlockingLocking, Locking
    from hopring.client.queries import (
        ConfiguredDaemon,
        DaemonFacts,
        DaemonView,
        GroupInfo,
        GroupMembers,
        LinkFacts,
        LinkWeights,
        LockInfo,
        ReasonFacts,
        WeighedLink,
    )
    from hopring.client.receiving.runs import MessageRun
    from hopring.client.receiving.sequence import EventSequence, Taken
    from hopring.client.values.codecs import Codec, CodecName, JsonCodec, MsgspecCodec
    from hopring.client.values.providers import MergingProvider, StateProvider, StateSnapshot
    from hopring.client.values.tracing import trace_context
    from hopring.errors import HopError
    from hopring.groups.names import GroupViewId, ViewCause
    from hopring.ids import Place, ViewId
    from hopring.local.aio import Cluster, local_cluster
    from hopring.local.aio_peers import Peers, local_peers
    from hopring.local.peer_processes import PeersError
    from hopring.local.process import ClusterError, NotSettled
    from hopring.services import AGREED, CAUSAL, FIFO, RELIABLE, SAFE, UNRELIABLE, Service
    from hopring.session.options import SlowPolicy, WhenSuspended
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
    "ApplyFailed",
    "BadArgument",
    "BatchInDoubt",
    "BlockingLocking",
    "ClaimLost",
    "Cluster",
    "ClusterError",
    "Codec",
    "CodecName",
    "ConfiguredDaemon",
    "ConnectError",
    "ConnectOptions",
    "Connecting",
    "DaemonFacts",
    "DaemonPhase",
    "DaemonView",
    "DeadLetter",
    "Event",
    "EventSequence",
    "Excluded",
    "Expired",
    "FlushPending",
    "FlushRequest",
    "Gap",
    "Group",
    "GroupInfo",
    "GroupMembers",
    "GroupSuspended",
    "GroupViewId",
    "Headers",
    "HopError",
    "InDoubt",
    "Job",
    "Joining",
    "JsonCodec",
    "LatePolicy",
    "LinkFacts",
    "LinkProtocolName",
    "LinkUse",
    "LinkWeights",
    "LockInfo",
    "LockLost",
    "LockNotHeld",
    "LockRefused",
    "LockTimedOut",
    "Locking",
    "LogDiskFailed",
    "LogEntry",
    "LogTrimmed",
    "MapChange",
    "Member",
    "MergingProvider",
    "Message",
    "MessageRun",
    "MessageTooLarge",
    "MissingExtra",
    "MissingReplies",
    "MsgspecCodec",
    "NameInUse",
    "NoQuorum",
    "NoReceipt",
    "NoResponders",
    "NoState",
    "NotAMember",
    "NotAccepted",
    "NotAllowed",
    "NotAsked",
    "NotMember",
    "NotOffered",
    "NotPrimary",
    "NotSettled",
    "Peers",
    "PeersError",
    "Place",
    "PrimaryName",
    "ProviderFailed",
    "QueueCounts",
    "QueueFull",
    "Quorum",
    "Ready",
    "ReasonFacts",
    "Receipt",
    "Reconnect",
    "ReconnectGap",
    "Reconnected",
    "ReplicatedDict",
    "ReplicatedLog",
    "Replies",
    "RepliesTimedOut",
    "Reply",
    "ReplyTo",
    "Request",
    "RequestFailed",
    "RequestRefused",
    "Requirement",
    "Service",
    "Serving",
    "Session",
    "SessionClosed",
    "SlowConsumer",
    "SlowPolicy",
    "SlowWarning",
    "StateMachine",
    "StateProvider",
    "StateSnapshot",
    "Suspended",
    "SynchronyName",
    "Taken",
    "TimedOut",
    "Transition",
    "Undecodable",
    "View",
    "ViewCause",
    "ViewId",
    "ViewSynchrony",
    "WeighedLink",
    "WeightsName",
    "WhenSuspended",
    "WorkQueue",
    "WrongType",
    "WrongValue",
    "connect",
    "local_cluster",
    "local_peers",
    "trace_context",
]

_NAMES = {
    "hopring.blocks.log.book": "LogEntry StateMachine",
    "hopring.blocks.log.errors": "ApplyFailed LogDiskFailed LogTrimmed NoQuorum NotAccepted NotAMember",
    "hopring.blocks.log.replicated_log": "ReplicatedLog",
    "hopring.blocks.replicated.replicated_dict": "MapChange ReplicatedDict",
    "hopring.blocks.work_queue.errors": "ClaimLost QueueFull",
    "hopring.blocks.work_queue.job_queue": "DeadLetter Job QueueCounts WorkQueue",
    "hopring.client.aio": "Connecting Group Joining Session connect",
    "hopring.client.values.codecs": "Codec CodecName JsonCodec MsgspecCodec",
    "hopring.client.errors": (
        "AlreadyMember BadArgument BatchInDoubt ConnectError Expired FlushPending InDoubt LockLost "
        "LockNotHeld LockRefused LockTimedOut MessageTooLarge MissingExtra MissingReplies NameInUse "
        "GroupSuspended NoReceipt NoResponders NoState NotAllowed NotAsked NotMember NotOffered NotPrimary "
        "ProviderFailed RepliesTimedOut RequestFailed "
        "RequestRefused SessionClosed SlowConsumer TimedOut Undecodable WrongType WrongValue"
    ),
    "hopring.client.events": (
        "ALL MAJORITY Event Excluded FlushRequest Gap Headers Member Message Quorum Ready Receipt "
        "Reconnected ReconnectGap Replies Reply Request SlowWarning Suspended Transition View"
    ),
    "hopring.client.locks.handles": "BlockingLocking Locking",
    "hopring.client.queries": (
        "ConfiguredDaemon DaemonFacts DaemonView GroupInfo GroupMembers LinkFacts LinkWeights LockInfo "
        "ReasonFacts WeighedLink"
    ),
    "hopring.client.arguments": "ConnectOptions LatePolicy Reconnect Requirement SynchronyName ViewSynchrony",
    "hopring.client.receiving.runs": "MessageRun",
    "hopring.client.receiving.sequence": "EventSequence Taken",
    "hopring.client.features.requests": "ReplyTo Serving",
    "hopring.client.values.providers": "MergingProvider StateProvider StateSnapshot",
    "hopring.client.values.tracing": "trace_context",
    "hopring.errors": "HopError",
    "hopring.groups.names": "GroupViewId ViewCause",
    "hopring.ids": "Place ViewId",
    "hopring.local.aio": "Cluster local_cluster",
    "hopring.local.aio_peers": "Peers local_peers",
    "hopring.local.peer_processes": "PeersError",
    "hopring.local.process": "ClusterError NotSettled",
    "hopring.services": "AGREED CAUSAL FIFO RELIABLE SAFE UNRELIABLE Service",
    "hopring.session.options": "SlowPolicy WhenSuspended",
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
