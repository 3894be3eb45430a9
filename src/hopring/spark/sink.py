"""Sinks to spools and live groups: their options, and batches that are published exactly once. No pyspark.

Options are parsed once; a wrong one is refused with a remedy. After a crash Spark repeats its last batch under
the same number.

Spool       the rows of a batch and its number are one append: both are in the spool or neither is, so the
            spool tells whether the batch is there.
Live group  a batch is many messages, so a crash may leave a part of it delivered. The client library of a
            receiver drops messages that it received before, by the sender's name, batch and index. For that
            the repeated batch needs the same rows in the same order, which Spark does not promise behind a
            shuffle. So the driver writes a batch to its *outbox* before it sends the first message, and always
            sends the stored rows.

A task stages its rows in Arrow's file format until the driver publishes the batch. A few rows travel inside the
task's commit message; more go to a file that the driver can read. Nothing is synced: after a crash of the
machine Spark repeats the batch.
"""

import contextlib
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

import msgspec

from hopring import sync
from hopring.client.arguments import parse_url
from hopring.client.errors import BatchInDoubt, MessageTooLarge, NameInUse, SessionClosed
from hopring.groups.names import is_legal_group
from hopring.ids import GroupName
from hopring.services import Service
from hopring.spark.errors import DataLost, ForeignInput, SparkError, is_private
from hopring.spark.source.options import Parsers, WrongOption, parsed, text
from hopring.spool.arrow import load_arrow, run_of_array
from hopring.spool.encode import AppendMark
from hopring.spool.errors import AppendTooLarge, SpoolOwned
from hopring.spool.files import safe_name
from hopring.spool.record import RecordHeader, RecordKind, RecordRun
from hopring.spool.writer import Appended, SpoolWriter, wall_us
from hopring.wire.batch_mark import APP_BYTES_MAX, BATCH_MAX, is_legal_app

PAYLOADS: Final = ("binary", "string")
TYPES: Final = ("tinyint", "smallint", "int", "bigint")
SERVICES: Final = {one.name.lower(): one for one in Service if one.reliable}
OUTBOX: Final = "hopring"
"""The directory below a query's checkpoint that keeps its last batch."""


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a sink: the root of spools or the daemons of a live group, and the query's identity."""

    path: str = ""  # The root of spools.
    daemons: tuple[str, ...] = ()  # The URLs of daemons, for a live group.
    group: str
    service: Service = Service.SAFE
    app: str = ""  # Identifies the query, so that a repeated batch is recognized.
    version: int | None = None  # The number of a write that is not a stream.
    sender: str = ""
    staging: str = ""
    checkpoint: str = ""  # Spark's own option, which it passes along.

    @property
    def mark(self) -> AppendMark | None:
        """The identity of a write that is not a stream, if it has one."""
        return None if self.version is None else AppendMark(self.app, self.version)

    @property
    def kept(self) -> str:
        """The directory in which a sink to a live group keeps its last batch; empty if there is none."""
        if self.staging:
            return self.staging
        near = _local(self.checkpoint)
        return near and str(Path(near) / OUTBOX)


def _local(place: str) -> str:
    """The path of a location in the file system; empty if it is elsewhere."""
    parts = urlsplit(place)
    if not parts.scheme:
        return place and str(Path(place).absolute())
    return unquote(parts.path) if parts.scheme == "file" and parts.netloc in ("", "localhost") else ""


def _group(option: str, value: str) -> str:
    if not is_legal_group(GroupName(value)):
        raise WrongOption(
            option, f"{value!r} is not a legal name of a group", "name one that sessions can join"
        )
    return value


def _version(option: str, value: str) -> int:
    if not value.strip().isdecimal():
        raise WrongOption(option, f"{value!r} is not a number", "number the writes from 0 on")
    return int(value)


def _daemons(option: str, value: str) -> tuple[str, ...]:
    return tuple([_url(option, one) for one in text(option, value).split(",")])


