"""Frames that no correct cluster sends, at a member with an open connection: they end it, and nothing else."""

from random import Random

from tests.unit.haul.members import OneMember, exchange
from tests.unit.haul.wide_frames import draw_frame

from hopring.haul.application import ApplicationManager, PeerRefused
from hopring.haul.entries import CastRequest, FramesReceived, SetJoinRequest, WideEntry, encode_entry
from hopring.haul.ids import ClusterId, ClusterMask, ParcelId, Talk
from hopring.haul.link.frames import (
    LENGTH_BYTES,
    DescriptorsFrame,
    LinkFrame,
    ParcelFrame,
    ReceivedFrame,
    SetFrame,
    SetReceived,
    WantFrame,
    encode_frame,
)
from hopring.haul.member_events import ConnectionId, FrameArrived, PeerConnectionLost
from hopring.haul.order.events import CastKind, Parcel
from hopring.haul.order.runs import DescriptorRun

HUB, NORWAY, SAN_DIEGO = ClusterId(1), ClusterId(2), ClusterId(3)
ALL = ClusterMask(7)


def cast(number: int) -> CastRequest:
    of = "tickets", ALL, "", CastKind.CBCAST, 0, ClusterId(0), b"3 left", False
    return CastRequest("vendor", number, 0, *of)


def clusters() -> tuple[OneMember, OneMember]:
    """The hub, connected with Norway, in a set of three clusters."""
    hub, norway = OneMember(1, (2, 3), dials=(2,)), OneMember(2, (1, 3))
    for one in (hub, norway):
        one.view()
        one.request("vendor", 1, SetJoinRequest("vendor", 1, 0, "tickets", "vendors", ALL))
        one.present("vendors")
    connect(hub, norway, 1)
    return hub, norway


def connect(hub: OneMember, norway: OneMember, connection: int) -> None:
    """Opens a connection, and lets both exchange what waits."""
    while NORWAY not in hub.dialed:
        hub.after(1_000_000)
    hub.connect(norway, connection)
    for _ in range(3):
        exchange(hub, norway)
        for one in (hub, norway):
            one.after(60_000)
    exchange(hub, norway)


def small(dice: Random) -> int:
    return dice.choice([0, 1, 1, 2, 2, 3, 4, 7, 1_000, 2**40])


def mask(dice: Random) -> ClusterMask:
    return ClusterMask(dice.choice([1, 2, 3, 5, 6, 7, 7, 7, 8, 15, 2**63]))


def cluster(dice: Random) -> ClusterId:
    return ClusterId(dice.choice([1, 2, 2, 2, 3, 4, 64]))


def nearly_right(dice: Random, number: int) -> LinkFrame:
    """A frame that fits where it should not differ, with fields that may be wrong."""
    line = (
        dice.choice(["tickets", "tickets", "tickets", "others"]),
        max(1, number + dice.choice([0, 0, 0, 0, 1, -1])),
    )
    received = dice.choice([0, 1, 1, 2, 50])
    talk = Talk(mask(dice), dice.choice(["", "north"]))
    run = DescriptorRun(cluster(dice), max(1, small(dice)), max(1, small(dice)), talk, mask(dice), mask(dice))
    match dice.randrange(6):
        case 0 | 1:
            past = tuple([(one, max(1, small(dice))) for one in sorted({cluster(dice), cluster(dice)})])
            parcel_id = ParcelId(cluster(dice), max(1, small(dice)))
            of = talk, dice.choice(list(CastKind)), mask(dice), dice.randrange(3), past, small(dice)
            runs = (run,) if dice.random() < 0.7 else ()
            return ParcelFrame(*line, received, Parcel(parcel_id, *of), runs, b"body")
        case 2:
            return DescriptorsFrame(*line, received, (run,))
        case 3:
            return SetFrame(*line, received, mask(dice))
        case 4:
            return WantFrame(line[0], ParcelId(cluster(dice), max(1, small(dice))))
        case _:
            return ReceivedFrame((SetReceived(line[0], small(dice)),))


def test_wrong_frames_end_their_connection_and_the_member_goes_on() -> None:
    dice = Random(7)
    hub, norway = clusters()
    refused = connections = 0
    for connection in range(2, 700):
        received = hub.core.app.sets["tickets"].channels[NORWAY].received
        for _ in range(2):
            frame = nearly_right(dice, received + 1) if dice.random() < 0.8 else draw_frame(dice)
            hub.step(FrameArrived(ConnectionId(connection - 1), frame))
        refused += bool(hub.ended)
        for one in (hub, norway):
            one.step(PeerConnectionLost(ConnectionId(connection - 1)))
            one.frames.clear()
            one.ended.clear()
            one.now_us += 70_000_000
        hub.after(0)
        if NORWAY in hub.dialed:
            hub.connect(norway, connection)
            exchange(hub, norway)
            connections += hub.core.app.links[NORWAY].is_open

    assert connections > 30, "it gets on for a while before the two do not fit any more"
    assert refused > 30
    assert hub.core.serving
    other = ApplicationManager(HUB, ClusterMask(6))
    other.restore(hub.core.app.snapshot())
    assert other.snapshot() == hub.core.app.snapshot()
    hub.request("vendor", 2, cast(2))
    assert hub.answers[-1].number == 2


def test_wrong_frames_in_entries_are_refused_and_change_nothing_else() -> None:
    dice = Random(8)
    hub, _ = clusters()
    app = hub.core.app
    link = app.links[NORWAY]
    refused = taken = 0
    for _ in range(4_000):
        received = app.sets["tickets"].channels[NORWAY].received
        frame = encode_frame(nearly_right(dice, received + 1))[LENGTH_BYTES:]
        entry = WideEntry(0, FramesReceived(NORWAY, link.dialer, link.generation, (frame,)))
        before = app.snapshot()
        acts = app.apply(encode_entry(entry))
        if any(isinstance(one, PeerRefused) for one in acts):
            refused += 1
            # An acknowledgement that rides on it may have been right.
            assert app.sets["tickets"].channels[NORWAY].received == received
        taken += app.snapshot() != before

    assert refused > 1_000
    assert taken > 20
