"""`hop spool replay`: prints the records of a group's spool."""

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from hopring.cli.completion import spool_names
from hopring.cli.spool.shared import skip_option, spool_option, telling
from hopring.spool.errors import OffsetMissing
from hopring.spool.layout import directory_of
from hopring.spool.reading import bounds, read
from hopring.spool.record import (
    RecordedGap,
    RecordedTransition,
    RecordedView,
    RecordKind,
    SpoolRecord,
    decode_body,
)

POLL_SECONDS: Final = 0.2


@click.command()
@click.argument("group", shell_complete=spool_names)
@spool_option
@click.option(
    "--from", "start", metavar="OFFSET", type=click.IntRange(0), help="First record.  [default: the oldest]"
)
@click.option("--to", "end", metavar="OFFSET", type=click.IntRange(0), help="Record behind the last one.")
@click.option("--follow", is_flag=True, help="Go on with what is added, until interrupted.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line, with all that is known.")
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
    with telling():
        for record in _records(directory, start, end, follow, skip_damaged):
            if as_json:
                click.echo(json.dumps(facts_of(record)))
            elif views or record.header.kind in (RecordKind.MESSAGE, RecordKind.GAP):
                click.echo(as_line(record))


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


def as_line(record: SpoolRecord) -> str:
    """A record for people."""
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
    """A record for scripts."""
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