def _url(option: str, value: str) -> str:
    place = text(option, value)
    url = place if "://" in place else f"hop+unix://{quote(place)}" if place[0] == "/" else f"hop://{place}"
    try:
        parse_url(url)
    except ValueError:
        remedy = "write host:port, or the path of its socket: localhost:4893, /run/hopd.sock"
        raise WrongOption(option, f"{place!r} is not the address of a daemon", remedy) from None
    return url


def _service(option: str, value: str) -> Service:
    if value.strip().lower() not in SERVICES:
        raise WrongOption(option, f"a sink has no service {value!r}", f"write {', '.join(SERVICES)}")
    return SERVICES[value.strip().lower()]


WRITING: Final[Parsers] = {
    "path": ("path", text),
    "daemon": ("daemons", _daemons),
    "group": ("group", _group),
    "service": ("service", _service),
    "txnAppId": ("app", text),
    "txnVersion": ("version", _version),
    "sender": ("sender", text),
    "staging": ("staging", text),
    "checkpointLocation": ("checkpoint", text),
}
LIVE_ONLY: Final = ("service", "staging")


def write_options(options: Mapping[str, str], *, stream: bool) -> WriteOptions:
    """The options of a sink; WrongOption if one is wrong or missing, or two contradict each other."""
    found = parsed(options, WRITING, "a sink")
    if "path" in found and "daemons" in found:
        raise WrongOption("daemon", "path is given as well", "give path for a spool or daemon for a live group")
    if "path" not in found and "daemons" not in found:
        remedy = "give the directory of the spools, or for a live group the option daemon, as host:port"
        raise WrongOption("path", "it is missing", remedy)
    if "group" not in found:
        raise WrongOption("group", "it is missing", "name the group that is written to")
    if stream and "app" not in found:
        raise WrongOption("txnAppId", "it is missing", "give the query a name that never changes")
    if stream and "version" in found:
        raise WrongOption("txnVersion", "it has no meaning in a stream", "leave it out: batches are numbered")
    if not stream and ("app" in found) != ("version" in found):
        raise WrongOption("txnAppId", "txnAppId and txnVersion belong together", "give both or none")
    return _live(found, stream=stream) if "daemons" in found else _spool(found)


def _spool(found: dict[str, Any]) -> WriteOptions:
    for name in LIVE_ONLY:
        if name in found:
            raise WrongOption(name, "it has no meaning in a sink to a spool", "leave it out, or give daemon")
    return WriteOptions(**found)


def _live(found: dict[str, Any], *, stream: bool) -> WriteOptions:
    if "sender" in found:
        raise WrongOption(
            "sender", "it has no meaning in a live group", "leave it out: the sender is the sink's session"
        )
    if "app" not in found:
        remedy = "give both, so that a repeated write is delivered once"
        raise WrongOption("txnAppId", "txnAppId and txnVersion are missing", remedy)
    if not is_legal_app(found["app"]):
        raise WrongOption("txnAppId", "it is too long", f"take a name of 1 to {APP_BYTES_MAX} bytes")
    if found.get("version", 0) > BATCH_MAX:
        raise WrongOption("txnVersion", f"it is above {BATCH_MAX}", "count the writes: 0, 1, 2")
    options = WriteOptions(**found)
    if stream and not options.kept:
        remedy = "give a directory that survives a restart of the driver and that executors can write to"
        raise WrongOption("staging", "it is missing, and checkpointLocation is not a local directory", remedy)
    return options


def check_written(columns: Iterable[tuple[str, str]]) -> None:
    """Checks the columns to be written; ForeignInput with a remedy if they are not those of messages."""
    found = dict(columns)
    remedy = "select payload (binary or string) and optionally type (a whole number)"
    if "payload" not in found:
        raise ForeignInput("the column payload is missing", remedy)
    for name, kind in found.items():
        if name not in ("payload", "type"):
            raise ForeignInput(f"messages have no column {name}", remedy)
        if kind not in (PAYLOADS if name == "payload" else TYPES):
            raise ForeignInput(f"the column {name} is {kind}", remedy)


