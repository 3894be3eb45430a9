"""Passes of a stream: new rows are taken into tables that have a file for each part.

A pass reads the new rows and the files of the parts that they touch, so its cost follows these and not the
length of the stream. The tables are those that a run over all rows makes, by the same stages:

silver/messages         a file for each MESSAGES_A_FILE places in a view, or offsets of a spool's group
gold/throughput         a file for each FILE_SECONDS
gold/latency_by_minute  the same, from counts of latencies, which can be added
gold/late               rows that came after the watermark, a file for each pass that had some

Besides these, a stream keeps sends whose deliveries may still come, and the counts, in its own directory. With
a time to retain, it forgets those that are older; later deliveries of these are in no table of latencies.

Late rows   are taken in like all others: tables never depend on the order in which rows come. The table `late`
            says which they were, and why.
Limit       if a message is sent twice, which breaks a property, deliveries before the second send count once.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from hopring.spark.pipeline import ingest, measure, reconcile
from hopring.spark.pipeline.following import NewRows, write_rows
from hopring.spark.pipeline.lateness import MINUTE_US, RECORDS_CLOCK, Arrivals, late_rows, learn, trace_clock
from hopring.spark.pipeline.ledger import LedgerFile, StreamLedger
from hopring.spark.pipeline.store import Store, uri
from hopring.spark.schema import BRONZE, GOLD, LATENCIES, MOVES, RUN, SILVER, Columns, ddl, shaped

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGES_A_FILE: Final = 16_384
FILE_SECONDS: Final = 600

PASSED: Final = frozenset({"messages", "throughput", "latency_by_minute", "late"})
"""The tables that passes make."""

_PART: Final = "part"
_TYPES: Final = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "array<string>": pa.list_(pa.string()),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}


class PartTable(msgspec.Struct, frozen=True):
    """A table with a file for each part."""

    place: Path
    columns: Columns
    part: Callable[[], Column]  # The name of the part that a row belongs to, as a file can have it.


def messages_part() -> Column:
    """A range of places in the order of one view; of messages without a place, of offsets of a spool."""
    alone = F.instr("message", "/") > 0
    # The name of a group may have slashes, too.
    own = F.regexp_extract("message", "^(.*)/([0-9]+)$", 1)
    offset = F.substring_index("message", "/", -1).try_cast("bigint")
    family = F.when(alone, own).otherwise(F.coalesce("view", F.lit("")))
    number = F.when(alone, offset).otherwise(F.col("lts"))
    return F.hex(F.xxhash64(family, F.floor(number / MESSAGES_A_FILE)))


def moves_part() -> Column:
    """A range of messages of one sender."""
    number = F.substring_index("message", ":", -1).try_cast("bigint")
    sender = F.substring_index("message", ":", 1)
    return F.hex(F.xxhash64(RUN, sender, F.floor(number / MESSAGES_A_FILE)))


def seconds_part(column: str) -> Column:
    """Ten minutes of a time."""
    return F.floor(F.unix_seconds(column) / FILE_SECONDS).cast("string")


def part_of_us(at_us: int) -> str:
    """The same part, by name."""
    return str(at_us // 1_000_000 // FILE_SECONDS)


class Passes:
    """The tables of one stream, and its ledger. One pass runs at a time."""

    def __init__(self, spark: SparkSession, store: Store, sites: Mapping[str, str], late_us: int) -> None:
        self.spark = spark
        self.store = store
        self.sites = dict(sites)
        self.late_us = late_us
        own = store.checkpoints / "_tables"
        self.file = LedgerFile(store.out, own)
        self.messages = PartTable(store.place("silver", "messages"), SILVER["messages"], messages_part)
        self.throughput = PartTable(
            store.place("gold", "throughput"), GOLD["throughput"], lambda: seconds_part("second")
        )
        self.by_minute = PartTable(
            store.place("gold", "latency_by_minute"), GOLD["latency_by_minute"], lambda: seconds_part("minute")
        )
        self.moves = PartTable(own / "moves", MOVES, moves_part)
        self.latencies = PartTable(own / "latencies", LATENCIES, lambda: seconds_part("minute"))
        self.ledger = StreamLedger()

    def open(self) -> None:
        """Continues where an earlier stream was, or begins anew."""
        found = self.file.read()
        if found is not None and found.sites == self.sites:
            self.ledger = found
            return
        self.begin()

    def begin(self) -> None:
        """Removes the tables, and begins with all batches of records that are there, and with no trace."""
        self.file.forget()
        names = ("silver/messages", "gold/throughput", "gold/latency_by_minute", "gold/late", "bronze/trace")
        self.store.remove(*names)
        for table in (self.messages, self.throughput, self.by_minute):
            write_empty(table.place, table.columns)
        write_empty(self.store.place("gold", "late"), GOLD["late"])
        self.ledger = StreamLedger(sites=self.sites)
        self.file.begin()
        self.file.commit(self.ledger, [])

    def take_records(self, spool: str, batch: int) -> bool:
        """Takes in a batch of records, which is in the bronze table; false if that has happened before."""
        ledger = self.ledger.copy()
        if batch <= ledger.batches.get(spool, -1):
            return False
        first = ledger.batches.get(spool, -1) + 1
        with self._kept() as keep:
            records = ingest.records_of_batches(self.spark, self.store, spool, range(first, batch + 1))
            staged = self.file.begin()
            found = keep(reconcile.messages(records))
            parts = self._parts(self.messages, found)
            whole = reconcile.joined(self._old(self.messages, parts).unionByName(found))
            files = self._stage(self.messages, whole, staged / "messages") if parts else []
            arrived = self._arrived_records(records)
        files += self._late(ledger, arrived, staged)
        ledger.batches[spool] = batch
        self._commit(ledger, files)
        return True

    def take_trace(self, rows: NewRows) -> bool:
        """Takes in rows of the trace; false if the clock of earlier rows is known only now: begin again."""
        ledger = self.ledger.copy()
        if not _set_clocks(ledger, rows):
            return False
        staged = self.file.begin()
        name = f"piece-{ledger.passes:08}"
        written = write_rows(rows, staged / "trace", name)
        place = self.store.place("bronze", "trace")
        files = [(staged / "trace" / one, place / one) for one in written]
        with self._kept() as keep:
            trace = keep(measure.shifted(self._read_trace(staged / "trace"), self._clocks(ledger)))
            arrived = self._arrived_trace(trace)
            seconds = {part_of_us(one.minute_us) for one in arrived}
            sums = self._old(self.throughput, seconds).unionByName(measure.throughput(trace, self.sites))
            files += self._stage(self.throughput, measure.added(sums), staged / "throughput")
            files += self._take_latencies(keep, measure.moves(trace), staged)
        files += self._late(ledger, arrived, staged)
        ledger.files = rows.files
        self._commit(ledger, files)
        return True

    def _take_latencies(
        self, keep: Callable[[DataFrame], DataFrame], new: DataFrame, staged: Path
    ) -> list[tuple[Path, Path]]:
        """Matches deliveries with sends, new ones and those that wait, and counts their latencies."""
        kept_since_us = self.ledger.forgotten_us
        new = new.where(F.col("at_us") >= kept_since_us)
        parts = self._parts(self.moves, new)
        if not parts:
            return []
        moves = keep(self._old(self.moves, parts).unionByName(new))
        files = self._stage(self.moves, measure.waiting(moves), staged / "moves")
        found = measure.latencies(measure.matched(moves, self.sites))
        found = keep(found.where(F.unix_micros("minute") >= kept_since_us))
        minutes = self._parts(self.latencies, found)
        if not minutes:
            return files
        counts = keep(measure.counted(self._old(self.latencies, minutes).unionByName(found)))
        files += self._stage(self.latencies, counts, staged / "latencies")
        return files + self._stage(self.by_minute, measure.latency_by_minute(counts), staged / "by_minute")

    def forget_before(self, time_us: int) -> None:
        """Removes sends and counts of latencies from before a time, which never goes back."""
        cutoff_us = time_us // (FILE_SECONDS * 1_000_000) * FILE_SECONDS * 1_000_000
        if cutoff_us > self.ledger.forgotten_us:
            ledger = self.ledger.copy()
            ledger.forgotten_us = cutoff_us
            self.file.begin()
            self._commit(ledger, [])
        # What a killed stream had forgotten and not removed goes as well.
        for path in (*self.latencies.place.glob("*.parquet"), *self.moves.place.glob("*.parquet")):
            newest = "minute" if path.parent == self.latencies.place else "at_us"
            if newest_us(path, newest) < self.ledger.forgotten_us:
                path.unlink()

    def watermark_us(self, clock: str) -> int | None:
        """The time before which rows of this clock are late; None before the first row."""
        newest = self.ledger.newest_us.get(clock)
        return None if newest is None else newest - self.late_us

    def _commit(self, ledger: StreamLedger, files: list[tuple[Path, Path]]) -> None:
        self.file.commit(ledger, files)
        self.ledger = ledger

    def _read_trace(self, place: Path) -> DataFrame:
        columns = BRONZE["trace"]
        trace = shaped(self.spark.read.schema(ddl(columns)).parquet(uri(place)), columns)
        return trace.withColumn(RUN, F.coalesce(RUN, F.lit("")))

    def _clocks(self, ledger: StreamLedger) -> DataFrame:
        rows = [(run, life, us) for run, lives in ledger.clocks.items() for life, us in lives.items()]
        return self.spark.createDataFrame(rows, f"{RUN} string, life string, shift bigint")

    def _parts(self, table: PartTable, rows: DataFrame) -> set[str]:
        return {row[0] for row in rows.select(table.part()).distinct().collect()}

    def _old(self, table: PartTable, parts: Iterable[str]) -> DataFrame:
        """The rows of these parts of a table."""
        paths = [
            uri(path) for path in (table.place / f"{part}.parquet" for part in sorted(parts)) if path.exists()
        ]
        if not paths:
            return self.spark.createDataFrame([], ddl(table.columns))
        return self.spark.read.schema(ddl(table.columns)).parquet(*paths)

    def _stage(self, table: PartTable, rows: DataFrame, place: Path) -> list[tuple[Path, Path]]:
        """Writes rows as a file for each part; returns the files and their places in the table."""
        parted = shaped(rows, table.columns).withColumn(_PART, table.part())
        parted.repartition(_PART).write.partitionBy(_PART).parquet(uri(place))
        files = []
        for directory in sorted(place.glob(f"{_PART}=*")):
            (file,) = directory.glob("*.parquet")  # Rows of a part are in one task.
            files.append((file, table.place / f"{directory.name.partition('=')[2]}.parquet"))
        return files

    def _arrived_records(self, records: DataFrame) -> list[Arrivals]:
        at_us = F.unix_micros("timestamp")
        rows = _counted(records, at_us, "spool", "group").collect()
        return [Arrivals(RECORDS_CLOCK, "", row[0], row[1], *row[2:]) for row in rows]

    def _arrived_trace(self, trace: DataFrame) -> list[Arrivals]:
        rows = _counted(trace, F.col("at_us"), RUN, "daemon").collect()
        return [Arrivals(trace_clock(row[0]), row[0], row[1], "", *row[2:]) for row in rows]

    def _late(self, ledger: StreamLedger, arrived: list[Arrivals], staged: Path) -> list[tuple[Path, Path]]:
        """The rows among these that are late, as a file of the table; the ledger learns the newest times."""
        late = late_rows(ledger, arrived, self.late_us)
        learn(ledger, arrived)
        if not late:
            return []
        file = staged / "late.parquet"
        pq.write_table(pa.Table.from_pylist(late, schema=arrow_schema(GOLD["late"])), file)
        return [(file, self.store.place("gold", "late") / f"pass-{ledger.passes:08}.parquet")]

    @contextmanager
    def _kept(self) -> "Iterator[Callable[[DataFrame], DataFrame]]":
        """Keeps tables in memory until the block ends."""
        with ExitStack() as stack:

            def keep(table: DataFrame) -> DataFrame:
                table.persist()
                stack.callback(table.unpersist)
                return table

            yield keep


def _counted(rows: DataFrame, at_us: Column, *keys: str) -> DataFrame:
    minute = (F.floor(at_us / MINUTE_US) * MINUTE_US).alias("minute_us")
    return rows.groupBy(*keys, minute).agg(F.count("*"), F.min(at_us), F.max(at_us))


def _set_clocks(ledger: StreamLedger, rows: NewRows) -> bool:
    """Adds the clocks of new lives; false if earlier rows of one were taken in without its clock."""
    for run, clocks in rows.clocks.items():
        known = ledger.clocks.setdefault(run, {})
        for life, shift in clocks.items():
            if life in ledger.unset.get(run, ()):
                return False
            known[life] = min(shift, known.get(life, shift))
    for run, lives in rows.lives.items():
        known_lives = ledger.clocks.get(run, {})
        unset = {*ledger.unset.get(run, ()), *[life for life in lives if life not in known_lives]}
        ledger.unset[run] = sorted(unset)
    return True


def newest_us(path: Path, column: str) -> int:
    """The highest time in a column of a Parquet file, in microseconds, from its footer if that has it."""
    with pq.ParquetFile(path) as file:
        at = file.schema_arrow.get_field_index(column)
        groups = [file.metadata.row_group(number).column(at) for number in range(file.num_row_groups)]
        if all(group.is_stats_set and group.statistics.has_min_max for group in groups):
            highest = [group.statistics.max for group in groups]
        else:
            highest = file.read([column])[column].to_pylist()
    return max([_us(one) for one in highest], default=0)


def _us(time: datetime | int) -> int:
    if isinstance(time, int):
        return time
    # Without a zone where Spark has written its older kind of timestamp; in UTC all the same.
    known = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return round(known.timestamp() * 1e6)


def arrow_schema(columns: Columns) -> Any:
    """The columns of a table as an Arrow schema."""
    return pa.schema([(name, _TYPES[kind]) for name, kind in columns.items()])


def write_empty(place: Path, columns: Columns) -> None:
    """Makes a table without rows."""
    place.mkdir(parents=True, exist_ok=True)
    pq.write_table(arrow_schema(columns).empty_table(), place / "empty.parquet")
