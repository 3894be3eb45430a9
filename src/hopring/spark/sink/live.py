"""Publishes a batch to live groups: keeps it in the outbox, and multicasts it, one group after the other."""

import contextlib
import logging
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from hopring import sync
from hopring.client.errors import BatchInDoubt, MessageTooLarge, NameInUse, NotAllowed, SessionClosed
from hopring.spark.errors import DataLost, SparkError
from hopring.spark.sink.claims import claim, claim_of_live
from hopring.spark.sink.options import WriteOptions
from hopring.spark.sink.staging import Staged, groups_of, of_group, opened
from hopring.spool.encode import AppendMark
from hopring.spool.files import safe_name

SUFFIX: Final = ".arrow"
ROWS_AT_ONCE: Final = 1024
STILL_SECONDS_MAX: Final = 60.0
"""The longest time without progress, for instance while the daemons have no view."""

_AGAIN: Final = "start the query again: no message is delivered twice"
NAMED_SECONDS_MAX: Final = 30.0
"""How long to wait until the daemon has noticed the end of a run that was killed."""

LOOK_SECONDS: Final = 0.2
QUERY: Final = "query"
"""The file in the outbox of an application that says which query it is."""

_LOG: Final = logging.getLogger(__name__)


def outbox_of(directory: Path, app: str) -> Path:
    """The directory that keeps the last batch of an application."""
    return directory / "outbox" / safe_name(app)


def keep(directory: Path, mark: AppendMark, staged: Sequence[Staged]) -> Staged:
    """The rows to be sent: those in the outbox, or else the staged ones, which are stored there now."""
    place = outbox_of(directory, mark.app)
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


def rows(staged: Staged, group: str = "") -> Iterator[tuple[bytes, int]]:
    """Payloads and types of a group's rows, with a limited number in memory at a time."""
    for batch in opened(staged):
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            yield from _rows(of_group(batch.slice(start, ROWS_AT_ONCE), group))


def _rows(batch: Any) -> Iterator[tuple[bytes, int]]:
    types = batch.column("type").to_pylist() if "type" in batch.schema.names else [0] * batch.num_rows
    return zip(batch.column("payload").to_pylist(), types, strict=True)


def longest_bytes(staged: Staged) -> int:
    """The size of the longest payload, in bytes."""
    compute = import_module("pyarrow.compute")
    sizes = [compute.max(compute.binary_length(batch.column("payload"))).as_py() for batch in opened(staged)]
    return max([size or 0 for size in sizes], default=0)


def multicast(
    options: WriteOptions, directory: Path | None, staged: Sequence[Staged], mark: AppendMark, query: str = ""
) -> None:
    """Sends the staged rows to live groups, and returns when all are delivered; no directory, no outbox."""
    full = [one for one in staged if one.rows]
    if not full:
        return
    with sink_session(options, mark.app) as session:
        # Checked before the outbox: a stored batch is sent as it is, also after the query was corrected.
        longest = max(map(longest_bytes, full))
        if longest > session.message_bytes_max:
            raise _too_large(MessageTooLarge(longest, session.message_bytes_max))
        if query:
            _claim(session, options, directory, mark.app, query)
        batch = full if directory is None else [keep(directory, mark, full)]
        for group in groups_of(batch, options.group):
            found = (row for one in batch for row in rows(one, group))
            send_batch(session, options, group, found, mark)


def _claim(session: sync.Session, options: WriteOptions, directory: Path | None, app: str, query: str) -> None:
    """Raises DataLost if another query has sent under this name, as far as this driver knows."""
    if options.staging and directory is not None:
        claim(outbox_of(directory, app) / QUERY, app, query)
        return
    file = claim_of_live(os.environ, _cluster(session, options.daemons), app)
    try:
        claim(file, app, query)
    except OSError as error:
        _LOG.warning("%s: %s; a new checkpoint under this txnAppId will not be noticed", file, error.strerror)


def _cluster(session: sync.Session, daemons: Sequence[str]) -> str:
    """The identity of the daemons: two clusters do not know each other's receivers."""
    try:
        facts = session.daemon_facts(timeout_seconds=STILL_SECONDS_MAX)
    except NotAllowed:
        return ",".join(daemons)
    return f"{facts.cluster} {facts.config_digest}"


def sink_session(options: WriteOptions, app: str) -> sync.Session:
    """A session with the name that the application has in every run; a killed run may still have it."""
    until = time.monotonic() + NAMED_SECONDS_MAX
    while True:
        try:
            return sync.connect(
                options.daemons,
                name=session_name(app),
                membership=False,
                reconnect=False,
                user=options.user or None,
                key=options.key or None,
                token=options.token or None,
                certificate=options.certificate or None,
                ca=options.ca or None,
            )
        except NameInUse:
            if time.monotonic() > until:
                raise
            time.sleep(LOOK_SECONDS)


def session_name(app: str) -> str:
    """The name of the session that sends an application's batches: receivers know a repetition by it."""
    return f"sink-{sha256(app.encode()).hexdigest()[:32]}"


def send_batch(
    session: sync.Session,
    options: WriteOptions,
    group: str,
    messages: Iterable[tuple[bytes, int]],
    mark: AppendMark,
) -> None:
    """Sends payloads with their types as one batch; SparkError with a remedy if that fails or is in doubt."""
    try:
        session.multicast_batch(
            group,
            messages,
            app=mark.app,
            batch=mark.batch,
            service=options.service,
            timeout_seconds=STILL_SECONDS_MAX,
        )
    except BatchInDoubt as error:
        what = f"batch {mark.batch} of {mark.app!r} to {group}"
        raise SparkError(f"{what}: {error.reason}", _AGAIN) from error
    except SessionClosed as error:
        raise SparkError(f"daemon {session.daemon}: {error.reason}", _AGAIN) from error
    except MessageTooLarge as error:  # A stored batch, and a daemon with a lower limit.
        raise _too_large(error) from error


def _too_large(error: MessageTooLarge) -> SparkError:
    problem = f"a payload has {error.size_bytes} bytes, and the daemon's limit is {error.limit_bytes}"
    return SparkError(problem, "split the payload, or filter it out: .where('octet_length(payload) <= ...')")