STAGING: Final = "staging"
TEMPORARY: Final = "hopring-staging-"
INLINE_BYTES_MAX: Final = 256 * 1024
ABANDONED_SECONDS: Final = 3600.0
"""Files of a killed run are removed after this time."""


class Staged(msgspec.Struct, frozen=True):
    """The staged rows of a task: the bytes themselves, or the file that has them."""

    rows: int = 0
    inline: bytes = b""
    file: str = ""


def staging_directory(directory: Path | None, app: str) -> Path:
    """The staging directory of one run of an application, unique to that run; it is made when it is needed.

    Without a directory it is in the temporary one, which all users share: its name cannot be guessed.
    """
    if directory is None:
        return Path(gettempdir()) / f"{TEMPORARY}{uuid.uuid4().hex}"
    return directory / STAGING / safe_name(app) / uuid.uuid4().hex


def make_private(place: Path) -> None:
    """Makes a directory that only this user can enter; SparkError if another one is there."""
    if not is_private(place):
        remedy = "run the driver and its executors as one user, or give another directory as option staging"
        raise SparkError(f"{place} belongs to another user, or others can write to it", remedy)


def stage(batches: Iterable[Any], place: Path) -> Staged:
    """Stages all rows of a task, in order."""
    arrow = load_arrow(str(place))
    waiting: list[Any] = []
    size_bytes = rows = 0
    rest = iter(batches)
    for batch in rest:
        waiting.append(plain(arrow, batch))
        size_bytes += waiting[-1].nbytes
        rows += batch.num_rows
        if size_bytes > INLINE_BYTES_MAX:
            return _to_file(arrow, waiting, rest, place, rows)
    if not rows:
        return Staged()
    sink = arrow.BufferOutputStream()
    _write(sink, waiting)
    return Staged(rows, sink.getvalue().to_pybytes())


def plain(arrow: Any, batch: Any) -> Any:
    """The batch with payloads as binary and types as unsigned 16 bits; ForeignInput if that is impossible."""
    payload = batch.column("payload")
    if payload.null_count:
        raise ForeignInput("a payload is null", "filter those rows out: .where('payload is not null')")
    columns = {"payload": payload.cast(arrow.binary())}
    if "type" in batch.schema.names:
        try:
            columns["type"] = batch.column("type").fill_null(0).cast(arrow.uint16())
        except arrow.ArrowInvalid:
            raise ForeignInput("a type is not from 0 to 65535", "types have 16 bits") from None
    return arrow.RecordBatch.from_pydict(columns)


def _to_file(arrow: Any, waiting: list[Any], rest: Iterator[Any], place: Path, rows: int) -> Staged:
    make_private(place)
    path = place / f"{uuid.uuid4().hex}.arrow"
    more = [0]

    def counted() -> Iterator[Any]:
        for batch in rest:
            more[0] += batch.num_rows
            yield plain(arrow, batch)

    with arrow.OSFile(str(path), "wb") as sink:
        _write(sink, [*waiting], counted())
    return Staged(rows + more[0], file=str(path))


def _write(sink: Any, first: list[Any], rest: Iterable[Any] = ()) -> None:
    with import_module("pyarrow.ipc").new_file(sink, first[0].schema) as file:
        for batch in first:
            file.write_batch(batch)
        for batch in rest:
            file.write_batch(batch)


def staged_runs(staged: Iterable[Staged], header: RecordHeader) -> Iterator[RecordRun]:
    """The rows of all tasks as runs, in the order of the tasks, without a copy."""
    for one in staged:
        if one.rows:
            yield from _runs(one, header)


def opened(staged: Staged) -> Iterator[Any]:
    """The staged record batches, mapped and not copied."""
    arrow = load_arrow(staged.file)
    source = arrow.memory_map(staged.file) if staged.file else arrow.BufferReader(staged.inline)
    file = import_module("pyarrow.ipc").open_file(source)
    for number in range(file.num_record_batches):
        yield file.get_batch(number)


