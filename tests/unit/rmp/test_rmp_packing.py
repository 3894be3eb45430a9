"""Packets of RMP in datagrams: shared datagrams, trains, segments from several senders, and limits."""

from random import Random

import pytest
from tests.support.decoding import Tally
from tests.unit.rmp.rmp_samples import KINDS, packet

from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, Generation, Incarnation
from hopring.rmp.events import MulticastPacket, PacketArrived, RingEffect, UnicastPacket
from hopring.rmp.packing import (
    INCOMPLETE_MAX,
    ONWARD_MAX,
    Addressed,
    Packer,
    PacketOnward,
    Unpacker,
    cluster_of,
)
from hopring.services import Service
from hopring.wire.data import Data
from hopring.wire.header import Family, Header, encode_header
from hopring.wire.hop import Ack
from hopring.wire.rmp.codec import PACKET_ENCODED_BYTES_MAX, encode_packet
from hopring.wire.rmp.ids import DataId, PeerProcess
from hopring.wire.rmp.packets import BODY_BYTES_MAX, AckPacket, ConfirmPacket, DataPacket, RmpPacket
from hopring.wire.train import Packet, decode_train, decoded, encode

CLUSTER = 0xC0FFEE
A, B, C = [PeerProcess(0x7F000001, 5000 + number, number) for number in (1, 2, 3)]
EPOCH = 77


def data(seq: int, size: int, source: PeerProcess = A) -> DataPacket:
    return DataPacket(DataId(source, seq), Service.AGREED, 0, 255, Random(seq).randbytes(size))


def datagrams(out: list[Addressed]) -> list[bytes]:
    return [one for addressed in out for train in addressed.trains() for one in train.datagrams()]


def received(at: Unpacker, raw: list[bytes], sender: PeerProcess = A) -> list[PacketArrived | PeerError]:
    out: list[PacketArrived | PeerError] = []
    for one in raw:
        clear = decoded(one, CLUSTER)
        assert isinstance(clear, Packet)
        out += at.unpack(clear, sender.address, sender.port)
    return out


def packets_of(arrived: list[PacketArrived | PeerError]) -> list[object]:
    return [one.packet if isinstance(one, PacketArrived) else one for one in arrived]


def test_several_packets_for_the_group_share_a_datagram() -> None:
    sent: list[RmpPacket] = [data(1, 100), AckPacket(A, 8, B, (DataId(A, 1),)), data(2, 100)]

    out = Packer(CLUSTER, A.nonce).pack([MulticastPacket(one, EPOCH) for one in sent])
    raw = datagrams(out)
    arrived = received(Unpacker(B.nonce), raw)

    assert len(raw) == 1
    assert cluster_of(raw[0]) == CLUSTER
    assert arrived == [PacketArrived(one, EPOCH, A) for one in sent]


def test_each_destination_gets_its_packets_in_their_order() -> None:
    first, second, confirm = data(1, 10), data(2, 10), ConfirmPacket(A, 4, 4)
    effects: list[RingEffect] = [
        MulticastPacket(first, EPOCH, (C,)),
        UnicastPacket(confirm, EPOCH, B),
        MulticastPacket(second, EPOCH, (C,)),
    ]

    out = {one.to: one for one in Packer(CLUSTER, A.nonce).pack(effects)}

    assert set(out) == {None, B, C}
    for to, expected in ((None, [first, second]), (B, [confirm]), (C, [first, second])):
        assert packets_of(received(Unpacker(B.nonce), datagrams([out[to]]))) == expected


def test_packets_of_two_epochs_do_not_share_a_datagram() -> None:
    out = Packer(CLUSTER, A.nonce).pack(
        [MulticastPacket(data(seq, 10), epoch) for seq, epoch in ((1, 5), (2, 5), (3, 6))]
    )

    arrived = received(Unpacker(B.nonce), datagrams(out))

    assert [one.epoch for one in arrived if isinstance(one, PacketArrived)] == [5, 5, 6]
    assert len(datagrams(out)) == 2


