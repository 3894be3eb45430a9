"""`hop pub` and `hop sub`: send messages to a group, print the messages of groups."""

import base64
import json
import sys
from collections.abc import Iterator

import click

from hopring.cli.completion import group_names
from hopring.cli.daemon_session import (
    ConnectionWatch,
    at_daemon,
    client_errors,
    events_of,
    give_up_option,
    identity,
    reconnect_of,
    service_option,
)
from hopring.cli.terminal import say, say_payload
from hopring.client.arguments import MINIMUM_MAX
from hopring.client.blocking import Session, connect
from hopring.client.calls import GOODBYE_SECONDS
from hopring.client.events import (
    Event,
    Excluded,
    FlushRequest,
    Gap,
    Member,
    Message,
    Quorum,
    Ready,
    Reconnected,
    SlowWarning,
    Suspended,
    Transition,
    View,
)
from hopring.client.receiving.sequence import microseconds
from hopring.services import Service


def checked_minimum(_ctx: click.Context, _param: click.Parameter, value: str) -> int | Quorum:
    """The minimum of a group: a number of members, `majority` or `all`; a usage error for anything else."""
    if value in (Quorum.MAJORITY.value, Quorum.ALL.value):
        return Quorum(value)
    if value.isdecimal() and 1 <= int(value) <= MINIMUM_MAX:
        return int(value)
    raise click.BadParameter(f"give a number from 1 to {MINIMUM_MAX}, majority or all")


@click.command()
@click.argument("groups", metavar="GROUP...", nargs=-1, required=True, shell_complete=group_names)
@at_daemon
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line, with sender and service.")
@click.option("--views", is_flag=True, help="Show views and transitions too.")
@click.option("--count", type=click.IntRange(1), help="End after this many messages.")
@click.option(
    "--minimum",
    default="1",
    callback=checked_minimum,
    help="The fewest members with which the groups go on: a number, majority or all. Shown with --views.",
)
@give_up_option(None)
def sub(
    groups: tuple[str, ...],
    url: str,
    name: str | None,
    as_json: bool,
    views: bool,
    count: int | None,
    minimum: int | Quorum,
    give_up_seconds: float | None,
) -> None:
    """Join the groups and print their messages, one line each, until interrupted.

    When the connection is lost, the command reconnects, to the same daemon or another one of --at, joins again,
    and reports on stderr for how long messages are missing; with --json also as an object among the others.
    """
    reconnect = reconnect_of(give_up_seconds)
    with (
        client_errors(),
        connect(url, name=name, membership=views, reconnect=reconnect, **identity()) as session,
    ):
        for group in groups:
            session.join(group, minimum=minimum)
        say(f"hop: {session.private_group} is in {', '.join(groups)}", err=True)
        _print_events(session, as_json, count)


def _print_events(session: Session, as_json: bool, count: int | None) -> None:
    seen = 0
    for event in events_of(session, ConnectionWatch(session)):
        if as_json:
            click.echo(json.dumps(_event_fields(event)))
        elif not isinstance(event, Reconnected):
            show_event(event)
        seen += isinstance(event, Message)
        if seen == count:
            return


def show_event(event: Event) -> None:
    """Prints an event as one line of text."""
    if isinstance(event, Message):
        say_payload(event.data)
    else:
        say(as_line(event))


def as_line(
    event: View | Transition | Suspended | Reconnected | Gap | SlowWarning | FlushRequest | Excluded | Ready,
) -> str:
    """An event that is no message as one line of text."""
    match event:
        case View():
            return f"-- view of {event.group}: {names(event.members)} ({_why(event)})"
        case Transition():
            return f"-- the view of {event.group} is closing; still together: {names(event.members)}"
        case Suspended():
            needed = _minimum_text(event.minimum)
            return f"-- {event.group} is suspended: {needed} of its members have to be there"
        case Reconnected():
            missing = f"messages since {event.gap.reason} are missing"
            return f"-- again connected, as {event.private_group}; {missing}"
        case Gap():
            return f"-- {event.messages} messages of {' '.join(event.groups)} are missing here"
        case Ready():
            return f"-- the state of {event.group} is here"
        case SlowWarning():
            return f"-- too slow: {event.waiting_bytes} bytes wait at the daemon, of {event.limit_bytes}"
        case FlushRequest():
            return f"-- the view of {event.group} is about to end; it has {names(event.members)}"
        case Excluded():
            return f"-- the view of {event.group} went on without this session: {event.reason}"