def _runs(staged: Staged, header: RecordHeader) -> Iterator[RecordRun]:
    for batch in opened(staged):
        if not batch.num_rows:
            continue
        types = None
        if "type" in batch.schema.names:
            column = batch.column("type")
            types = (
                memoryview(column.buffers()[1]).cast("B").cast("H")[column.offset : column.offset + len(column)]
            )
        yield run_of_array(header, batch.column("payload"), types)


def clear(place: Path) -> None:
    """Removes the staged files of a run, and those of runs that were killed long ago."""
    shutil.rmtree(place, ignore_errors=True)
    # The temporary directory has files of other programs.
    pattern = f"{TEMPORARY}*" if place.name.startswith(TEMPORARY) else "*"
    with contextlib.suppress(OSError):
        for other in [*place.parent.glob(pattern)]:
            status = other.lstat()
            if time.time() - status.st_mtime > ABANDONED_SECONDS and status.st_uid == os.geteuid():
                shutil.rmtree(other, ignore_errors=True)


SUFFIX: Final = ".arrow"
ROWS_AT_ONCE: Final = 1024
STILL_SECONDS_MAX: Final = 60.0
"""The longest time without progress, for instance while the daemons have no view."""

_AGAIN: Final = "start the query again: no message is delivered twice"
NAMED_SECONDS_MAX: Final = 30.0
"""How long to wait until the daemon has noticed the end of a run that was killed."""

LOOK_SECONDS: Final = 0.2
OWNED_SECONDS_MAX: Final = 30.0
"""How long to wait for the spool's lock: a run that was killed may still be writing its last append."""

_RETRY_SECONDS: Final = 0.1


def publish(root: Path, group: str, sender: str, staged: Sequence[Staged], mark: AppendMark | None) -> Appended:
    """Appends the staged rows to a spool, unless the batch is there already."""
    with _opened(root, group) as writer:
        last = None if mark is None else writer.last_batch(mark.app)
        if mark is not None and last is not None and mark.batch < last:
            # Spark repeats only the last batch. Dropping this one would lose it silently.
            raise DataLost(
                f"{writer.directory}: batch {mark.batch} of {mark.app!r} comes after batch {last}",
                "a query with another checkpoint needs another txnAppId",
            )
        if mark is not None and mark.batch == last:
            return Appended(writer.end, writer.end, replayed=True)
        header = RecordHeader(RecordKind.MESSAGE, wall_us(), sender, (group,))
        try:
            return writer.append(list(staged_runs(staged, header)), mark)
        except AppendTooLarge as error:
            remedy = "make batches smaller with the reader's option maxBytesPerTrigger, or write in parts"
            raise SparkError(str(error.reason), remedy) from error


def _opened(root: Path, group: str) -> SpoolWriter:
    """The writer of the spool; waits while another process has the lock."""
    until = time.monotonic() + OWNED_SECONDS_MAX
    while True:
        try:
            return SpoolWriter(root, group)
        except SpoolOwned:
            if time.monotonic() > until:
                raise
            time.sleep(_RETRY_SECONDS)


def keep(directory: Path, mark: AppendMark, staged: Sequence[Staged]) -> Staged:
    """The rows to be sent: those in the outbox, or else the staged ones, which are stored there now."""
    place = directory / "outbox" / safe_name(mark.app)
    path = place / f"{mark.batch}{SUFFIX}"
    known = _batches(place)
    if known and max(known) > mark.batch:
        # Receivers would drop it silently.
        raise DataLost(
            f"{place}: batch {mark.batch} of {mark.app!r} comes after batch {max(known)}",
            "a query with another checkpoint needs another txnAppId",
        )
    if mark.batch not in known:
        place.mkdir(parents=True, exist_ok=True)
        _append(path, [one for one in staged if one.rows])
    for older in known - {mark.batch}:
        (place / f"{older}{SUFFIX}").unlink(missing_ok=True)
    return Staged(sum([batch.num_rows for batch in opened(Staged(1, file=str(path)))]), file=str(path))


