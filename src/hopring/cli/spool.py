"""`hop spool`: writes, lists, replays, verifies and archives durable logs of groups."""

import base64
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any, Final, TypeVar

import click

from hopring.cli.completion import spool_names
from hopring.cli.daemon_session import at_daemon, client_errors, identity, json_option
from hopring.cli.progress import Amounts
from hopring.cli.terminal import Failure, say, say_payload
from hopring.client.arguments import Reconnect
from hopring.client.blocking import connect
from hopring.client.peer_url import is_peer_url
from hopring.config.units import DURATION, SIZE, Quantity
from hopring.errors import HopError
from hopring.session.options import Slow, SlowPolicy
from hopring.spool.archive import archive, waiting_bytes
from hopring.spool.errors import OffsetMissing
from hopring.spool.files import bases, directory_of, index_path, log_path, spools
from hopring.spool.reading import bounds, read, read_head
from hopring.spool.record import (
    RecordedGap,
    RecordedTransition,
    RecordedView,
    RecordKind,
    SpoolRecord,
    decode_body,
)
from hopring.spool.retention import Retention, consumers
from hopring.spool.verify import SpoolFinding, log_bytes, verify
from hopring.spool.writer import SpoolOptions
from hopring.spooler import Spooler

Command = TypeVar("Command", bound=Callable[..., Any])


POLL_SECONDS: Final = 0.2
GIVE_UP_SECONDS: Final = 24 * 3600.0
WINDOW_BYTES: Final = 8 * 1024 * 1024
_STDIN: Final = 0
_READ_BYTES: Final = 4_096
SYNC_HELP: Final = "How often records are synced to disk and become readable; 0s: after every batch."


def spool_option(command: Command) -> Command:
    """A decorator that adds the option --spool."""
    return click.option(
        "--spool",
        "root",
        metavar="DIR",
        envvar="HOP_SPOOL",
        show_envvar=True,
        required=True,
        type=click.Path(file_okay=False, path_type=Path),
        help="Directory of the spools; each group has a directory in it.",
    )(command)


def group_argument(command: Command) -> Command:
    """Adds the argument GROUP..., without which all spools are meant."""
    return click.argument("groups", metavar="[GROUP]...", nargs=-1, shell_complete=spool_names)(command)


def skip_option(command: Command) -> Command:
    """A decorator that adds the option --skip-damaged."""
    return click.option("--skip-damaged", is_flag=True, help="Skip damaged records.")(command)


def chosen(root: Path, groups: tuple[str, ...]) -> Iterator[Path]:
    """The directories of these groups, or of all."""
    if not groups:
        yield from spools(root)
        return
    for group in groups:
        directory = directory_of(root, group)
        bases(directory)  # NoSpool if there is none.
        yield directory


@contextmanager
def spool_errors() -> Iterator[None]:
    """Turns errors of spools into exit codes of the command."""
    try:
        yield
    except HopError as error:
        raise Failure(str(error)) from None
    except OSError as error:
        place = error.filename or "the spool"
        raise Failure(f"{place}: {error.strerror}; check its permissions and its disk") from None


@click.command()
@click.argument("group", shell_complete=spool_names)
@spool_option
@click.option(
    "--from", "start", metavar="OFFSET", type=click.IntRange(0), help="First record.  [default: the oldest]"
)
@click.option("--to", "end", metavar="OFFSET", type=click.IntRange(0), help="End before this record.")
@click.option("--follow", is_flag=True, help="Follow new records, until interrupted.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line, with all fields.")
@click.option("--views", is_flag=True, help="Show views, transitions and gaps too.")
@skip_option
def replay(
    group: str,
    root: Path,
    start: int | None,
    end: int | None,
    follow: bool,
    as_json: bool,
    views: bool,
    skip_damaged: bool,
) -> None:
    """Print the messages in the spool of GROUP.

    There is one line per message, in the order in which they were delivered.
    """
    directory = directory_of(root, group)
    with spool_errors():
        for record in _records(directory, start, end, follow, skip_damaged):
            if as_json:
                click.echo(json.dumps(facts_of(record)))
            elif views or record.header.kind in (RecordKind.MESSAGE, RecordKind.GAP):
                show_record(record)


def _records(
    directory: Path, start: int | None, end: int | None, follow: bool, skip_damaged: bool
) -> Iterator[SpoolRecord]:
    known = bounds(directory)
    at = known.start if start is None else start
    if at > known.end:
        raise OffsetMissing(directory, at, *known)
    while True:
        stop = known.end if end is None else end if not follow else min(end, known.end)
        yield from read(directory, at, stop, skip_damaged=skip_damaged)
        at = max(at, stop)
        if not follow or at == end:
            return
        time.sleep(POLL_SECONDS)
        known = bounds(directory)