def _minimum_text(minimum: int | Quorum) -> str:
    return minimum.value if isinstance(minimum, Quorum) else str(minimum)


def _why(view: View) -> str:
    return view.cause if view.who is None else f"{view.cause} of {view.who.private_group}"


def names(members: tuple[Member, ...]) -> str:
    """Members by their private groups."""
    return " ".join([member.private_group for member in members])


def _event_fields(event: Event) -> dict[str, object]:
    match event:
        case Message():
            return {
                "event": "message",
                "groups": event.groups,
                "sender": event.sender,
                "service": event.service.name.lower(),
                "type": event.type,
                **({"headers": dict(event.headers)} if event.headers else {}),
                **data_fields(event.data),
            }
        case View():
            return {
                "event": "view",
                "group": event.group,
                "cause": event.cause,
                "who": None if event.who is None else event.who.private_group,
                "members": [member.private_group for member in event.members],
                "together": [member.private_group for member in event.together],
                "suspended": event.suspended,
            }
        case Transition():
            members = [member.private_group for member in event.members]
            return {"event": "transition", "group": event.group, "members": members}
        case Suspended():
            members = [member.private_group for member in event.members]
            minimum = _minimum_text(event.minimum)
            return {"event": "suspended", "group": event.group, "members": members, "minimum": minimum}
        case Reconnected():
            times = {
                "lost_at_us": microseconds(event.gap.lost_at_seconds),
                "back_at_us": microseconds(event.gap.back_at_seconds),
            }
            facts = {"event": "reconnected", "groups": event.groups, "daemon": event.daemon}
            return {**facts, "reason": event.gap.reason, **times, "in_doubt": event.gap.in_doubt}
        case Gap():
            gap = {"messages": event.messages, "size_bytes": event.size_bytes, "complete": event.complete}
            return {"event": "gap", "groups": event.groups, **gap}
        case Ready():
            return {"event": "ready", "group": event.group, "speakers": event.speakers, "merged": event.merged}
        case SlowWarning():
            limits = {"waiting_bytes": event.waiting_bytes, "limit_bytes": event.limit_bytes}
            return {"event": "slow", "policy": event.policy, **limits}
        case FlushRequest():
            members = [member.private_group for member in event.members]
            return {"event": "flushrequest", "group": event.group, "members": members}
        case Excluded():
            return {"event": "excluded", "group": event.group, "reason": event.reason}


def data_fields(data: bytes) -> dict[str, str]:
    """A body for JSON: as text if it is UTF-8, otherwise in base64."""
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"data_base64": base64.b64encode(data).decode()}


@click.command()
@click.argument("group", shell_complete=group_names)
@click.argument("data")
@at_daemon
@service_option
@click.option(
    "--type",
    "message_type",
    type=click.IntRange(0, 0xFFFF),
    default=0,
    help="Message type: a number for the application; 0 by default.",
)
def pub(group: str, data: str, url: str, name: str | None, service: str, message_type: int) -> None:
    """Send DATA to GROUP; with - as DATA, each line of stdin.

    The command ends when all messages have their place in the order. It warns on stderr if GROUP had no members
    at the place of the first one. Unreliable messages have no place.
    """
    with client_errors(), connect(url, name=name, membership=False, reconnect=False, **identity()) as session:
        messages = _lines() if data == "-" else iter([data.encode()])
        promise = Service[service.upper()]
        first = None if promise.loose else next(messages, None)
        if first is not None:
            _send_first(session, group, first, promise, message_type)
        for message in messages:
            session.multicast(group, message, service=promise, type=message_type)


def _send_first(session: Session, group: str, message: bytes, service: Service, message_type: int) -> None:
    """Sends a message and waits for its receipt. Waiting for every receipt would make a long input slow."""
    receipt = session.multicast_wait(
        group, message, service=service, type=message_type, timeout_seconds=GOODBYE_SECONDS
    )
    if receipt.members == 0:
        say(f"hop: {group} has no members; is the name right? `hop groups` lists the groups", err=True)


def _lines() -> Iterator[bytes]:
    for line in sys.stdin.buffer:
        yield line.removesuffix(b"\n")
