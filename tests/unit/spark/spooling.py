"""Spools of numbered messages, for tests of the data source."""

from collections.abc import Sequence
from pathlib import Path

from hopring.ids import DaemonId, Incarnation, Place, ViewId
from hopring.services import Service
from hopring.spool.record import RecordHeader, RecordKind, RecordRun, run_of
from hopring.spool.writer import SpoolOptions, SpoolWriter

VIEW = ViewId(3, DaemonId(1), Incarnation(2**63 + 5))
APPEND = 10


def numbered(first: int, count: int, group: str = "g") -> list[RecordRun]:
    """Messages whose bodies are their numbers; received in order, one per second."""
    header = RecordHeader(
        RecordKind.MESSAGE,
        first * 1_000_000,
        "#anna#eu1",
        (group, "other"),
        Service.SAFE,
        Place(VIEW, first, 4),
    )
    return [run_of(header, [b"%08d" % (first + at) for at in range(count)], [at % 7 for at in range(count)])]


def fill(root: Path, group: str, count: int, *, segment_bytes: int = 1000, shift: int = 0) -> Path:
    """Appends messages, ten at a time, in small segments; the clock shows their times.

    The number of a message is its offset, shifted.
    """
    now = [0]
    with SpoolWriter(root, group, SpoolOptions(1000.0, segment_bytes), clock=lambda: now[0]) as writer:
        end = writer.end + count
        while writer.end < end:
            now[0] = writer.end * 1_000_000
            writer.append(numbered(writer.end + shift, min(APPEND, end - writer.end), group))
    return writer.directory


def remove(directory: Path, bases: Sequence[int]) -> None:
    """Removes segments, as retention does."""
    for base in bases:
        for suffix in (".log", ".idx"):
            (directory / f"{base:020}{suffix}").unlink()
