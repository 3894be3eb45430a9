"""Encodes and decodes the twelve packets; every count, number and name is checked before it is used."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from hopring.errors import Drop, PeerError
from hopring.ids import NUMBER_MAX
from hopring.services import SERVICES, Service
from hopring.wire.fields import MEMBER_NAME_BYTES_MAX, Reader, text, u8, u16, u64
from hopring.wire.rmp.ids import (
    SEQ_MAX,
    TIMESTAMP_MAX,
    VERSION_MAX,
    DataId,
    PeerProcess,
    encode_ballot,
    encode_data_id,
    encode_optional_process,
    encode_process,
    read_ballot,
    read_data_id,
    read_optional_process,
    read_process,
)
from hopring.wire.rmp.lists import (
    MEMBERS_MAX,
    REQUESTS_MAX,
    encode_bare_list,
    encode_list,
    encode_list_id,
    read_bare_list,
    read_list,
    read_list_id,
)
from hopring.wire.rmp.locks import FENCE_MAX, SERIALS_MAX
from hopring.wire.rmp.packets import (
    BODY_BYTES_MAX,
    EARLY_MAX,
    HOLES_MAX,
    TUPLES_MAX,
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
    PacketType,
    RecoveryAbort,
    RecoveryAckNewList,
    RecoveryStart,
    RecoveryVote,
    RmpPacket,
    SyncPoint,
)

ACKNOWLEDGED_MAX: Final = 8
"""The most acknowledged lists in a vote; a voter that would have more keeps the latest."""

SOURCES_MAX: Final = 2 * MEMBERS_MAX
"""The most sources in a sync point: members, and those that have left."""

DATA_KEY_BYTES: Final = 24
"""The type, tuple and service at the start of a Data packet: packets with equal ones are the same packet."""

PACKET_ENCODED_BYTES_MAX: Final = 61_000
"""The longest encoded packet. Limits of bodies, lists and sync points keep all packets below it."""


def encode_packet(packet: RmpPacket) -> bytes:
    """A packet as bytes, its type first."""
    kind, encoder = _ENCODERS[type(packet)]
    return u8(kind) + encoder(packet)


def decode_packet(raw: bytes) -> RmpPacket:
    """The packet; raises PeerError if it is malformed or above a limit."""
    reader = Reader(raw)
    kind = reader.u8()
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise PeerError(Drop.UNKNOWN_TYPE, f"RMP packet of type {kind}")
    packet = decoder(reader)
    reader.end()
    return packet


@dataclass(frozen=True, slots=True)
class ForwardedPacket:
    """A packet in an envelope: sent on for another process, or to be sent on by its receiver."""

    origin: PeerProcess | None  # None: the receiver sends it on for whoever sent the datagram.
    packet: RmpPacket


FORWARDED: Final = 13
"""The first byte of an envelope, behind the types of packets."""


def encode_forwarded(one: ForwardedPacket) -> bytes:
    """A packet in its envelope."""
    return u8(FORWARDED) + encode_optional_process(one.origin) + encode_packet(one.packet)


def decode_payload(raw: bytes) -> RmpPacket | ForwardedPacket:
    """A packet, or one in an envelope; there are no envelopes in envelopes."""
    if raw[:1] != u8(FORWARDED):
        return decode_packet(raw)
    reader = Reader(raw[1:])
    origin = read_optional_process(reader)
    return ForwardedPacket(origin, decode_packet(reader.rest(PACKET_ENCODED_BYTES_MAX)))


_One = TypeVar("_One")


def _all(reader: Reader, read: Callable[[Reader], _One], most: int) -> tuple[_One, ...]:
    return tuple([read(reader) for _ in range(reader.count(most))])


def _timestamp(reader: Reader) -> int:
    return reader.number(TIMESTAMP_MAX)


def _service(reader: Reader) -> Service:
    number = reader.u8()
    service = SERVICES.get(number)
    if service is None:
        raise PeerError(Drop.UNKNOWN_TYPE, f"service {number}")
    return service


def _ids(ids: tuple[DataId, ...]) -> bytes:
    return b"".join([u16(len(ids)), *[encode_data_id(one) for one in ids]])


def _data(packet: DataPacket) -> bytes:
    assert len(packet.body) <= BODY_BYTES_MAX, "a body has a limit"
    head = u8(packet.service) + u8(packet.resilience) + u8(packet.handler)
    return encode_data_id(packet.id) + head + packet.body


def _read_data(reader: Reader) -> DataPacket:
    data_id, service = read_data_id(reader), _service(reader)
    resilience, handler = reader.u8(), reader.u8()
    if resilience and not service.may_be_resilient:
        raise PeerError(Drop.INCONSISTENT, f"{service.name} with resilience {resilience}")
    return DataPacket(data_id, service, resilience, handler, reader.rest(BODY_BYTES_MAX))


def _ack(packet: AckPacket) -> bytes:
    assert len(packet.ordered) <= TUPLES_MAX, "an ACK has a limit"
    head = encode_process(packet.source) + u64(packet.timestamp) + encode_process(packet.next)
    return head + _ids(packet.ordered)


def _read_ack(reader: Reader) -> AckPacket:
    source, timestamp, following = read_process(reader), _timestamp(reader), read_process(reader)
    ordered = _all(reader, read_data_id, TUPLES_MAX)
    if len(set(ordered)) != len(ordered):
        raise PeerError(Drop.INCONSISTENT, "an ACK orders a packet twice")
    return AckPacket(source, timestamp, following, ordered)


def _confirm(packet: ConfirmPacket) -> bytes:
    return encode_process(packet.source) + u64(packet.timestamp) + u64(packet.consecutive)


def _read_confirm(reader: Reader) -> ConfirmPacket:
    return ConfirmPacket(read_process(reader), _timestamp(reader), _timestamp(reader))


def _nack(packet: NackPacket) -> bytes:
    assert 0 < len(packet.timestamps) + len(packet.tuples) <= HOLES_MAX, "a NACK has a limit"
    head = encode_process(packet.source) + u8(packet.retry) + encode_optional_process(packet.answers)
    timestamps = [u16(len(packet.timestamps)), *[u64(one) for one in packet.timestamps]]
    return b"".join([head, *timestamps, _ids(packet.tuples)])


def _read_nack(reader: Reader) -> NackPacket:
    source, retry, answers = read_process(reader), reader.u8(), read_optional_process(reader)
    timestamps = _all(reader, _timestamp, HOLES_MAX)
    tuples = _all(reader, read_data_id, HOLES_MAX)
    if not 0 < len(timestamps) + len(tuples) <= HOLES_MAX:
        raise PeerError(Drop.LIMIT, f"NACK for {len(timestamps) + len(tuples)} packets")
    return NackPacket(source, retry, answers, timestamps, tuples)


def _sync(sync: SyncPoint) -> bytes:
    assert len(sync.early) <= EARLY_MAX, "a sync point has a limit"
    seqs = [encode_process(one.source) + u64(one.seq) for one in sync.seqs]
    return b"".join([u64(sync.timestamp), u16(len(seqs)), *seqs, _ids(sync.early)])


def _read_reached(reader: Reader) -> DataId:
    return DataId(read_process(reader), reader.number(SEQ_MAX))


def _read_sync(reader: Reader) -> SyncPoint:
    timestamp = _timestamp(reader)
    seqs = _all(reader, _read_reached, SOURCES_MAX)
    if len({one.source for one in seqs}) != len(seqs):
        raise PeerError(Drop.INCONSISTENT, "a sync point names a source twice")
    return SyncPoint(timestamp, seqs, _all(reader, read_data_id, EARLY_MAX))


def _new_list(packet: NewListPacket) -> bytes:
    head = u8(packet.kind) + encode_process(packet.source) + encode_process(packet.next)
    return head + encode_list(packet.list) + _sync(packet.sync) + u64(packet.settled)


def _read_new_list(reader: Reader) -> NewListPacket:
    kind = reader.u8()
    if kind not in {int(one) for one in NewListKind}:
        raise PeerError(Drop.UNKNOWN_TYPE, f"New List of kind {kind}")
    source, following, members = read_process(reader), read_process(reader), read_list(reader)
    return NewListPacket(NewListKind(kind), source, following, members, _read_sync(reader), _timestamp(reader))


def _request(packet: ListChangeRequest) -> bytes:
    head = encode_process(packet.source) + u8(packet.change) + u64(packet.number)
    joins = u8(packet.minimum) + u8(packet.ttl) + u8(packet.capable) + u64(packet.seq) + u64(packet.fence)
    claims = text(packet.lock) + u64(packet.serial) + u8(packet.partial)
    return head + joins + text(packet.group) + text(packet.name) + claims


def _read_request(reader: Reader) -> ListChangeRequest:
    source, change, number = read_process(reader), reader.u8(), reader.number(REQUESTS_MAX)
    if change not in {int(one) for one in ListChange}:
        raise PeerError(Drop.UNKNOWN_TYPE, f"list change {change}")
    minimum, ttl, capable = reader.u8(), reader.u8(), reader.flag()
    seq, fence = reader.number(SEQ_MAX), reader.number(FENCE_MAX)
    group, name, lock = reader.text(), reader.text(MEMBER_NAME_BYTES_MAX), reader.text()
    serial, partial = reader.number(SERIALS_MAX), reader.flag()
    if not minimum:
        raise PeerError(Drop.INCONSISTENT, "a request with a minimum of 0")
    if (change == ListChange.LOCK) != bool(lock) or "\0" in lock:
        raise PeerError(Drop.INCONSISTENT, f"list change {change} of the lock {lock!r}")
    joins = minimum, ttl, capable, seq, name, fence
    return ListChangeRequest(source, ListChange(change), number, group, *joins, lock, serial, partial)


def _start(packet: RecoveryStart) -> bytes:
    return encode_ballot(packet.ballot) + _sync(packet.sync)


def _read_start(reader: Reader) -> RecoveryStart:
    return RecoveryStart(read_ballot(reader), _read_sync(reader))


def _vote(packet: RecoveryVote) -> bytes:
    assert len(packet.acknowledged) <= ACKNOWLEDGED_MAX, "a vote has a limit"
    head = encode_ballot(packet.ballot) + encode_process(packet.source) + u64(packet.first)
    rest = u64(packet.settled) + u64(packet.version) + u16(len(packet.acknowledged))
    return b"".join([head, _sync(packet.sync), rest, *[encode_bare_list(one) for one in packet.acknowledged]])


def _read_vote(reader: Reader) -> RecoveryVote:
    ballot, source, first = read_ballot(reader), read_process(reader), _timestamp(reader)
    sync, settled, version = _read_sync(reader), _timestamp(reader), reader.number(VERSION_MAX)
    return RecoveryVote(
        ballot, source, first, sync, settled, version, _all(reader, read_bare_list, ACKNOWLEDGED_MAX)
    )


def _ack_new_list(packet: RecoveryAckNewList) -> bytes:
    return encode_ballot(packet.ballot) + encode_process(packet.source)


def _read_ack_new_list(reader: Reader) -> RecoveryAckNewList:
    return RecoveryAckNewList(read_ballot(reader), read_process(reader))


def _abort(packet: RecoveryAbort) -> bytes:
    head = encode_ballot(packet.ballot) + encode_process(packet.source)
    return head + u8(packet.reason) + u64(packet.version)


def _read_abort(reader: Reader) -> RecoveryAbort:
    ballot, source, reason = read_ballot(reader), read_process(reader), reader.u8()
    if reason not in {int(one) for one in AbortReason}:
        raise PeerError(Drop.UNKNOWN_TYPE, f"Abort for reason {reason}")
    return RecoveryAbort(ballot, source, AbortReason(reason), reader.number(VERSION_MAX))


def _non_member_data(packet: NonMemberData) -> bytes:
    head = encode_data_id(packet.id) + u8(packet.service) + u8(packet.resilience) + u8(packet.handler)
    flags = u8(packet.acknowledge) + u8(packet.repeat_reply) + u8(packet.first)
    listed = u8(0) if packet.list is None else u8(1) + encode_list_id(packet.list)
    return head + flags + text(packet.group) + listed + packet.body


def _read_non_member_data(reader: Reader) -> NonMemberData:
    data_id, service = read_data_id(reader), _service(reader)
    resilience, handler = reader.u8(), reader.u8()
    flags = reader.flag(), reader.flag(), reader.flag()
    group = reader.text()
    listed = read_list_id(reader) if reader.flag() else None
    body = reader.rest(BODY_BYTES_MAX)
    return NonMemberData(data_id, service, resilience, handler, group, listed, *flags, body)


def _non_member_ack(packet: NonMemberAck) -> bytes:
    head = encode_process(packet.source) + encode_process(packet.client) + encode_list_id(packet.list)
    return head + u64(packet.seq) + u64(packet.timestamp) + u8(packet.reply) + packet.body


def _read_non_member_ack(reader: Reader) -> NonMemberAck:
    source, client, listed = read_process(reader), read_process(reader), read_list_id(reader)
    seq, timestamp, reply = reader.number(NUMBER_MAX), _timestamp(reader), reader.flag()
    return NonMemberAck(source, client, listed, seq, timestamp, reply, reader.rest(BODY_BYTES_MAX))


_DECODERS: Final[dict[int, Callable[[Reader], RmpPacket]]] = {
    PacketType.DATA: _read_data,
    PacketType.ACK: _read_ack,
    PacketType.CONFIRM: _read_confirm,
    PacketType.NACK: _read_nack,
    PacketType.NEW_LIST: _read_new_list,
    PacketType.LIST_CHANGE_REQUEST: _read_request,
    PacketType.RECOVERY_START: _read_start,
    PacketType.RECOVERY_VOTE: _read_vote,
    PacketType.RECOVERY_ACK_NEW_LIST: _read_ack_new_list,
    PacketType.RECOVERY_ABORT: _read_abort,
    PacketType.NON_MEMBER_DATA: _read_non_member_data,
    PacketType.NON_MEMBER_ACK: _read_non_member_ack,
}
_ENCODERS: Final[dict[type, tuple[PacketType, Callable[..., bytes]]]] = {
    DataPacket: (PacketType.DATA, _data),
    AckPacket: (PacketType.ACK, _ack),
    ConfirmPacket: (PacketType.CONFIRM, _confirm),
    NackPacket: (PacketType.NACK, _nack),
    NewListPacket: (PacketType.NEW_LIST, _new_list),
    ListChangeRequest: (PacketType.LIST_CHANGE_REQUEST, _request),
    RecoveryStart: (PacketType.RECOVERY_START, _start),
    RecoveryVote: (PacketType.RECOVERY_VOTE, _vote),
    RecoveryAckNewList: (PacketType.RECOVERY_ACK_NEW_LIST, _ack_new_list),
    RecoveryAbort: (PacketType.RECOVERY_ABORT, _abort),
    NonMemberData: (PacketType.NON_MEMBER_DATA, _non_member_data),
    NonMemberAck: (PacketType.NON_MEMBER_ACK, _non_member_ack),
}
