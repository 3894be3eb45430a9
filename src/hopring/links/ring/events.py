"""The events that only the Ring has: the two halves of a token visit, and frames of members.

A visit has two halves because bundles are stamped during a visit, and the layer above stamps: the ring puts out
`Visit`, and the answer `Release` brings the stamped objects and the new values for the token. `Submit` is for
objects that need no stamp: transit from other sites, which the representative submits, and control messages.
"""

from typing import Final, final

from hopring.ids import DaemonId
from hopring.value import Value
from hopring.wire.data import Data, Segment
from hopring.wire.ring import Held, Hurry, Token

RingFrame = Data | Segment | Token | Hurry | Held


@final
class FromMember(Value):
    """A frame from the wire, and its sender according to the header of the datagram."""

    def __init__(self, sender: DaemonId, frame: RingFrame) -> None:
        self.sender: Final = sender
        self.frame: Final = frame


@final
class Wish(Value):
    """The layer above wants a visit soon, to stamp bundles or to make a promise."""


@final
class Release(Value):
    """The answer to `Visit`: the token may go on.

    `site_seq` and `site_lts` are the token's, raised by the stamped bundles. `local_aru` is this daemon's part
    of the site's ARU, the line below which it has everything. The objects all leave in this visit.
    """

    def __init__(
        self,
        site_seq: int,
        site_lts: int,
        local_aru: int,
        objects: tuple[bytes, ...] = (),
        busy: bool = False,
        waits_for_holders: bool = False,
        resilient_lts: int = 0,
    ) -> None:
        self.site_seq: Final = site_seq
        self.site_lts: Final = site_lts
        self.local_aru: Final = local_aru
        self.objects: Final = objects  # As many as fit in the `VisitSpace` of the visit.
        self.busy: Final = busy  # Bundles or fragments wait for the next visit: the token must not become idle.
        # A Safe or resilient bundle waits until others hold it: the token must not be kept.
        self.waits_for_holders: Final = waits_for_holders
        self.resilient_lts: Final = (
            resilient_lts  # The highest stamp of a resilient bundle here; 0 without one.
        )


@final
class Visit(Value):
    """A visit begins: the layer above stamps, and answers with `Release` before any other event.

    `site_aru` is the usable line, not the value on the token, which another member may still lower.
    """

    def __init__(self, number: int, site_seq: int, site_lts: int, site_aru: int, local_segments: int) -> None:
        self.number: Final = number
        self.site_seq: Final = site_seq
        self.site_lts: Final = site_lts
        self.site_aru: Final = site_aru
        self.local_segments: Final = local_segments  # For the objects of `Release`, packed in their order.


@final
class Passed(Value):
    """The token was passed on: all daemons of the site have everything below `site_aru`, which never falls."""

    def __init__(self, number: int, site_aru: int, lines: tuple[int, ...] = ()) -> None:
        self.number: Final = number
        self.site_aru: Final = site_aru
        self.lines: Final = lines  # The lines of the members, while resilient bundles wait for holders.


@final
class TransmitTo(Value):
    """Frames for one member; those of `Transmit` are for all others."""

    def __init__(self, member: DaemonId, frames: tuple[RingFrame, ...]) -> None:
        self.member: Final = member
        self.frames: Final = frames