def show_record(record: SpoolRecord) -> None:
    """Prints a record as one line of text."""
    if record.header.kind is RecordKind.MESSAGE:
        say_payload(record.data)
    else:
        say(as_line(record))


def as_line(record: SpoolRecord) -> str:
    """A record as one line of text."""
    match record.header.kind:
        case RecordKind.MESSAGE:
            return record.data.decode(errors="replace")
        case RecordKind.VIEW:
            view = decode_body(record.data, RecordedView)
            return f"-- view: {' '.join(one.name for one in view.members)} ({view.cause})"
        case RecordKind.TRANSITION:
            names = [one.name for one in decode_body(record.data, RecordedTransition).members]
            return f"-- the view is closing; still together: {' '.join(names)}"
        case RecordKind.GAP:
            gap = decode_body(record.data, RecordedGap)
            count = "messages may be" if gap.messages is None else f"{gap.messages} messages are"
            return f"-- {count} missing here: {gap.reason}"


def facts_of(record: SpoolRecord) -> dict[str, object]:
    """A record as a JSON object."""
    its = record.header
    common = {
        "offset": record.offset,
        "kind": its.kind.name.lower(),
        "time_us": its.time_us,
        "view": {"id": its.view.view, "step": its.view.step},
    }
    match its.kind:
        case RecordKind.MESSAGE:
            return {
                **common,
                "sender": its.sender,
                "groups": its.groups,
                "service": None if its.service is None else its.service.name.lower(),
                "type": record.type,
                "place": {"view": its.place.view, "lts": its.place.lts, "site": its.place.site},
                "number": record.number,
                **({"headers": dict(record.headers)} if record.headers else {}),
                **_data(record.data),
            }
        case RecordKind.VIEW:
            view = decode_body(record.data, RecordedView)
            names = [one.name for one in view.members]
            return {**common, "members": names, "together": view.together, "cause": view.cause}
        case RecordKind.TRANSITION:
            return {
                **common,
                "members": [one.name for one in decode_body(record.data, RecordedTransition).members],
            }
        case RecordKind.GAP:
            gap = decode_body(record.data, RecordedGap)
            spans = {"from_us": gap.from_us, "to_us": gap.to_us, "messages": gap.messages}
            return {**common, "reason": gap.reason, **spans}


def _data(data: bytes) -> dict[str, str]:
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"data_base64": base64.b64encode(data).decode()}


def amount(quantity: Quantity) -> Callable[[click.Context, click.Parameter, str | None], int | None]:
    """Option callback for a quantity with its unit."""

    def read(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
        if value is None:
            return None
        try:
            return quantity.read(value)
        except ValueError as error:
            raise click.BadParameter(f"{value!r} {error}; write one as {quantity.example}") from None

    return read


def _policy(url: str, slow: SlowPolicy | None, patterns: tuple[str, ...]) -> SlowPolicy:
    """The policy for a spooler; peers know no other groups than their own, so names have to be whole there."""
    if not is_peer_url(url):
        return slow or "spill"
    wild = [one for one in patterns if any(sign in one for sign in "*?[]")]
    if wild:
        raise Failure(f"{wild[0]}: peers do not know which groups there are; name each with --group")
    return slow or "kick"


@click.command()
@click.option(
    "--group",
    "patterns",
    metavar="PATTERN",
    multiple=True,
    required=True,
    help="Group to spool; may be repeated.",
)
@spool_option
@at_daemon
@click.option("--sync", "sync_us", callback=amount(DURATION), default="1s", show_default=True, help=SYNC_HELP)
@click.option(
    "--segment",
    "segment_bytes",
    callback=amount(SIZE),
    default="64MiB",
    show_default=True,
    help="Size at which a segment is finished.",
)
@click.option(
    "--segment-age",
    "segment_us",
    callback=amount(DURATION),
    default="60min",
    show_default=True,
    help="Age at which a segment is finished.",
)
@click.option(
    "--retain",
    "retain_bytes",
    callback=amount(SIZE),
    help="Keep at most this size for each group; the oldest segments are deleted.",
)
@click.option("--retain-age", "retain_us", callback=amount(DURATION), help="Delete segments that are older.")
@click.option("--retain-until-archived", is_flag=True, help="Delete no segment that is not in the archive.")
@click.option(
    "--slow",
    type=click.Choice([one.value for one in Slow]),
    help="Policy of the daemon if the spooler does not keep up.  [default: spill; kick with rmp://]",
)
@click.option("--end-with-stdin", is_flag=True, help="End when stdin does, as it does when its writer dies.")
def run(
    patterns: tuple[str, ...],
    root: Path,
    url: str,
    name: str | None,
    sync_us: int,
    segment_bytes: int,
    segment_us: int,
    retain_bytes: int | None,
    retain_us: int | None,
    retain_until_archived: bool,
    slow: SlowPolicy | None,
    end_with_stdin: bool,
) -> None:
    """Join groups and write their messages to spools, until interrupted.

    PATTERN is a name, or a pattern with * ? [] as for file names: then groups that appear later are joined too.
    """
    retention = Retention(retain_bytes, None if retain_us is None else retain_us / 1e6, retain_until_archived)
    options = SpoolOptions(sync_us / 1e6, segment_bytes, segment_us / 1e6, retention)
    comes_back = Reconnect(give_up_seconds=GIVE_UP_SECONDS)
    with (
        spool_errors(),
        client_errors(),
        connect(
            url,
            name=name,
            slow=_policy(url, slow, patterns),
            window_bytes=WINDOW_BYTES,
            reconnect=comes_back,
            **identity(),
        ) as session,
    ):
        spooler = Spooler(session, root, patterns, options, lambda line: say(f"hop: {line}", err=True))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: spooler.stop())
        if end_with_stdin:
            Thread(target=_stop_at_end_of_stdin, args=[spooler], daemon=True).start()
        spooler.run()
        if end_with_stdin:
            session.abort()  # A daemon that ends would not answer a farewell.


