"""The records of a member of a replicated log on the disk of its host: a spool (spool/writer.py).

Below       a spool of the log's group in the member's directory: checksums, torn tails, one process at a time.
Above       driver.py, which writes in a thread.
Invariants  `write` returns when its records are synced, or raises and keeps none of them.

A snapshot begins a new segment of the spool, and the segments before it are removed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from hopring.blocks.log.errors import NotAMember
from hopring.blocks.log.records import (
    LogImage,
    LogRecord,
    SnapshotRecord,
    decode_record,
    encode_record,
    recovered,
)
from hopring.spool.errors import SpoolDamaged, refusal
from hopring.spool.files import Disk
from hopring.spool.reading import bounds, read
from hopring.spool.record import RecordHeader, RecordKind, run_of
from hopring.spool.retention import Retention, permit, permitted
from hopring.spool.writer import SpoolOptions, SpoolWriter, wall_us

CONSUMER: Final = "log"
SEGMENT_SECONDS: Final = 10.0 * 365 * 24 * 3600
"""Segments end with snapshots and by size; time does not matter."""


class LogStore(Protocol):
    """Where a member keeps its records."""

    image: LogImage

    def write(self, records: Sequence[LogRecord]) -> None:
        """Returns when the records are synced; SpoolError if they are not."""
        ...

    def close(self) -> None:
        """Lets another process open it."""
        ...


class MemoryStore:
    """The records of a follower, which has no vote: what its process has is enough."""

    def __init__(self) -> None:
        self.image = LogImage()

    def write(self, records: Sequence[LogRecord]) -> None:
        """Keeps nothing: the image in memory has it."""

    def close(self) -> None:
        """Has nothing to release here."""


class SpoolStore:
    """The records of a member on disk."""

    def __init__(
        self,
        directory: Path,
        log: str,
        name: str,
        members: tuple[str, ...],
        *,
        disk: Disk | None = None,
        segment_bytes: int | None = None,
    ) -> None:
        """Opens or creates them; SpoolOwned if another process has them, NotAMember if they are another's."""
        retention = Retention(bytes_max=1)  # All but what `permit` keeps.
        size = {} if segment_bytes is None else {"segment_bytes": segment_bytes}
        options = SpoolOptions(segment_seconds=SEGMENT_SECONDS, retention=retention, **size)
        self._header = RecordHeader(RecordKind.MESSAGE, wall_us(), name, (log,))
        self._writer = SpoolWriter(directory, log, options, disk=disk)
        try:
            self.image = self._read()
            check_owner(self.image, log, name, members)
        except BaseException:
            self._writer.close()
            raise

    def _read(self) -> LogImage:
        place = self._writer.directory
        known = bounds(place)
        if known.end > known.start and self._writer.recovery.damage:
            raise SpoolDamaged(place, str(self._writer.recovery.damage), known.start)
        start = max(known.start, permitted(place) or 0)
        if permitted(place) is None:
            self._permit(start)
        return recovered(decode_record(record.data) for record in read(place, start, known.end))

    def _permit(self, offset: int) -> None:
        try:
            permit(self._writer.directory, CONSUMER, offset)
        except OSError as error:
            raise refusal(self._writer.directory, error) from error

    def write(self, records: Sequence[LogRecord]) -> None:
        """Returns when the records are synced; SpoolError if they are not."""
        snapshots = [at for at, one in enumerate(records) if isinstance(one, SnapshotRecord)]
        if snapshots:
            # It has all that precedes it.
            records = records[snapshots[-1] :]
            self._writer.roll()
        start = self._writer.append([run_of(self._header, [encode_record(one) for one in records])]).start
        if snapshots:
            self._permit(start)
            self._writer.tick()

    def close(self) -> None:
        """Lets another process open it."""
        self._writer.close()


def check_owner(image: LogImage, log: str, name: str, members: tuple[str, ...]) -> None:
    """Checks that the records are this member's; NotAMember otherwise."""
    owner = image.owner
    if owner is None:
        return
    if owner.name != name:
        reason = f"the directory is that of member {owner.name!r}, not of {name!r}"
        raise NotAMember(log, reason, "give each member a directory of its own")
    if owner.members != members:
        reason = f"the log on disk has the members {' '.join(owner.members)}, not {' '.join(members)}"
        raise NotAMember(log, reason, "members cannot be changed: give the same ones in the same order")
