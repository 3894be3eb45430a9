"""The part of spools that Spark reads itself: files of the archive, from the oldest record on. No pyspark.

Spark reads Parquet faster than any source in Python. A segment that is not archived ends that part of its
spool; the data source reads the rest.
"""

from pathlib import Path

import msgspec

from hopring.spark.source.inventory import all_spools, archived_facts, earliest_of, id_of, parts_of
from hopring.spool.files import archive_path


class NativePart(msgspec.Struct, frozen=True):
    """Files of the archives of some spools, and the first offset behind them by group."""

    files: tuple[Path, ...]
    ends: dict[str, int]


def native_part(root: Path) -> NativePart:
    """The files of the archives below a root that have all records of their spools up to an offset."""
    files: list[Path] = []
    ends: dict[str, int] = {}
    for group, directory in all_spools(root).items():
        ends[group] = earliest_of(directory)
        own = id_of(directory)
        for part in parts_of(directory, ends[group]):
            if not part.archived or archived_facts(directory, part.base).spool not in ("", own):
                break
            files.append(archive_path(directory, part.base))
            ends[group] = part.end
    return NativePart(tuple(files), ends)