@pytest.mark.parametrize("segment_bytes", [1_400, 8_900, 65_000])
def test_the_longest_packet_travels_as_a_train(segment_bytes: int) -> None:
    longest = data(1, BODY_BYTES_MAX)
    assert len(encode_packet(longest)) < PACKET_ENCODED_BYTES_MAX

    (out,) = Packer(CLUSTER, A.nonce, segment_bytes).pack([MulticastPacket(longest, EPOCH)])
    (train,) = out.trains(segment_bytes)
    (whole,) = decode_train(memoryview(train.buffer), segment_bytes, CLUSTER)

    assert isinstance(whole, Packet)
    assert packets_of(Unpacker(B.nonce).unpack(whole, 1, 2)) == [longest]


def test_segments_too_large_for_the_longest_packet_in_one_train_are_a_mistake() -> None:
    with pytest.raises(AssertionError, match="fit in one train"):
        Packer(CLUSTER, A.nonce, 20_000)


def test_segments_in_any_order_and_doubled_give_the_packet_once() -> None:
    longest, dice, at = data(1, 40_000), Random(3), Unpacker(B.nonce)
    raw = datagrams(Packer(CLUSTER, A.nonce).pack([MulticastPacket(longest, EPOCH)]))
    mixed = raw[1:] + raw[1:-1]
    dice.shuffle(mixed)

    assert received(at, mixed) == []
    assert at.incomplete == 1
    assert packets_of(received(at, raw[:1])) == [longest]
    assert at.incomplete == 0


def test_a_copy_sent_by_another_member_completes_what_was_heard_in_part() -> None:
    lost, at = data(7, 20_000), Unpacker(B.nonce)
    from_source = datagrams(Packer(CLUSTER, A.nonce).pack([MulticastPacket(lost, EPOCH)]))
    from_other = datagrams(Packer(CLUSTER, C.nonce).pack([UnicastPacket(lost, EPOCH, B)]))

    assert received(at, from_source[::2]) == []
    arrived = received(at, from_other[1::2], C)

    assert arrived == [PacketArrived(lost, EPOCH, C)]


def test_unreliable_and_ordered_packets_of_one_number_are_not_mixed_up() -> None:
    ordered, at = data(7, 20_000), Unpacker(B.nonce)
    loose = DataPacket(ordered.id, Service.UNRELIABLE, 0, 255, bytes(20_000))
    packer = Packer(CLUSTER, A.nonce)
    one, other = [datagrams(packer.pack([MulticastPacket(each, EPOCH)])) for each in (ordered, loose)]

    assert received(at, one[::2] + other[1::2]) == []
    assert packets_of(received(at, one[1::2])) == [ordered]


def test_copies_cut_for_other_networks_are_kept_apart() -> None:
    long, at = data(7, 20_000), Unpacker(B.nonce)
    (small,) = Packer(CLUSTER, A.nonce).pack([MulticastPacket(long, EPOCH)])
    (large,) = Packer(CLUSTER, C.nonce, 8_900).pack([MulticastPacket(long, EPOCH)])
    of_small = [one for train in small.trains(1_400) for one in train.datagrams()]
    of_large = [one for train in large.trains(8_900) for one in train.datagrams()]

    assert received(at, of_small[:-1] + of_large[:-1]) == []
    assert packets_of(received(at, of_large[-1:])) == [long]


def test_own_packets_that_the_group_sends_back_are_dropped() -> None:
    raw = datagrams(Packer(CLUSTER, A.nonce).pack([MulticastPacket(data(1, 10), EPOCH)]))

    assert received(Unpacker(A.nonce), raw) == []


def test_a_flood_of_first_segments_keeps_a_bounded_number_of_packets() -> None:
    at, packer = Unpacker(B.nonce), Packer(CLUSTER, A.nonce)
    for seq in range(1, 5 * INCOMPLETE_MAX):
        raw = datagrams(packer.pack([MulticastPacket(data(seq, 3_000), EPOCH)]))
        assert received(at, raw[:1]) == []

    assert at.incomplete == INCOMPLETE_MAX
    assert packets_of(received(at, raw[1:])) == [data(5 * INCOMPLETE_MAX - 1, 3_000)]


