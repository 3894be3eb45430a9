"""Merging: bundles of one session that wait one behind the other go into the order as one.

A client that writes each message by itself makes a bundle of each. What of them meets here, because it came in
one read or had to wait, shares a place in the order, and costs every daemon no more than one bundle.
"""

from dataclasses import dataclass
from typing import Final

from hopring.groups.events import Send
from hopring.wire.builder import BundleBuilder
from hopring.wire.bundle import COLUMNS_BYTES, MESSAGE_BYTES_MAX, MESSAGES_MAX, Bundle, Run, decode_bundle

MERGED_BYTES_MAX: Final = 16 * 1024
"""From here on the order costs little beside the bytes; what has more than half of it is not worth merging."""


@dataclass(slots=True)
class Merger:
    """A bundle, and what is behind it as far as it may go with it."""

    first: Send
    _builder: BundleBuilder | None = None

    def add(self, send: Send) -> bool:
        """Takes the next one in, if it may go with the others."""
        builder = self._builder
        if builder is None:
            if not (_may_merge(self.first) and _may_merge(send)):
                return False
            builder = BundleBuilder(self.first.run, MESSAGE_BYTES_MAX, MERGED_BYTES_MAX)
            if not _fits(builder, send.run, len(send.bundle), 1):
                return False
            self._builder = builder
            _append(builder, decode_bundle(self.first.bundle))
        elif not _may_merge(send):
            return False
        bundle = decode_bundle(send.bundle)
        if not _fits(builder, bundle.run, len(bundle.bodies), len(bundle)):
            return False
        _append(builder, bundle)
        return True

    def send(self) -> Send:
        """All that was taken in."""
        first = self.first
        if self._builder is None:
            return first
        return Send(first.session, first.run, b"".join(self._builder.seal().parts))


def _may_merge(send: Send) -> bool:
    run = send.run
    special = run.mixed or run.mark is not None or run.channel or run.service.loose
    spread = run.spread_bits or run.spread_groups
    return not special and not spread and len(send.bundle) <= MERGED_BYTES_MAX // 2


def _fits(builder: BundleBuilder, run: Run, size_bytes: int, messages: int) -> bool:
    if len(builder) + messages > MESSAGES_MAX or builder.run.big_endian is not run.big_endian:
        return False
    more_bytes = size_bytes + COLUMNS_BYTES * (messages - 1)
    return builder.takes(run.groups, run.service, run.self_discard) and builder.has_room(more_bytes)


def _append(builder: BundleBuilder, bundle: Bundle) -> None:
    groups = bundle.run.groups
    for body, kind, hints in zip(bundle.messages(), bundle.types.tolist(), bundle.hints.tolist(), strict=True):
        builder.append(body, kind, hints, groups)
