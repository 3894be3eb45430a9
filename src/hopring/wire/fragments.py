"""Fragments: cuts a bundle that is too long for one packet into routed objects, and joins these again.

Below       routed objects in any order; links may repeat or reorder them.
Above       ordering, which wants whole bundles; it drops repetitions of bundles that it has.
Invariants  the stored fragments of one bundle have one size, stamp and mask; every stored bundle is incomplete;
            `held_bytes` counts everything that is stored and is at most `held_bytes_max`.
Limits      are checked before anything is stored. A dropped bundle of the order would leave a gap for ever, so
            the stack fails the network after a PeerError.
"""

from dataclasses import dataclass, field
from typing import Final, final

from hopring.errors import Drop, PeerError
from hopring.ids import SiteId, SiteMask
from hopring.value import Mutable
from hopring.wire.bundle import BUNDLE_BYTES_DEFAULT, BUNDLE_BYTES_MAX
from hopring.wire.control import Control
from hopring.wire.objects import OBJECT_BODY_BYTES_MAX, OBJECT_HEAD_BYTES, VIEW_BYTES_MIN
from hopring.wire.routed import ROUTED_HEAD_BYTES, Meta, Routed

FRAGMENT_OVERHEAD_BYTES: Final = OBJECT_HEAD_BYTES + ROUTED_HEAD_BYTES
FRAGMENTS_MAX: Final = 0xFFFF
FRAGMENT_COST_BYTES: Final = 160
"""The memory for a stored fragment beside its chunk; counted, so that many tiny ones reach the limit too."""

CONTROL_HEAD_BYTES_MAX: Final = 4_096
"""The bytes that a control message adds to a bundle that it carries, at most."""


