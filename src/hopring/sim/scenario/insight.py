"""What travels inside frames: words of membership, bundles and promises, for faults to be aimed at."""

from typing import Final

from hopring.errors import PeerError
from hopring.membership.messages import decode_daemon_message
from hopring.sim.tcp.segment import TcpSegment
from hopring.wire.data import Data
from hopring.wire.flood import decode_control
from hopring.wire.objects import ObjectType, split_objects
from hopring.wire.routed import decode_routed
from hopring.wire.train import Frame
from hopring.wire.word import Word

INNER_KINDS: Final = frozenset(
    (
        *("ALIVE", "JOIN", "REFER", "DECLINE", "LEAVE", "NEWMEMB"),
        *("STATETRANS", "RESEND", "DONE", "BUNDLE", "META", "UPDATE"),
    )
)
"""The words of membership, and the objects that go from site to site."""

# The tag of a word that goes over the attempt's network, behind the head of a msgpack array.
_TOLD: Final = {b"\xa1S": "STATETRANS", b"\xa1D": "RESEND", b"\xa1E": "DONE"}


def inside(frame: Frame | TcpSegment) -> list[tuple[str, int | None]]:
    """The inner kinds of a frame, with the site sequence of those that have one."""
    try:
        match frame:
            case Word(payload=payload):
                return [(type(decode_daemon_message(payload)).__name__.upper().removeprefix("DAEMON"), None)]
            case Data():
                return [_object(kind, body) for kind, body in split_objects(frame.payload)]
            case _:
                return []
    except PeerError:
        return []


def _object(kind: int, body: memoryview) -> tuple[str, int | None]:
    match kind:
        case ObjectType.UPDATE:
            return "UPDATE", None
        case ObjectType.CONTROL:
            control = decode_control(body)
            named = [name for tag, name in _TOLD.items() if control.index == 0 and tag in control.chunk[:5]]
            return (named[0] if named else "CONTROL"), None
        case ObjectType.META:
            return "META", decode_routed(kind, body).seq
        case _:
            return "BUNDLE", decode_routed(kind, body).seq
