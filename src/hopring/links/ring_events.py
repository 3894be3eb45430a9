"""The words that only the Ring has: the two halves of a token visit, and who is spoken to.

A visit has two halves because the token's holder stamps, and stamping is the work of the layer above: the ring
says `Visit`, and the answer `Release` brings the stamped objects and what goes on the token. `Submit` is for
objects that need no stamp: transit traffic that the representative carries in from other sites, and control.
"""

from hopring.ids import DaemonId
from hopring.value import Value
from hopring.wire.data import Data, Segment
from hopring.wire.ring import Held, Hurry, Token

RingFrame = Data | Segment | Token | Hurry | Held


class FromMember(Value, frozen=True):
    """A frame from the wire, and the daemon that the datagram's head names as its sender."""

    sender: DaemonId
    frame: RingFrame


class Wish(Value, frozen=True):
    """The layer above has something to stamp, or a promise to make: it wants a visit soon."""


class Release(Value, frozen=True):
    """The answer to `Visit`: the token may go on.

    `site_seq` and `site_lts` are the token's, raised by what was stamped. `local_aru` is this daemon's part of
    the site's ARU, the line below which it has everything. The objects all leave in this visit.
    """

    site_seq: int
    site_lts: int
    local_aru: int
    objects: tuple[bytes, ...] = ()  # As many as the visit's `Room` takes.
    busy: bool = False  # A promise is owed: the token may not stop yet.
    settle: bool = False  # A Safe bundle waits: the token may not be kept.


class Visit(Value, frozen=True):
    """The token is here: stamp, and answer with `Release` in the same turn.

    `site_aru` is the usable line, not the raw value on the token, which some member may yet have to lower.
    """

    number: int
    site_seq: int
    site_lts: int
    site_aru: int
    room_segments: int  # For the objects of `Release`, packed in their order.


class Passed(Value, frozen=True):
    """The token has left: all daemons of the site have everything below `site_aru`, which never falls."""

    number: int
    site_aru: int


class TransmitTo(Value, frozen=True):
    """Frames for one member only; `Transmit` speaks to all the others."""

    member: DaemonId
    frames: tuple[RingFrame, ...]
