"""`hop spool`: the group of verbs, and what those that only look at spools do."""

import json
from datetime import UTC, datetime
from pathlib import Path

import click

from hopring.cli.asking import json_option
from hopring.cli.exits import Failure
from hopring.cli.progress_line import Amounts
from hopring.cli.spool.replay import replay
from hopring.cli.spool.run import run
from hopring.cli.spool.shared import chosen, group_argument, skip_option, spool_option, telling
from hopring.spool.archive import archive, waiting_bytes
from hopring.spool.layout import bases, index_path, log_path, spools
from hopring.spool.reading import bounds, read, read_head
from hopring.spool.retention import consumers
from hopring.spool.verify import SpoolFinding, log_bytes, verify


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

    It shows group, offsets, size, time of the last record, and the offsets up to which consumers are done.
    """
    with telling():
        rows = [_facts(directory) for directory in spools(root)]
    if as_json:
        click.echo(json.dumps(rows))
        return
    for row in rows:
        group, start, end, segments, size_bytes, last, held = row.values()
        done = f"  consumers: {held}" if held else ""
        click.echo(f"{group}  {start}..{end}  {segments} segments  {size_bytes} B  {last}{done}")


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
    """Read every byte of the spools, and name all damage.

    Exit code 1 means that there is some. Progress is on stderr.
    """
    damaged = 0
    with telling():
        directories = list(chosen(root, groups))
        total_bytes = sum([log_bytes(directory) for directory in directories])
    with telling(), Amounts("verifying", total_bytes) as amounts:
        for directory in directories:
            verdict = verify(directory, amounts.done)
            damaged += len(verdict.findings)
            facts = {"records": verdict.records, "blocks": verdict.blocks, "bytes": verdict.size_bytes}
            if as_json:
                findings = [finding._asdict() for finding in verdict.findings]
                click.echo(json.dumps({"spool": str(directory), **facts, "findings": findings}))
                continue
            click.echo(f"{directory}: {verdict.records} records in {verdict.blocks} blocks can be read")
            for finding in verdict.findings:
                click.echo(f"  {_shown(finding)}")
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
    """Write sealed segments to zstd Parquet.

    Each segment that is not in the archive yet becomes one file. Progress is on stderr.
    """
    with telling():
        directories = list(chosen(root, groups))
        total_bytes = sum([waiting_bytes(directory) for directory in directories])
    with telling(), Amounts("archiving", total_bytes) as amounts:
        for directory in directories:
            for done in archive(directory, skip_damaged=skip_damaged, progress=amounts.done):
                click.echo(f"{done.path}  {done.base}..{done.end}  {done.size_bytes} B")
