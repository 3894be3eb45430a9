"""Identifiers of RMP: processes, ballots, which also name epochs, and the tuples that name Data packets."""

from hashlib import blake2b
from typing import Final, NamedTuple

from hopring.errors import Drop, PeerError
from hopring.ids import NUMBER_MAX, Generation
from hopring.wire.fields import Reader, u8, u16, u32, u64

VERSION_MAX: Final = 2**48
"""The highest version of a list; a ballot above it is refused, so that no forged one uses all of them up."""

SEQ_MAX: Final = NUMBER_MAX
TIMESTAMP_MAX: Final = NUMBER_MAX


class PeerProcess(NamedTuple):
    """One life of a process of RMP: where it receives unicasts, and its nonce (trap 20)."""

    address: int  # IPv4.
    port: int
    nonce: int

    def __str__(self) -> str:
        parts = [str(self.address >> shift & 255) for shift in (24, 16, 8, 0)]
        return f"{'.'.join(parts)}:{self.port}"


class ListMembership(NamedTuple):
    """One membership of a process: who left and came back is another member (trap 2)."""

    process: PeerProcess
    joined: int  # The number of the request by which it joined.


class Ballot(NamedTuple):
    """The number of one attempt to make a list; compared from left to right, so there are no ties (trap 12).

    The ballot by which a list was founded or recovered names the epoch that begins with it (trap 11).
    """

    version: int
    process: PeerProcess

    @property
    def generation(self) -> Generation:
        """The epoch as packet headers have it."""
        return Generation(int.from_bytes(blake2b(encode_ballot(self), digest_size=8).digest(), "little"))


class DataId(NamedTuple):
    """The tuple that identifies a Data packet: its source and its number there."""

    source: PeerProcess
    seq: int


NOBODY_PROCESS: Final = PeerProcess(0, 0, 0)
NO_BALLOT: Final = Ballot(0, NOBODY_PROCESS)
"""Below all ballots: the epoch of a process that is in no list."""


def encode_process(process: PeerProcess) -> bytes:
    """A process in 14 bytes."""
    return u32(process.address) + u16(process.port) + u64(process.nonce)


def read_process(reader: Reader) -> PeerProcess:
    """Reads a process of 14 bytes."""
    return PeerProcess(reader.u32(), reader.u16(), reader.nonce())


def encode_ballot(ballot: Ballot) -> bytes:
    """A ballot in 22 bytes."""
    return u64(ballot.version) + encode_process(ballot.process)


def read_ballot(reader: Reader) -> Ballot:
    """Reads a ballot of 22 bytes."""
    return Ballot(reader.number(VERSION_MAX), read_process(reader))


def encode_data_id(one: DataId) -> bytes:
    """The tuple of a Data packet in 22 bytes."""
    return encode_process(one.source) + u64(one.seq)


def read_data_id(reader: Reader) -> DataId:
    """Reads the tuple of a Data packet, whose number is at least 1."""
    source, seq = read_process(reader), reader.number(SEQ_MAX)
    if not seq:
        raise PeerError(Drop.INCONSISTENT, "Data packets are numbered from 1")
    return DataId(source, seq)


def encode_optional_process(process: PeerProcess | None) -> bytes:
    """Encodes a process, or nobody."""
    return u8(0) if process is None else u8(1) + encode_process(process)


def read_optional_process(reader: Reader) -> PeerProcess | None:
    """Reads a process, or nobody."""
    return read_process(reader) if reader.flag() else None
