"""The input and the output directory of a pipeline run, checked before anything is started. No pyspark.

Invariant   a table of the output is complete or absent: it is written elsewhere and renamed. So a failed run
            leaves the tables of the run before. Where the file system can swap two names, a table that is
            replaced is never absent.
"""

import errno
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from hopring.config import Config
from hopring.spark.audit.reading import Ends
from hopring.spark.audit.size import Engine
from hopring.spark.errors import ForeignInput, SparkError
from hopring.spark.pipeline import swapping
from hopring.spark.pipeline.alerts import BOOK, AlertTarget
from hopring.spark.pipeline.files import LocalFiles, OutputFiles, is_elsewhere
from hopring.spark.pipeline.upkeep import UpkeepLimits
from hopring.spark.schema import LAYERS
from hopring.spark.source.inventory import all_spools

LATE_SECONDS: Final = 600.0
"""Rows of a stream that are older than its newest row by this are late."""

REFRESH_SECONDS: Final = 60.0
"""The interval in which a stream makes tables of the whole time, audits closed views and renews the report."""

BATCH_RECORDS_MAX: Final = 200_000
"""Records of one spool that a stream reads at once, so that memory does not grow with a backlog."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class SpoolRoot(msgspec.Struct, frozen=True):
    """The spools of one spooler: a name, and a root with a directory for each group."""

    name: str
    path: str


class PipelineOptions(msgspec.Struct, frozen=True):
    """Options of a run; it needs spools, a trace, or both."""

    out: Path | str
    spools: tuple[SpoolRoot, ...] = ()
    trace: Path | None = None
    sites: Mapping[str, str] = {}  # By daemon; the default is a daemon's name without its digits.
    ends: Ends = Ends()
    stream: bool = False
    until_idle: bool = False  # A stream ends when it has read the records that existed at its start.
    report: bool = True
    engine: Engine = "auto"  # Of the audit.
    alert: AlertTarget | None = None
    upkeep: UpkeepLimits = UpkeepLimits()  # Of the records that a stream writes.
    form: str = "parquet"  # The format of the tables.
    catalog: str | None = None  # Where they are registered: `CATALOG` or `CATALOG.PREFIX`.
    metrics: str | None = None  # Where the counters are served: `[ADDRESS:]PORT`.
    late_seconds: float = LATE_SECONDS
    refresh_seconds: float = REFRESH_SECONDS
    batch_records_max: int = BATCH_RECORDS_MAX


def named_spools(arguments: Iterable[str]) -> tuple[SpoolRoot, ...]:
    """Spools from arguments `DIR` or `NAME=DIR`; ForeignInput if one has no spools, or two share a name."""
    found: dict[str, SpoolRoot] = {}
    for argument in arguments:
        spool = _named(argument)
        if spool.name in found:
            raise ForeignInput(
                f"two spools have the name {spool.name}: {found[spool.name].path} and {spool.path}",
                "name them: --spool NAME=DIR",
            )
        found[spool.name] = spool
    return tuple(found.values())


def _named(argument: str) -> SpoolRoot:
    name, equals, path = argument.partition("=")
    if not equals or Path(argument).is_dir():
        name, path = Path(argument).resolve().name, argument
    if not _NAME.fullmatch(name):
        raise ForeignInput(f"{name!r} cannot be the name of a spool", "name it: --spool NAME=DIR")
    if not Path(path).is_dir():
        raise ForeignInput(f"{path}: no such directory", "give the directory that hop spool run writes to")
    if not all_spools(Path(path)):
        raise ForeignInput(f"{path}: has no spool", "give the directory that hop spool run writes to")
    return SpoolRoot(name, str(Path(path).resolve()))


def sites_of(config: Config) -> dict[str, str]:
    """The site of each daemon, by name."""
    return {daemon.name: site.name for site in config.sites for daemon in site.daemons}


MARK: Final = ".hopring-pipeline"
AUDIT: Final = "audit.json"
REPORT: Final = "report.html"
STREAM: Final = "stream.json"
CHECKPOINTS: Final = "checkpoints"
METRICS: Final = "metrics.prom"
CATALOG: Final = "catalog"
"""The directory for schemas of a catalog, which Spark wants to have one; their tables are elsewhere."""

NEW: Final = ".new"
"""The directory of incomplete tables and files."""

_OURS: Final = frozenset({MARK, AUDIT, REPORT, STREAM, CHECKPOINTS, METRICS, BOOK, CATALOG, NEW, *LAYERS})


class Store:
    """The directory of a run. Methods raise OSError if the disk fails; `on_disk` makes one line of it."""

    def __init__(self, out: Path | OutputFiles) -> None:
        """`out` is a local directory, or one elsewhere by `output_files`."""
        self.files = out if isinstance(out, OutputFiles) else LocalFiles(out)

    @property
    def shown(self) -> str:
        """The directory as messages to the user name it."""
        return self.files.shown

    @property
    def is_local(self) -> bool:
        """Whether it is a directory of this machine."""
        return isinstance(self.files, LocalFiles)

    @property
    def out(self) -> Path:
        """The directory of this machine; ForeignInput if it is elsewhere."""
        if not isinstance(self.files, LocalFiles):
            raise ForeignInput(f"{self.shown}: not a local directory", "give a local one for a stream")
        return self.files.root

    @property
    def checkpoints(self) -> Path:
        """Where streams keep their state."""
        return self.out / CHECKPOINTS

    def open(self) -> bool:
        """Prepares the directory; returns whether it has an earlier run. ForeignInput if it has other files."""
        files = self.files
        if self.is_local and is_elsewhere(self.shown):
            raise ForeignInput(
                f"{self.shown}: not a local directory", "give one that all workers can reach as well"
            )
        if files.is_there("") and not files.is_directory(""):
            raise ForeignInput(f"{self.shown}: not a directory", "give another for --out")
        there = set(files.names_in(""))
        strangers = sorted(there - _OURS) if MARK in there else sorted(there)
        if strangers:
            raise ForeignInput(
                f"{self.shown}: contains {strangers[0]}, which is not from a run of the pipeline",
                "give an empty directory, or that of an earlier run, for --out",
            )
        files.make_directory("")
        files.write(MARK, b"")
        swapping.recover(files, NEW)
        files.remove(NEW)
        return MARK in there

    @property
    def workshop(self) -> Path:
        """A local directory for incomplete tables and files; leftovers of a killed run are ignored."""
        place = self.out / NEW
        place.mkdir(exist_ok=True)
        return place

    def place(self, layer: str, table: str) -> Path:
        """The local directory of a table."""
        return self.out / table_place(layer, table)

    def uri(self, layer: str, table: str) -> str:
        """The URI of a table."""
        return self.files.uri(table_place(layer, table))

    def has(self, layer: str, table: str) -> bool:
        """Whether the table is there."""
        return self.files.is_there(table_place(layer, table))

    @contextmanager
    def making(self, layer: str, table: str) -> Iterator[str]:
        """The name of a directory to write a table to, which replaces the table if the block does not fail."""
        new = f"{NEW}/{layer}-{table}"
        self.files.make_directory(NEW)
        self.files.remove(new)
        yield new
        if not self.files.is_there(new):
            raise FileNotFoundError(errno.ENOENT, "was not written", self.files.uri(new))
        swapping.replace(self.files, new, table_place(layer, table), NEW)

    def write(self, name: str, text: str) -> None:
        """Writes a file, which appears only when it is complete and on disk."""
        self.files.make_directory(NEW)
        self.files.write(f"{NEW}/{name}", text.encode())
        self.files.rename(f"{NEW}/{name}", name)

    def read(self, name: str) -> str | None:
        """The content of a file; None if it does not exist."""
        try:
            return self.files.read(name).decode()
        except FileNotFoundError:
            return None

    def remove(self, *names: str) -> None:
        """Removes tables or files of an earlier run that this run does not make."""
        for name in names:
            self.files.remove(name)

    def close(self) -> None:
        """Removes the directory of incomplete tables."""
        self.files.remove(NEW)


def table_place(layer: str, table: str) -> str:
    """The name of a table's directory."""
    assert table in LAYERS[layer], "a table has a schema"
    return f"{layer}/{table}"


@contextmanager
def on_disk(out: Path | str) -> Iterator[None]:
    """Turns an OSError inside the block into a SparkError with a remedy."""
    try:
        yield
    except OSError as error:
        place = error.filename or out
        remedy = "check its permissions and its disk"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "free some space, or give another disk for --out"
        raise SparkError(f"{place}: {error.strerror or error}", remedy) from None


def uri(path: Path) -> str:
    """The path as a URI: Spark's default file system may be another one."""
    return f"file://{path}"
