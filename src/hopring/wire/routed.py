"""Routed objects: a bundle, or a fragment of one, on its way along the tree of its source site.

Where a branch holds no site of the mask, only the meta-data travels: site, sequence, Lamport stamp and mask.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.ids import SITES_MAX, SiteId, SiteMask
from hopring.wire.objects import ObjectType, encode_object

# source, seq, lts, mask
_META: Final = Struct("<BQQQ")
# fragment index, fragment count
_PART: Final = Struct("<HH")
ROUTED_HEAD_BYTES: Final = _META.size + _PART.size


@dataclass(frozen=True, slots=True)
class Meta:
    """What a site learns of a bundle that is not for it."""

    source: SiteId
    seq: int
    lts: int
    mask: SiteMask


@dataclass(frozen=True, slots=True)
class Routed:
    """Fragment `index` of `count` of bundle `seq` from site `source`."""

    source: SiteId
    seq: int
    lts: int
    mask: SiteMask
    index: int
    count: int
    chunk: bytes

    def meta(self) -> Meta:
        """The same without its body."""
        return Meta(self.source, self.seq, self.lts, self.mask)


def encode_routed(routed: Routed) -> bytes:
    """The fragment as an object."""
    head = _META.pack(routed.source, routed.seq, routed.lts, routed.mask) + _PART.pack(
        routed.index, routed.count
    )
    return encode_object(ObjectType.ROUTED, head + routed.chunk)


def encode_meta(meta: Meta) -> bytes:
    """The meta-data as an object."""
    return encode_object(ObjectType.META, _META.pack(meta.source, meta.seq, meta.lts, meta.mask))


def decode_routed(kind: int, body: memoryview) -> Routed | Meta:
    """A routed object's body."""
    if kind == ObjectType.META:
        return _decode_meta(body)
    if kind != ObjectType.ROUTED:
        raise PeerError(Drop.UNKNOWN_TYPE, f"object of type {kind}")
    if len(body) < ROUTED_HEAD_BYTES:
        raise PeerError(Drop.TRUNCATED, f"routed object of {len(body)} bytes")
    meta = _decode_meta(body[: _META.size])
    index, count = _PART.unpack_from(body, _META.size)
    if index >= count:
        raise PeerError(Drop.INCONSISTENT, f"fragment {index} of {count}")
    chunk = bytes(body[ROUTED_HEAD_BYTES:])
    return Routed(meta.source, meta.seq, meta.lts, meta.mask, index, count, chunk)


def _decode_meta(body: memoryview) -> Meta:
    if len(body) != _META.size:
        raise PeerError(Drop.LENGTH, f"meta-data of {len(body)} bytes, not {_META.size}")
    source, seq, lts, mask = _META.unpack(body)
    if source >= SITES_MAX:
        raise PeerError(Drop.LIMIT, f"site {source}, the limit is {SITES_MAX}")
    return Meta(SiteId(source), seq, lts, SiteMask(mask))
