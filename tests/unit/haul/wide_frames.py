"""Valid frames of links between clusters, drawn from a seeded generator."""

from random import Random

from hopring.haul.ids import ClusterId, ClusterMask, ParcelId, Talk
from hopring.haul.link.frames import (
    Beat,
    Bye,
    ChunkFrame,
    ChunkReceived,
    DescriptorsFrame,
    FileOffset,
    Greeting,
    LinkFrame,
    LinkGeneration,
    ParcelFrame,
    ReceivedFrame,
    Refuse,
    SetReceived,
    WantFrame,
    WideFile,
)
from hopring.haul.order.events import CastKind, Parcel
from hopring.haul.order.runs import DescriptorRun

KINDS = 12


def draw_frame(dice: Random, kind: int | None = None) -> LinkFrame:
    """A frame of any kind, or of a given one from 0 to KINDS - 1."""
    match dice.randrange(KINDS) if kind is None else kind:
        case 0 | 1 as which:
            generation = LinkGeneration(dice.randrange(9), dice.randrange(2**40))
            files = tuple([FileOffset(dice.randbytes(32), dice.randrange(2**40)) for _ in range(3)])
            received = (SetReceived("tickets", dice.randrange(2**50)), SetReceived("löschen", 0))
            of = dice.randbytes(32), _cluster(dice), dice.getrandbits(64), generation, received, files
            return Greeting("ims", *of, welcome=which == 1)
        case 2:
            return Refuse("the clusters files differ", "give both clusters the same file")
        case 3:
            return ParcelFrame("tickets", _count(dice), 0, _parcel(dice), (), dice.randbytes(90))
        case 4:
            file = WideFile("seg/17", dice.randrange(2**40), dice.randbytes(32))
            runs = tuple([_run(dice) for _ in range(dice.randrange(5))])
            return ParcelFrame("tickets", _count(dice), 7, _parcel(dice), runs, b"", file)
        case 5:
            return DescriptorsFrame("tickets", _count(dice), 3, tuple([_run(dice) for _ in range(4)]))
        case 6:
            return ReceivedFrame((SetReceived("tickets", dice.randrange(2**50)),))
        case 7:
            return ChunkFrame(dice.randbytes(32), dice.randrange(2**40), dice.randbytes(50))
        case 8:
            return ChunkReceived(FileOffset(dice.randbytes(32), dice.randrange(2**40)))
        case 9:
            return WantFrame("tickets", ParcelId(_cluster(dice), _count(dice)))
        case 10:
            return Beat()
        case _:
            return Bye("the window is over")


def _cluster(dice: Random) -> ClusterId:
    return ClusterId(dice.randint(1, 64))


def _count(dice: Random) -> int:
    return dice.randint(1, 2**48)


def _mask(dice: Random) -> ClusterMask:
    return ClusterMask(dice.randint(1, 2**64 - 1))


def _run(dice: Random) -> DescriptorRun:
    talk = Talk(_mask(dice), dice.choice(["", "north"]))
    return DescriptorRun(_cluster(dice), _count(dice), _count(dice), talk, _mask(dice), _mask(dice))


def _parcel(dice: Random) -> Parcel:
    past = tuple([(ClusterId(one), _count(dice)) for one in sorted(dice.sample(range(1, 65), 3))])
    of = Talk(_mask(dice)), dice.choice(list(CastKind)), _mask(dice), dice.randrange(65_536), past
    parcel_id = ParcelId(_cluster(dice), _count(dice))
    return Parcel(parcel_id, *of, order=dice.randrange(9), answers=dice.randrange(3))