def fragment_count(bundle_bytes: int, object_bytes_max: int) -> int:
    """The number of objects of at most this size for a bundle."""
    return -(-bundle_bytes // (object_bytes_max - FRAGMENT_OVERHEAD_BYTES))


def fragment(meta: Meta, bundle: bytes, object_bytes_max: int) -> list[Routed]:
    """Cuts a bundle into chunks of one size, except the last; encoded, each is at most this long."""
    chunk_bytes = object_bytes_max - FRAGMENT_OVERHEAD_BYTES
    assert 0 < chunk_bytes <= OBJECT_BODY_BYTES_MAX - ROUTED_HEAD_BYTES, "no objects of this size"
    assert 0 < len(bundle) <= BUNDLE_BYTES_MAX, "no bundle has this size"
    count = fragment_count(len(bundle), object_bytes_max)
    assert count <= FRAGMENTS_MAX, "the objects are too small for this bundle"
    if count == 1:
        return [Routed(meta.source, meta.seq, meta.lts, meta.mask, 0, 1, bundle, meta.prev)]
    view = memoryview(bundle)
    return [
        Routed(
            meta.source,
            meta.seq,
            meta.lts,
            meta.mask,
            index,
            count,
            view[index * chunk_bytes : (index + 1) * chunk_bytes],
            meta.prev,
        )
        for index in range(count)
    ]


def control_fragment(control: Control) -> Routed:
    """A fragment of a control message in the form that `Reassembly` takes."""
    number = control.daemon << 32 | control.serial
    return Routed(control.source, number, 0, SiteMask(0), control.index, control.count, control.chunk)


@final
class _Partial(Mutable):
    """A bundle of which some fragments have arrived."""

    def __init__(
        self,
        meta: Meta,
        count: int,
        chunk_bytes: int = 0,
        chunks: dict[int, bytes | memoryview] | None = None,
        held_bytes: int = 0,
    ) -> None:
        self.meta = meta
        self.count = count
        self.chunk_bytes = chunk_bytes  # Of all fragments but the last; 0 while only the last is here.
        self.chunks = {} if chunks is None else chunks  # By index; never all of them.
        self.held_bytes = held_bytes


@dataclass(slots=True)
class Reassembly:
    """Bundles that have arrived in part, by source and sequence."""

    bundle_bytes_max: int = BUNDLE_BYTES_DEFAULT
    held_bytes_max: int = 64 * 1024 * 1024
    bundles_max: int = 1024
    held_bytes: int = 0
    _partials: dict[tuple[SiteId, int], _Partial] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.bundle_bytes_max <= BUNDLE_BYTES_MAX + CONTROL_HEAD_BYTES_MAX, "nothing is larger than that"

    def raise_limits(self, held_bytes: int, bundles: int) -> None:
        """Raises the limits so that this much may be in transit at once, with the cost of its fragments."""
        # A fragment is hardly ever smaller than its cost, so twice the bytes is enough for both.
        self.held_bytes_max = max(self.held_bytes_max, 2 * held_bytes)
        self.bundles_max = max(self.bundles_max, bundles)

    def __len__(self) -> int:
        return len(self._partials)

    def __contains__(self, key: tuple[SiteId, int]) -> bool:
        return key in self._partials

    def add(self, routed: Routed) -> bytes | memoryview | None:
        """Stores a fragment; returns the bundle if this completes it, and then no longer stores it.

        A bundle of one fragment is returned without a copy.
        """
        key = (routed.source, routed.seq)
        partial = self._partials.get(key)
        if partial is None:
            if routed.count == 1:
                _check_bytes(len(routed.chunk), self.bundle_bytes_max)
                return routed.chunk
            partial = _Partial(routed.meta(), routed.count)
        _check_cut(partial, routed, self.bundle_bytes_max)
        if routed.index in partial.chunks:
            return None
        self._check_limits(routed, is_new=key not in self._partials)
        self._partials[key] = partial
        self._keep(partial, routed)
        if len(partial.chunks) < partial.count:
            return None
        self.forget(routed.source, routed.seq)
        return b"".join([partial.chunks[index] for index in range(partial.count)])

    def forget(self, source: SiteId, seq: int) -> None:
        """Drops the stored fragments of a bundle, if there are any."""
        partial = self._partials.pop((source, seq), None)
        if partial is not None:
            self.held_bytes -= partial.held_bytes

    def _check_limits(self, routed: Routed, is_new: bool) -> None:
        cost_bytes = len(routed.chunk) + FRAGMENT_COST_BYTES
        if self.held_bytes + cost_bytes > self.held_bytes_max:
            raise PeerError(Drop.LIMIT, f"fragments of more than {self.held_bytes_max} bytes")
        if is_new and len(self._partials) >= self.bundles_max:
            raise PeerError(Drop.LIMIT, f"more than {self.bundles_max} unfinished bundles")

    def _keep(self, partial: _Partial, routed: Routed) -> None:
        cost_bytes = len(routed.chunk) + FRAGMENT_COST_BYTES
        chunk = routed.chunk
        partial.chunks[routed.index] = chunk if len(chunk) >= VIEW_BYTES_MIN else bytes(chunk)
        partial.held_bytes += cost_bytes
        self.held_bytes += cost_bytes
        if routed.index < routed.count - 1:
            partial.chunk_bytes = len(routed.chunk)


def _check_cut(partial: _Partial, routed: Routed, bundle_bytes_max: int) -> None:
    """Refuses a fragment that does not fit to the stored ones, or whose bundle is too large."""
    if routed.count != partial.count or routed.meta() != partial.meta:
        raise PeerError(Drop.INCONSISTENT, f"fragments of bundle {routed.seq} do not agree")
    length = len(routed.chunk)
    if routed.index == partial.count - 1:
        chunk_bytes = partial.chunk_bytes or length
        last_bytes = length
    else:
        chunk_bytes = length
        last_bytes = len(partial.chunks.get(partial.count - 1, b"?"))
    if partial.chunk_bytes not in (0, chunk_bytes) or not 0 < last_bytes <= chunk_bytes:
        raise PeerError(Drop.INCONSISTENT, f"fragment {routed.index} of bundle {routed.seq} breaks its cut")
    # While a size is unknown, this is the least that the bundle can have.
    _check_bytes((partial.count - 1) * chunk_bytes + last_bytes, bundle_bytes_max)


def _check_bytes(bundle_bytes: int, bundle_bytes_max: int) -> None:
    if not 0 < bundle_bytes <= bundle_bytes_max:
        raise PeerError(Drop.LIMIT, f"bundle of {bundle_bytes} bytes, the limit is {bundle_bytes_max}")
