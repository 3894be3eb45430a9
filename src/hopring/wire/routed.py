"""Routed objects: a bundle, or a fragment of one, on its way along the tree of its source site.

A branch without a site of the mask gets only the meta-data: site, sequence, Lamport stamp, mask, and the
sequence of the session's previous bundle, for FIFO order. A pruned branch gets meta-data for each bundle, so
these numbers are encoded without leading zero bytes.
"""

from struct import Struct
from typing import Final, final

from hopring.errors import Drop, PeerError
from hopring.ids import SITES_MAX, SiteId, SiteMask
from hopring.value import Value
from hopring.wire.objects import ObjectType, encode_object

# source, seq, lts, mask, prev
_META: Final = Struct("<BQQQQ")
# source, and the lengths of seq, lts, mask and prev in bytes, four bits each
_META_SHORT: Final = Struct("<BH")
_NUMBER_BYTES_MAX: Final = 8
# fragment index, fragment count
_PART: Final = Struct("<HH")
ROUTED_HEAD_BYTES: Final = _META.size + _PART.size


@final
class Meta(Value):
    """The meta-data of a bundle, for sites that do not get its body."""

    def __init__(self, source: SiteId, seq: int, lts: int, mask: SiteMask, prev: int = 0) -> None:
        self.source: Final = source
        self.seq: Final = seq
        self.lts: Final = lts
        self.mask: Final = mask
        # The sequence of its session's previous bundle; 0 if it is the first.
        self.prev: Final = prev


@final
class Routed(Value):
    """Fragment `index` of `count` of bundle `seq` from site `source`."""

    def __init__(
        self,
        source: SiteId,
        seq: int,
        lts: int,
        mask: SiteMask,
        index: int,
        count: int,
        chunk: bytes | memoryview,
        prev: int = 0,
    ) -> None:
        self.source: Final = source
        self.seq: Final = seq
        self.lts: Final = lts
        self.mask: Final = mask
        self.index: Final = index
        self.count: Final = count
        self.chunk: Final = chunk  # If received, a view of its packet.
        self.prev: Final = prev

    def meta(self) -> Meta:
        """The meta-data of its bundle, without the body."""
        return Meta(self.source, self.seq, self.lts, self.mask, self.prev)


def encode_routed(routed: Routed) -> bytes:
    """The fragment as an object."""
    head = _META.pack(routed.source, routed.seq, routed.lts, routed.mask, routed.prev)
    return encode_object(ObjectType.ROUTED, head, _PART.pack(routed.index, routed.count), routed.chunk)


def encode_meta(meta: Meta) -> bytes:
    """The meta-data as an object."""
    numbers = [_short(meta.seq), _short(meta.lts), _short(meta.mask), _short(meta.prev)]
    lengths = sum(len(number) << 4 * at for at, number in enumerate(numbers))
    return encode_object(ObjectType.META, b"".join([_META_SHORT.pack(meta.source, lengths), *numbers]))


def _short(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "little")


def decode_routed(kind: int, body: memoryview) -> Routed | Meta:
    """Decodes the body of a routed object."""
    if kind == ObjectType.META:
        return _decode_meta(body)
    if kind != ObjectType.ROUTED:
        raise PeerError(Drop.UNKNOWN_TYPE, f"object of type {kind}")
    if len(body) < ROUTED_HEAD_BYTES:
        raise PeerError(Drop.TRUNCATED, f"routed object of {len(body)} bytes")
    source, seq, lts, mask, prev = _META.unpack_from(body)
    index, count = _PART.unpack_from(body, _META.size)
    if index >= count:
        raise PeerError(Drop.INCONSISTENT, f"fragment {index} of {count}")
    chunk = body[ROUTED_HEAD_BYTES:]
    return Routed(_site(source), seq, lts, SiteMask(mask), index, count, chunk, prev)


def _decode_meta(body: memoryview) -> Meta:
    if len(body) < _META_SHORT.size:
        raise PeerError(Drop.TRUNCATED, f"meta-data of {len(body)} bytes")
    source, lengths = _META_SHORT.unpack_from(body)
    sizes = [lengths >> 4 * at & 0xF for at in range(4)]
    if max(sizes) > _NUMBER_BYTES_MAX or len(body) != _META_SHORT.size + sum(sizes):
        raise PeerError(Drop.LENGTH, f"numbers of {sizes} bytes in meta-data of {len(body)}")
    numbers: list[int] = []
    at = _META_SHORT.size
    for size in sizes:
        at += size
        if size and not body[at - 1]:
            raise PeerError(Drop.INCONSISTENT, "meta-data with a leading zero")
        numbers.append(int.from_bytes(body[at - size : at], "little"))
    seq, lts, mask, prev = numbers
    return Meta(_site(source), seq, lts, SiteMask(mask), prev)


def _site(source: int) -> SiteId:
    if source >= SITES_MAX:
        raise PeerError(Drop.LIMIT, f"site {source}, the limit is {SITES_MAX}")
    return SiteId(source)
