"""The words that only the Ring has: the two halves of a token visit, and who is spoken to.

A visit has two halves because the token's holder stamps, and stamping is the work of the layer above: the ring
says `Visit`, and the answer `Release` brings the stamped objects and what goes on the token. `Submit` is for
objects that need no stamp: transit traffic that the representative carries in from other sites, and control.
"""

from typing import Final, final

from hopring.ids import DaemonId
from hopring.value import Value
from hopring.wire.data import Data, Segment
from hopring.wire.ring import Held, Hurry, Token

RingFrame = Data | Segment | Token | Hurry | Held


@final
class FromMember(Value):
    """A frame from the wire, and the daemon that the datagram's head names as its sender."""

    def __init__(self, sender: DaemonId, frame: RingFrame) -> None:
        self.sender: Final = sender
        self.frame: Final = frame


@final
class Wish(Value):
    """The layer above has something to stamp, or a promise to make: it wants a visit soon."""


@final
class Release(Value):
    """The answer to `Visit`: the token may go on.

    `site_seq` and `site_lts` are the token's, raised by what was stamped. `local_aru` is this daemon's part of
    the site's ARU, the line below which it has everything. The objects all leave in this visit.
    """

    def __init__(
        self,
        site_seq: int,
        site_lts: int,
        local_aru: int,
        objects: tuple[bytes, ...] = (),
        busy: bool = False,
        settle: bool = False,
    ) -> None:
        self.site_seq: Final = site_seq
        self.site_lts: Final = site_lts
        self.local_aru: Final = local_aru
        self.objects: Final = objects  # As many as the visit's `Room` takes.
        self.busy: Final = busy  # Bundles or fragments wait for the next visit: the token may not stop.
        self.settle: Final = settle  # A Safe bundle waits: the token may not be kept.


@final
class Visit(Value):
    """The token is here: stamp, and answer with `Release` in the same turn.

    `site_aru` is the usable line, not the raw value on the token, which some member may yet have to lower.
    """

    def __init__(self, number: int, site_seq: int, site_lts: int, site_aru: int, room_segments: int) -> None:
        self.number: Final = number
        self.site_seq: Final = site_seq
        self.site_lts: Final = site_lts
        self.site_aru: Final = site_aru
        self.room_segments: Final = room_segments  # For the objects of `Release`, packed in their order.


@final
class Passed(Value):
    """The token has left: all daemons of the site have everything below `site_aru`, which never falls."""

    def __init__(self, number: int, site_aru: int) -> None:
        self.number: Final = number
        self.site_aru: Final = site_aru


@final
class TransmitTo(Value):
    """Frames for one member only; `Transmit` speaks to all the others."""

    def __init__(self, member: DaemonId, frames: tuple[RingFrame, ...]) -> None:
        self.member: Final = member
        self.frames: Final = frames
