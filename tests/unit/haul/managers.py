"""An application manager, and the entries that tests hand to it."""

from hopring.haul.application import ApplicationManager, RequestAnswered
from hopring.haul.entries import (
    CastRequest,
    EntryBody,
    FramesReceived,
    LinkOpened,
    MembersServing,
    SetJoinRequest,
    WideEntry,
    encode_entry,
)
from hopring.haul.ids import ClusterId, ClusterMask, clusters_mask
from hopring.haul.link.frames import (
    LENGTH_BYTES,
    LinkFrame,
    LinkGeneration,
    SetReceived,
    encode_frame,
)
from hopring.haul.managed_set import SetOptions
from hopring.haul.order.events import CastKind

HUB, NORWAY = ClusterId(1), ClusterId(2)
BOTH = clusters_mask([HUB, NORWAY])
FIRST = LinkGeneration(1, 1)


def apply(app: ApplicationManager, body: EntryBody) -> list[object]:
    """What comes of an entry."""
    return list(app.apply(encode_entry(WideEntry(0, body))))


def cast(number: int, body: bytes = b"3 left", to: int = 0, kind: CastKind = CastKind.CBCAST) -> CastRequest:
    return CastRequest("vendor", number, 0, "tickets", ClusterMask(0), "", kind, 0, ClusterId(to), body, True)


def join(number: int, clusters: ClusterMask = BOTH) -> SetJoinRequest:
    return SetJoinRequest("vendor", number, 0, "tickets", "vendors", clusters)


def opened(generation: LinkGeneration, received: int = 0, incarnation: int = 7) -> LinkOpened:
    told = (SetReceived("tickets", received),)
    return LinkOpened(NORWAY, HUB, generation, "h1", incarnation, told)


def hub(spool_bytes_max: int = 10_000) -> ApplicationManager:
    """The hub with one member and a set that is joined."""
    app = ApplicationManager(HUB, clusters_mask([NORWAY]), SetOptions(spool_bytes_max=spool_bytes_max))
    apply(app, MembersServing(1, ("h1",)))
    apply(app, join(1))
    return app


def received(app: ApplicationManager, *frames: LinkFrame, generation: LinkGeneration = FIRST) -> list[object]:
    data = tuple([encode_frame(one)[LENGTH_BYTES:] for one in frames])
    return apply(app, FramesReceived(NORWAY, HUB, generation, data))


def answer(acts: list[object]) -> object:
    (act,) = [one for one in acts if isinstance(one, RequestAnswered)]
    return act.answer
