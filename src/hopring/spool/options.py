"""How a spool is written: when it is synced, how long its segments are, and what is removed again."""

from dataclasses import dataclass
from typing import Final

SEGMENT_BYTES_DEFAULT: Final = 64 * 1024 * 1024
SEGMENT_SECONDS_DEFAULT: Final = 3600.0
SYNC_SECONDS_DEFAULT: Final = 1.0


@dataclass(frozen=True, slots=True)
class Retention:
    """What may be removed: whole segments, the oldest first, that no consumer still wants.

    Without a limit nothing is removed. A segment goes when either limit says so.
    """

    bytes_max: int | None = None  # Of all segments.
    seconds_max: float | None = None  # Since the last record of a segment.
    archived_only: bool = False  # Whether a segment stays until it is in the archive.


@dataclass(frozen=True, slots=True)
class SpoolOptions:
    """What the writer of a spool is told."""

    sync_seconds: float = 0.0
    """0: every append is safe when it returns. Otherwise it is safe, and seen by readers, so much later."""

    segment_bytes: int = SEGMENT_BYTES_DEFAULT
    segment_seconds: float = SEGMENT_SECONDS_DEFAULT
    retention: Retention = Retention()

    def __post_init__(self) -> None:
        """ValueError says what is wrong."""
        if self.sync_seconds < 0 or self.segment_bytes < 1 or self.segment_seconds <= 0:
            raise ValueError(f"a spool with {self}: sizes and times are positive")
