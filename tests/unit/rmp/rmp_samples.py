"""Valid packets of RMP, drawn from a seeded generator."""

from collections.abc import Callable
from random import Random

from hopring.services import Service
from hopring.wire.rmp.ids import Ballot, DataId, ListMembership, PeerProcess
from hopring.wire.rmp.lists import (
    MINIMUM_ALL,
    MINIMUM_MAJORITY,
    ListId,
    ListMember,
    ListStranger,
    PeerList,
    bare,
)
from hopring.wire.rmp.locks import (
    FENCE_MAX,
    HANDLERS,
    LOCKS_MAX,
    ListLock,
    ListLocks,
    MemberClaim,
    partial_fence,
)
from hopring.wire.rmp.packets import (
    AbortReason,
    AckPacket,
    ConfirmPacket,
    DataPacket,
    ListChange,
    ListChangeRequest,
    NackPacket,
    NewListKind,
    NewListPacket,
    NonMemberAck,
    NonMemberData,
    RecoveryAbort,
    RecoveryAckNewList,
    RecoveryStart,
    RecoveryVote,
    RmpPacket,
    SyncPoint,
)

KINDS = 12


def process(dice: Random) -> PeerProcess:
    """Any process, with any nonce."""
    return PeerProcess(dice.getrandbits(32), dice.randrange(1, 65536), dice.getrandbits(64))


def processes(dice: Random, most: int) -> list[PeerProcess]:
    """Up to this many different processes."""
    return sorted({process(dice) for _ in range(dice.randint(1, most))})


def ballot(dice: Random) -> Ballot:
    """A ballot of any process."""
    return Ballot(dice.randrange(2**48), process(dice))


def data_ids(dice: Random, most: int) -> tuple[DataId, ...]:
    """Different tuples of Data packets."""
    return tuple(DataId(one, dice.randrange(1, 2**40)) for one in processes(dice, most))


def peer_list(dice: Random) -> PeerList:
    """A list of one to six members."""
    members = [
        ListMember(
            one,
            dice.randrange(100),
            dice.choice([1, 2, MINIMUM_MAJORITY, MINIMUM_ALL]),
            dice.randrange(256),
            dice.random() < 0.5,
            dice.randrange(100),
            dice.randrange(2**40),
            dice.choice(["", "größe", "x" * 64]),
        )
        for one in processes(dice, 6)
    ]
    strangers = tuple(ListStranger(*one) for one in data_ids(dice, 3))
    locks = list_locks(dice, [member.membership for member in members])
    return PeerList(ListId(ballot(dice), dice.randrange(2**40)), tuple(members), locks, strangers)


def list_locks(dice: Random, members: list[ListMembership]) -> ListLocks:
    """Locks that some of these members claim."""
    highest = dice.randrange(10, FENCE_MAX)
    numbers = sorted(dice.sample(range(1, LOCKS_MAX + 1), dice.randrange(4)))
    fences = [dice.choice([0, highest - at, partial_fence(highest - at)]) for at in range(len(numbers))]
    serials = iter(range(dice.randrange(100), 1_000))
    locks = [
        ListLock(
            number,
            str(number) if number <= HANDLERS else f"row-{number}",
            tuple(
                MemberClaim(dice.choice(members), next(serials), dice.random() < 0.5)
                for _ in range(dice.randint(1, 4))
            ),
            fence,
        )
        for number, fence in zip(numbers, fences, strict=True)
    ]
    return ListLocks(tuple(locks), highest)


def request(dice: Random, source: PeerProcess) -> ListChangeRequest:
    """A request for any change."""
    change = dice.choice(list(ListChange))
    lock = "row" if change is ListChange.LOCK else ""
    return ListChangeRequest(source, change, 7, "größe", 254, 3, True, 9, "Zoë", 2**60, lock, 4, True)


def sync(dice: Random) -> SyncPoint:
    """A sync point with up to six sources."""
    return SyncPoint(dice.randrange(2**40), data_ids(dice, 6))


def packet(dice: Random, kind: int) -> RmpPacket:
    """A valid packet of one of the twelve kinds."""
    one, other, timestamp = process(dice), process(dice), dice.randrange(2**40)
    body = dice.randbytes(dice.choice([0, 1, 40]))
    data_id = DataId(one, dice.randrange(1, 2**40))
    makers: list[Callable[[], RmpPacket]] = [
        lambda: DataPacket(data_id, Service.AGREED, dice.randrange(256), 255, body),
        lambda: AckPacket(one, timestamp, other, data_ids(dice, 9)),
        lambda: ConfirmPacket(one, timestamp, timestamp + 1),
        lambda: NackPacket(one, 3, dice.choice([None, other]), (timestamp,), data_ids(dice, 4)),
        lambda: NewListPacket(
            dice.choice(list(NewListKind)), one, other, peer_list(dice), sync(dice), timestamp
        ),
        lambda: request(dice, one),
        lambda: RecoveryStart(ballot(dice), sync(dice)),
        lambda: RecoveryVote(
            ballot(dice), one, 1, sync(dice), 5, 6, (bare(peer_list(dice)), bare(peer_list(dice)))
        ),
        lambda: RecoveryAckNewList(ballot(dice), one),
        lambda: RecoveryAbort(ballot(dice), one, dice.choice(list(AbortReason)), 9),
        lambda: NonMemberData(
            data_id,
            Service.SAFE,
            0,
            2,
            "red",
            dice.choice([None, peer_list(dice).id]),
            True,
            False,
            True,
            body,
        ),
        lambda: NonMemberAck(one, other, peer_list(dice).id, 4, timestamp, False, body),
    ]
    return makers[kind]()
