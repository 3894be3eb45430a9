"""`hop wide send`, `hop wide sub`, `hop wide link`: messages among clusters, and links switched on and off."""

import asyncio
import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from hopring.cli.daemon_session import client_errors, json_option
from hopring.cli.terminal import Exit, Failure, say, say_payload
from hopring.cli.wide.options import Command, cluster_option, file_option, session_at
from hopring.client.aio import Session
from hopring.config.units import DURATION
from hopring.printable import printable
from hopring.wide.errors import NotEverywhere
from hopring.wide.library.events import Completed, WideEvent, WideGap, WideMessage
from hopring.wide.library.files import ReceivedFile, SentFile
from hopring.wide.library.sets import JOIN_SECONDS, JoinedSet, LongHaulLink, WideSender

ACCEPT_SECONDS: Final = 30.0
"""How long a command waits for a majority of the members."""


class Awaited(Failure):
    """Something did not happen in the time that was given."""

    exit_code = int(Exit.TIMEOUT)


def names_option(text: str) -> Callable[[Command], Command]:
    """Adds the option --clusters, a list of names."""
    return click.option("--clusters", metavar="NAME,...", callback=_read_names, help=text)


def _read_names(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[str, ...]:
    return () if text is None else tuple([one.strip() for one in text.split(",") if one.strip()])


def read_seconds(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    """Parses a duration with its unit, as 30s."""
    if text is None:
        return None
    try:
        return DURATION.read(text) / 1_000_000
    except ValueError as wrong:
        raise click.BadParameter(f"{text!r} {wrong}; write it as 30s") from None


def message_options(command: Command) -> Command:
    """Adds the options of what is sent: to whom, in which order, and what is waited for."""
    for option in reversed(
        [
            file_option,
            click.option("--abcast", is_flag=True, help="In one order with all abcasts of the conversation."),
            names_option(
                "Participants of the conversation, this cluster among them.  [default: all of the set]"
            ),
            click.option("--talk", metavar="NAME", default="", help="Name of the conversation, if it has one."),
            click.option("--to", metavar="CLUSTER", help="To this one of the participants alone."),
            click.option(
                "--entry", type=click.IntRange(0, 65_535), default=0, show_default=True, help="Entry point."
            ),
            click.option("--everywhere", is_flag=True, help="Wait until all destinations have it on disk."),
            click.option(
                "--timeout",
                "seconds",
                metavar="DURATION",
                callback=read_seconds,
                help="How long to wait for --everywhere; exit code 4 after it.  [default: without end]",
            ),
            json_option,
            cluster_option,
        ]
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class SendOptions:
    """What `hop wide send` and `hop wide put` send, and how."""

    name: str
    text: str
    abcast: bool
    clusters: tuple[str, ...]
    talk: str
    to: str | None
    entry: int
    everywhere: bool
    seconds: float | None
    as_json: bool
    source: Path | None = None  # Of a file that is sent with it,
    place: str | None = None  # under this name,
    delete: bool = False  # and deleted in the end.


@click.command()
@click.argument("name", metavar="SET")
@click.argument("text")
@message_options
def send(path: Path | None, cluster_name: str | None, url: str | None, **options: Any) -> None:
    """Send TEXT to the clusters of SET.

    SET has been joined in this cluster, by `hop wide sub` or a program. With exit code 0 the message is
    accepted: it is on the disks of a majority of the members here, and is delivered everywhere in the end.
    """
    _start(path, cluster_name, url, SendOptions(**options))


@click.command()
@click.argument("name", metavar="SET")
@click.argument("source", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--name",
    "place",
    metavar="NAME",
    help="Where receivers find it, in the directory of the set.  [default: a place that is chosen]",
)
@click.option("--text", default="", help="Message that comes with the file.")
@click.option("--delete", is_flag=True, help="Wait as with --everywhere, then delete FILE if it is the same.")
@message_options
def put(path: Path | None, cluster_name: str | None, url: str | None, **options: Any) -> None:
    """Send FILE with a message to the clusters of SET.

    With exit code 0 it is accepted: file and message are on the disks of a majority of the members here, and
    FILE is not needed any more. Each receiver gets the message when the file is whole there.
    """
    _start(path, cluster_name, url, SendOptions(**options))


def _start(path: Path | None, cluster_name: str | None, url: str | None, wanted: SendOptions) -> None:
    if wanted.abcast and wanted.to is not None:
        raise click.UsageError("--abcast goes to all participants; leave --to out")
    with client_errors():
        asyncio.run(_send(path, cluster_name, url, wanted))


async def _send(path: Path | None, cluster_name: str | None, url: str | None, wanted: SendOptions) -> None:
    async with session_at(path, cluster_name, url) as session, WideSender(session, wanted.name) as to:
        talk = to.conversation(*wanted.clusters, name=wanted.talk)
        data, common = wanted.text.encode(), {"entry": wanted.entry, "timeout_seconds": ACCEPT_SECONDS}
        if wanted.source is not None:
            receipt = await talk.send_file(
                wanted.source,
                data,
                name=wanted.place,
                to=wanted.to,
                abcast=wanted.abcast,
                entry=wanted.entry,
                delete_source=wanted.delete,
            )
        elif wanted.abcast:
            receipt = await talk.abcast(data, **common)  # type: ignore[arg-type]
        else:
            receipt = await talk.cbcast(data, to=wanted.to, **common)  # type: ignore[arg-type]
        everywhere = wanted.everywhere or wanted.delete
        if everywhere:
            try:
                await receipt.everywhere(timeout_seconds=wanted.seconds)
            except NotEverywhere as error:
                raise Awaited(printable(str(error))) from None
        if wanted.as_json:
            facts = {"set": wanted.name, "id": str(receipt.id), "everywhere": everywhere}
            click.echo(json.dumps(facts))
        else:
            say(f"hop: {receipt.id} is {'everywhere' if everywhere else 'accepted'}", err=True)


@click.command()
@click.argument("name", metavar="SET")
@file_option
@click.option("--group", metavar="GROUP", help="Local group of the set.  [default: its name]")
@names_option("All clusters of the set, the same wherever it is joined.  [default: those of the file]")
@click.option("--durable", metavar="NAME", help="Get again what was not printed, also after a crash.")
@click.option("--count", type=click.IntRange(1), help="End after this many messages.")
@json_option
@cluster_option
def sub(
    path: Path | None,
    cluster_name: str | None,
    url: str | None,
    name: str,
    group: str | None,
    clusters: tuple[str, ...],
    durable: str | None,
    count: int | None,
    as_json: bool,
) -> None:
    """Join SET and print its messages, one line each, until interrupted.

    The set is made if it is new. What waited for this cluster comes first.
    """
    with client_errors():
        asyncio.run(_sub(path, cluster_name, url, (name, group, clusters, durable), count, as_json))


async def _sub(
    path: Path | None,
    cluster_name: str | None,
    url: str | None,
    of: tuple[str, str | None, tuple[str, ...], str | None],
    count: int | None,
    as_json: bool,
) -> None:
    name, group, clusters, durable = of
    async with (
        session_at(path, cluster_name, url) as session,
        JoinedSet(session, name, group, clusters or None, durable, JOIN_SECONDS) as joined,
    ):
        say(f"hop: {joined.cluster} is in {name}", err=True)
        seen = 0
        while seen != count:
            event = await joined.receive()
            _show(event, as_json)
            if durable and not isinstance(event, WideGap):
                await joined.done(event)
            seen += isinstance(event, WideMessage)


def _show(event: WideEvent, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(facts_of(event)))
    elif isinstance(event, WideMessage):
        if event.file is not None:
            say(f"-- file {event.file.path}, {event.file.size_bytes} bytes, on {event.file.host}")
        say_payload(event.data)
    elif isinstance(event, Completed):
        sent = "" if event.file is None else f", of the file {event.file.path} on {event.file.host}"
        say(f"-- all clusters have {event.id}{sent}")
    else:
        say(f"-- {event.first} to {event.last} are missing here: this session was away")


def facts_of(event: WideEvent) -> dict[str, object]:
    """An event as a JSON object."""
    if isinstance(event, WideMessage):
        try:
            body: dict[str, object] = {"text": event.data.decode()}
        except UnicodeDecodeError:
            body = {"base64": base64.b64encode(event.data).decode()}
        return {
            "event": "message",
            "set": event.set,
            "id": str(event.id),
            "cluster": event.id.cluster,
            "sender": event.sender,
            "number": event.number,
            "clusters": event.clusters,
            "talk": event.conversation,
            "to": event.to,
            "entry": event.entry,
            "order": event.order,
            "call": event.call,
            "file": _file_facts(event.file),
            **body,
        }
    if isinstance(event, Completed):
        facts: dict[str, object] = {"event": "completed", "set": event.set, "id": str(event.id)}
        return {**facts, "number": event.number, "file": _file_facts(event.file)}
    return {"event": "gap", "set": event.set, "first": event.first, "last": event.last}


def _file_facts(file: ReceivedFile | SentFile | None) -> dict[str, object] | None:
    if file is None:
        return None
    return {"path": str(file.path), "host": file.host, "bytes": file.size_bytes, "sha256": file.sha256}


@click.command()
@click.argument("peer", metavar="CLUSTER")
@click.argument("switch", type=click.Choice(["on", "off", "drain"]))
@file_option
@cluster_option
def link(path: Path | None, cluster_name: str | None, url: str | None, peer: str, switch: str) -> None:
    """Switch the link to CLUSTER on or off, or drain it: off when all that waits now is there.

    It is the link of the cluster that --cluster names. When `off` ends with exit code 0 nothing is sent on it
    any more; messages wait on both sides.
    """
    with client_errors():
        asyncio.run(_link(path, cluster_name, url, peer, switch))


async def _link(path: Path | None, cluster_name: str | None, url: str | None, peer: str, switch: str) -> None:
    async with session_at(path, cluster_name, url) as session:
        await switch_link(session, peer, switch)
    say(f"hop: the link to {peer} is {'being drained' if switch == 'drain' else switch}", err=True)


async def switch_link(session: Session[bytes], peer: str, switch: str) -> None:
    """Switches a link on, off or to be drained."""
    handle = LongHaulLink(session, peer)
    calls = {"on": handle.on, "off": handle.off, "drain": handle.drain}
    await calls[switch](timeout_seconds=ACCEPT_SECONDS)
