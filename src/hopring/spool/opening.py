"""Opening a spool for its writer: a new one, or what the last writer left."""

import os
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hopring.spool.disk import Disk
from hopring.spool.errors import NotASpool
from hopring.spool.heads import SPOOL_ID_BYTES, SegmentHead
from hopring.spool.layout import bases
from hopring.spool.recovery import Recovery, open_last, sweep
from hopring.spool.segment import OpenSegment, create_segment


class Opened(NamedTuple):
    """A spool that can be appended to."""

    segment: OpenSegment
    end: int
    apps: dict[str, int]  # The last batch of each application.
    report: Recovery


def open_spool(directory: Path, group: str, disk: Disk, now_us: int) -> Opened:
    """The spool of a group, whose lock is held; OSError if the disk refuses, SpoolError if it is spoiled."""
    removed = sweep(directory, disk)
    if not bases(directory):
        head = SegmentHead(0, now_us, os.urandom(SPOOL_ID_BYTES), group, {})
        return Opened(create_segment(directory, head, disk), 0, {}, Recovery(removed=removed))
    last = open_last(directory, disk)
    segment = last.segment
    try:
        if segment.head.group != group:
            held = f"the spool of {segment.head.group!r}"
            raise NotASpool(directory, held, "each group has a directory of its own")
        if last.seal:
            head = SegmentHead(last.end, now_us, segment.head.spool_id, group, last.apps)
            segment = create_segment(directory, head, disk)
    except BaseException:
        last.segment.close()
        raise
    if segment is not last.segment:
        last.segment.close()
    return Opened(segment, last.end, last.apps, replace(last.report, removed=removed))
