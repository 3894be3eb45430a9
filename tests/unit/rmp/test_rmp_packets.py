"""The twelve packets of RMP: round trips, limits, and damaged input."""

from random import Random

import pytest
from tests.support.decoding import Tally
from tests.unit.rmp.rmp_samples import KINDS, packet

from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, Incarnation
from hopring.services import Service
from hopring.wire.data import Data, Segment
from hopring.wire.fields import u16
from hopring.wire.header import Family, Header, encode_header
from hopring.wire.rmp.codec import decode_packet, encode_packet
from hopring.wire.rmp.ids import Ballot, DataId, PeerProcess
from hopring.wire.rmp.lists import MEMBERS_MAX, ListId, ListMember, PeerList
from hopring.wire.rmp.packets import (
    BODY_BYTES_MAX,
    HOLES_MAX,
    TUPLES_MAX,
    AckPacket,
    DataPacket,
    NackPacket,
    NewListKind,
    NewListPacket,
    SyncPoint,
)
from hopring.wire.train import decode_train, encode

ONE, OTHER = PeerProcess(0x0A000001, 4803, 7), PeerProcess(0x0A000002, 4803, 8)


@pytest.mark.parametrize("kind", range(KINDS))
def test_a_packet_is_decoded_as_it_was_encoded(kind: int) -> None:
    dice = Random(kind)
    for _ in range(50):
        one = packet(dice, kind)

        assert decode_packet(encode_packet(one)) == one


@pytest.mark.parametrize("kind", range(KINDS))
def test_a_packet_that_is_cut_short_is_refused(kind: int) -> None:
    dice = Random(kind)
    one = packet(dice, kind)
    body_bytes = len(getattr(one, "body", b""))
    raw = encode_packet(one)

    for size in range(len(raw) - body_bytes):
        with pytest.raises(PeerError):
            decode_packet(raw[:size])


@pytest.mark.parametrize("kind", [kind for kind in range(KINDS) if kind not in (0, 10, 11)])
def test_bytes_behind_a_packet_are_refused(kind: int) -> None:
    raw = encode_packet(packet(Random(kind), kind))

    with pytest.raises(PeerError, match="bytes too many"):
        decode_packet(raw + b"x")


def test_damaged_packets_are_decoded_or_refused_as_the_peers_mistake() -> None:
    dice, tally = Random(1), Tally()
    for _ in range(1_500):
        raw = bytearray(encode_packet(packet(dice, dice.randrange(KINDS))))
        for _ in range(dice.choice([0, 1, 1, 2])):
            raw[dice.randrange(len(raw))] = dice.randrange(256)
        with tally.attempt():
            one = decode_packet(bytes(raw))
            assert decode_packet(encode_packet(one)) == one

    tally.expect(0.5)


def test_random_bytes_are_refused_or_are_a_packet() -> None:
    dice = Random(2)
    taken = 0
    for _ in range(10_000):
        raw = bytes([dice.randint(1, KINDS)]) + dice.randbytes(dice.randrange(80))
        try:
            one = decode_packet(raw)
        except PeerError:
            continue
        taken += 1
        assert encode_packet(one) == raw

    assert taken >= 5


def test_no_bytes_and_an_unknown_type_are_refused() -> None:
    with pytest.raises(PeerError) as short:
        decode_packet(b"")
    with pytest.raises(PeerError) as unknown:
        decode_packet(b"\x0d")

    assert (short.value.reason, unknown.value.reason) == (Drop.TRUNCATED, Drop.UNKNOWN_TYPE)


def test_counts_above_a_limit_are_refused_before_anything_is_read() -> None:
    ack = encode_packet(AckPacket(ONE, 1, OTHER, ()))
    nack = encode_packet(NackPacket(ONE, 0, None, (1,)))
    for raw, at, most in ((ack, len(ack) - 2, TUPLES_MAX), (nack, 17, HOLES_MAX)):
        spoiled = raw[:at] + u16(most + 1) + raw[at + 2 :]
        with pytest.raises(PeerError) as refused:
            decode_packet(spoiled)

        assert refused.value.reason is Drop.LIMIT


def test_a_body_above_the_limit_is_refused() -> None:
    raw = encode_packet(DataPacket(DataId(ONE, 1), Service.AGREED, 0, 255, bytes(BODY_BYTES_MAX)))

    with pytest.raises(PeerError) as refused:
        decode_packet(raw + b"x")
    assert refused.value.reason is Drop.LIMIT


def test_resilience_of_a_message_that_cannot_have_any_is_refused() -> None:
    raw = bytearray(encode_packet(DataPacket(DataId(ONE, 1), Service.SAFE, 0, 255, b"")))
    raw[-2] = 1

    with pytest.raises(PeerError, match="SAFE with resilience 1"):
        decode_packet(bytes(raw))


def test_a_process_that_is_in_a_list_twice_is_refused() -> None:
    member = ListMember(ONE, 1, 1, 1, True, 1, 0)
    twice = PeerList(ListId(Ballot(1, ONE), 1), (member, member))

    with pytest.raises(PeerError, match="twice"):
        decode_packet(encode_packet(NewListPacket(NewListKind.INFORMS, ONE, ONE, twice, SyncPoint(1))))


def test_an_ack_that_orders_as_much_as_it_may_fits_one_datagram() -> None:
    ack = AckPacket(ONE, 8, OTHER, tuple(DataId(ONE, seq) for seq in range(1, TUPLES_MAX + 1)))

    assert len(encode_packet(ack)) < 1_200
    assert ack.last == 8 + TUPLES_MAX


def test_the_longest_list_fits_a_train_and_travels_as_segments() -> None:
    members = tuple(
        ListMember(PeerProcess(number, 1, number), 1, 1, 1, True, 1, 0, "n" * 64)
        for number in range(MEMBERS_MAX)
    )
    longest = NewListPacket(
        NewListKind.ORDERED, ONE, OTHER, PeerList(ListId(Ballot(1, ONE), 5), members), SyncPoint(5)
    )
    epoch = Ballot(1, ONE)
    header = Header(Family.RMP, 77, DaemonId(0), Incarnation(ONE.nonce), epoch.generation)

    trains = encode(encode_header(header), [Data(3, encode_packet(longest))], 1_400)
    (whole,) = [one for train in trains for one in decode_train(memoryview(train.buffer), 1_400, 77)]
    assert not isinstance(whole, PeerError)
    (frame,) = whole.frames

    assert whole.header == header
    assert isinstance(frame, Data | Segment)
    assert isinstance(frame, Data)
    assert decode_packet(frame.payload) == longest


def test_epochs_have_different_generations_in_headers() -> None:
    ballots = [Ballot(version, one) for version in range(50) for one in (ONE, OTHER)]

    assert len({one.generation for one in ballots}) == len(ballots)
