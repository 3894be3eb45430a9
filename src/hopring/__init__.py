"""hopring: wide-area group communication with extended virtual synchrony.

Applications use `connect` (asyncio) or `hopring.sync.connect`. Names are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from hopring import compiled

if TYPE_CHECKING:
    from hopring.client.aio import Group, Session, connect
    from hopring.client.errors import (
        AlreadyMember,
        ConnectError,
        MessageTooLarge,
        NameInUse,
        NotMember,
        RequestRefused,
        SessionClosed,
        SlowConsumer,
        TimedOut,
    )
    from hopring.client.events import Event, Gap, Member, Message, SlowWarning, Transition, View
    from hopring.errors import HopError
    from hopring.services import AGREED, CAUSAL, FIFO, RELIABLE, SAFE, UNRELIABLE, Service

__version__ = "0.1.0"

__all__ = [
    "AGREED",
    "CAUSAL",
    "FIFO",
    "RELIABLE",
    "SAFE",
    "UNRELIABLE",
    "AlreadyMember",
    "ConnectError",
    "Event",
    "Gap",
    "Group",
    "HopError",
    "Member",
    "Message",
    "MessageTooLarge",
    "NameInUse",
    "NotMember",
    "RequestRefused",
    "Service",
    "Session",
    "SessionClosed",
    "SlowConsumer",
    "SlowWarning",
    "TimedOut",
    "Transition",
    "View",
    "connect",
]

_ROOMS = (
    "hopring.client.events",
    "hopring.client.errors",
    "hopring.errors",
    "hopring.services",
    "hopring.client.aio",
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