def _batches(place: Path) -> set[int]:
    with contextlib.suppress(FileNotFoundError):
        return {int(one.stem) for one in place.iterdir() if one.suffix == SUFFIX and one.stem.isdecimal()}
    return set()


def _append(path: Path, staged: Sequence[Staged]) -> None:
    """Writes the rows to a file, which gets its name when it is complete and on disk."""
    half = path.with_suffix(".half")
    schema = next(iter(opened(staged[0]))).schema
    with half.open("wb") as file:
        with import_module("pyarrow.ipc").new_file(file, schema) as out:
            for one in staged:
                for batch in opened(one):
                    out.write_batch(batch)
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)
    _sync_directory(path.parent)


def _sync_directory(place: Path) -> None:
    number = os.open(place, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def rows(staged: Staged) -> Iterator[tuple[bytes, int]]:
    """Payloads and types, with a limited number in memory at a time."""
    for batch in opened(staged):
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            yield from _rows(batch.slice(start, ROWS_AT_ONCE))


def _rows(batch: Any) -> Iterator[tuple[bytes, int]]:
    types = batch.column("type").to_pylist() if "type" in batch.schema.names else [0] * batch.num_rows
    return zip(batch.column("payload").to_pylist(), types, strict=True)


def longest_bytes(staged: Staged) -> int:
    """The size of the longest payload, in bytes."""
    compute = import_module("pyarrow.compute")
    sizes = [compute.max(compute.binary_length(batch.column("payload"))).as_py() for batch in opened(staged)]
    return max([size or 0 for size in sizes], default=0)


def multicast(
    options: WriteOptions, directory: Path | None, staged: Sequence[Staged], mark: AppendMark
) -> None:
    """Sends the staged rows to a live group, and returns when all are delivered; no directory, no outbox."""
    full = [one for one in staged if one.rows]
    if not full:
        return
    with _connect(options.daemons, mark.app) as session:
        # Checked before the outbox: a stored batch is sent as it is, also after the query was corrected.
        longest = max(map(longest_bytes, full))
        if longest > session.message_bytes_max:
            raise _too_large(MessageTooLarge(longest, session.message_bytes_max))
        _send(session, options, full if directory is None else [keep(directory, mark, full)], mark)


def _connect(daemons: Sequence[str], app: str) -> sync.Session:
    """A session with the name that the application has in every run; a killed run may still have it."""
    until = time.monotonic() + NAMED_SECONDS_MAX
    while True:
        try:
            return sync.connect(daemons, name=session_name(app), membership=False, reconnect=False)
        except NameInUse:
            if time.monotonic() > until:
                raise
            time.sleep(LOOK_SECONDS)


def session_name(app: str) -> str:
    """The name of the session that sends an application's batches: receivers know a repetition by it."""
    return f"sink-{sha256(app.encode()).hexdigest()[:32]}"


def _send(session: sync.Session, options: WriteOptions, batch: Sequence[Staged], mark: AppendMark) -> None:
    try:
        session.multicast_batch(
            options.group,
            (row for one in batch for row in rows(one)),
            app=mark.app,
            batch=mark.batch,
            service=options.service,
            timeout_seconds=STILL_SECONDS_MAX,
        )
    except BatchInDoubt as error:
        what = f"batch {mark.batch} of {mark.app!r} to {options.group}"
        raise SparkError(f"{what}: {error.reason}", _AGAIN) from error
    except SessionClosed as error:
        raise SparkError(f"daemon {session.daemon}: {error.reason}", _AGAIN) from error
    except MessageTooLarge as error:  # A stored batch, and a daemon with a lower limit.
        raise _too_large(error) from error


def _too_large(error: MessageTooLarge) -> SparkError:
    problem = f"a payload has {error.size_bytes} bytes, and the daemon's limit is {error.limit_bytes}"
    return SparkError(problem, "split the payload, or filter it out: .where('octet_length(payload) <= ...')")