def test_datagrams_of_another_family_and_other_frames_are_refused() -> None:
    hop = Header(Family.HOP, CLUSTER, DaemonId(0), Incarnation(1), Generation(0))
    daemon = Header(Family.RMP, CLUSTER, DaemonId(4), Incarnation(1), Generation(0))
    rmp = Header(Family.RMP, CLUSTER, DaemonId(0), Incarnation(1), Generation(0))
    frame = Data(0, encode_packet(data(1, 5)))
    for header, frames in ((hop, [frame]), (daemon, [frame]), (rmp, [Ack(1, 1, 1, 0, 0, 0)])):
        (train,) = encode(encode_header(header), frames, 1_400)
        (refused,) = received(Unpacker(9), [train.buffer])

        assert isinstance(refused, PeerError)
        assert refused.reason is Drop.UNKNOWN_TYPE


def test_a_bad_packet_does_not_spoil_the_others_of_its_datagram() -> None:
    good = data(1, 5)
    head = encode_header(Header(Family.RMP, CLUSTER, DaemonId(0), Incarnation(A.nonce), Generation(EPOCH)))
    (train,) = encode(head, [Data(0, b"\x63"), Data(0, encode_packet(good))], 1_400)

    bad, arrived = received(Unpacker(9), [train.buffer])

    assert isinstance(bad, PeerError)
    assert arrived == PacketArrived(good, EPOCH, A)


def test_a_packet_to_be_sent_on_arrives_here_and_reaches_the_group_with_its_origin() -> None:
    sent = data(1, 30_000)
    asked = datagrams(Packer(CLUSTER, A.nonce).pack([UnicastPacket(sent, EPOCH, B, forward=True)]))
    at = Unpacker(B.nonce)

    assert received(at, asked) == [PacketArrived(sent, EPOCH, A)]
    (onward,) = at.onward
    assert onward == PacketOnward(sent, EPOCH, A)
    to_group, to_deaf = Packer(CLUSTER, B.nonce).pack_onward(onward, (C, A))
    assert (to_group.to, to_deaf.to) == (None, C)
    assert received(Unpacker(C.nonce), datagrams([to_group]), B) == [PacketArrived(sent, EPOCH, A)]
    # The group sends it to its origin too, and to who has sent it on.
    assert received(Unpacker(A.nonce), datagrams([to_group]), B) == []
    assert received(Unpacker(B.nonce), datagrams([to_group]), B) == []


def test_packets_that_nobody_sends_on_are_bounded() -> None:
    at, packer = Unpacker(B.nonce), Packer(CLUSTER, A.nonce)
    for seq in range(1, 200):
        received(at, datagrams(packer.pack([UnicastPacket(data(seq, 5), EPOCH, B, forward=True)])))

    assert len(at.onward) == ONWARD_MAX


def test_short_datagrams_name_no_cluster() -> None:
    assert cluster_of(b"HR") == 0


def test_damaged_datagrams_give_packets_or_errors_and_keep_little() -> None:
    dice, tally, at = Random(5), Tally(), Unpacker(9)
    packer = Packer(CLUSTER, A.nonce)
    for _ in range(1_500):
        one = packet(dice, dice.randrange(KINDS))
        if dice.random() < 0.2:
            one = data(dice.randrange(1, 9), 4_000)
        forward = dice.random() < 0.3
        for raw in datagrams(packer.pack([UnicastPacket(one, EPOCH, B, forward)])):
            spoiled = bytearray(raw)
            for _ in range(dice.choice([0, 1, 1, 3])):
                spoiled[dice.randrange(len(spoiled))] = dice.randrange(256)
            with tally.attempt():
                clear = decoded(bytes(spoiled), CLUSTER)
                if not isinstance(clear, Packet):
                    raise clear
                for each in at.unpack(clear, 1, 2):
                    if isinstance(each, PeerError):
                        raise each
    assert at.incomplete <= INCOMPLETE_MAX
    tally.expect(0.4)