def _stop_at_end_of_stdin(spooler: Spooler) -> None:
    with suppress(OSError):  # A terminal that was hung up has ended, too.
        while os.read(_STDIN, _READ_BYTES):
            pass
    spooler.stop()


@click.group()
def spool() -> None:
    """Write, read, verify and archive durable logs of groups."""


spool.add_command(run)
spool.add_command(replay)


@spool.command("ls")
@spool_option
@json_option
def ls_(root: Path, as_json: bool) -> None:
    """List the spools.

    Columns: group, offsets, size, time of the last record, and the offsets up to which consumers are done.
    """
    with spool_errors():
        rows = [_facts(directory) for directory in spools(root)]
    if as_json:
        click.echo(json.dumps(rows))
        return
    for row in rows:
        group, start, end, segments, size_bytes, last, held = row.values()
        done = f"  consumers: {held}" if held else ""
        say(f"{group}  {start}..{end}  {segments} segments  {size_bytes} B  {last}{done}")


def _facts(directory: Path) -> dict[str, object]:
    there = bases(directory)
    known = bounds(directory)
    paths = [path(directory, base) for base in there for path in (log_path, index_path)]
    last = next(read(directory, max(known.start, known.end - 1), known.end, skip_damaged=True), None)
    moment = "empty" if last is None else datetime.fromtimestamp(last.header.time_us / 1e6, UTC).isoformat()
    return {
        "group": read_head(directory, there[-1]).group,
        "start": known.start,
        "end": known.end,
        "segments": len(there),
        "bytes": sum([path.stat().st_size for path in paths if path.exists()]),
        "last": moment,
        "consumers": consumers(directory),
    }


@spool.command("verify")
@group_argument
@spool_option
@json_option
def verify_(groups: tuple[str, ...], root: Path, as_json: bool) -> None:
    """Read every byte of the spools, and report all damage.

    Exit code 1 means that some was found. Progress is on stderr.
    """
    damaged = 0
    with spool_errors():
        directories = list(chosen(root, groups))
        total_bytes = sum([log_bytes(directory) for directory in directories])
    with spool_errors(), Amounts("verifying", total_bytes) as amounts:
        for directory in directories:
            verdict = verify(directory, amounts.done)
            damaged += len(verdict.findings)
            facts = {"records": verdict.records, "blocks": verdict.blocks, "bytes": verdict.size_bytes}
            if as_json:
                findings = [finding._asdict() for finding in verdict.findings]
                click.echo(json.dumps({"spool": str(directory), **facts, "findings": findings}))
                continue
            say(f"{directory}: {verdict.records} records in {verdict.blocks} blocks can be read")
            for finding in verdict.findings:
                say(f"  {_shown(finding)}")
    if damaged:
        raise Failure(f"{damaged} findings; records that are whole can be read with --skip-damaged")


def _shown(finding: SpoolFinding) -> str:
    lost = "" if finding.start is None else f"; records {finding.start} to before {finding.end} are lost"
    return f"{finding.file}: {finding.what}{lost}"


@spool.command("archive")
@group_argument
@spool_option
@skip_option
def archive_(groups: tuple[str, ...], root: Path, skip_damaged: bool) -> None:
    """Write finished segments to zstd Parquet.

    Each segment that is not in the archive yet becomes one file. Progress is on stderr.
    """
    with spool_errors():
        directories = list(chosen(root, groups))
        total_bytes = sum([waiting_bytes(directory) for directory in directories])
    with spool_errors(), Amounts("archiving", total_bytes) as amounts:
        for directory in directories:
            for done in archive(directory, skip_damaged=skip_damaged, progress=amounts.done):
                say(f"{done.path}  {done.base}..{done.end}  {done.size_bytes} B")
