"""`hop sub`: shows what comes to groups."""

import base64
import json

import click

from hopring.cli.at_daemon import at_daemon, talking
from hopring.cli.completion import group_names
from hopring.cli.staying import Presence, events_of, give_up_option, reconnect_of
from hopring.client.blocking import Session, connect
from hopring.client.events import Event, Gap, Member, Message, Reconnected, SlowWarning, Transition, View
from hopring.client.sequence import microseconds


@click.command()
@click.argument("groups", metavar="GROUP...", nargs=-1, required=True, shell_complete=group_names)
@at_daemon
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line, with sender and service.")
@click.option("--views", is_flag=True, help="Show views and transitions too.")
@click.option("--count", type=click.IntRange(1), help="End after so many messages.")
@give_up_option(None)
def sub(
    groups: tuple[str, ...],
    url: str,
    name: str | None,
    as_json: bool,
    views: bool,
    count: int | None,
    give_up_seconds: float | None,
) -> None:
    """Join the groups and print what comes, one line per message, until interrupted.

    When the connection is lost it comes back, to the same daemon or another one of --at, joins again, and says
    on stderr for how long messages are missing; with --json also as an object among the others.
    """
    reconnect = reconnect_of(give_up_seconds)
    with talking(), connect(url, name=name, membership=views, reconnect=reconnect) as session:
        for group in groups:
            session.join(group)
        click.echo(f"hop: {session.private_group} is in {', '.join(groups)}", err=True)
        _show(session, as_json, count)


def _show(session: Session, as_json: bool, count: int | None) -> None:
    seen = 0
    for event in events_of(session, Presence(session)):
        if as_json:
            click.echo(json.dumps(_facts(event)))
        elif not isinstance(event, Reconnected):
            click.echo(as_line(event))
        seen += isinstance(event, Message)
        if seen == count:
            return


def as_line(event: Event) -> str:
    """An event for people."""
    match event:
        case Message():
            return event.data.decode(errors="replace")
        case View():
            return f"-- view of {event.group}: {names(event.members)} ({_why(event)})"
        case Transition():
            return f"-- the view of {event.group} is closing; still together: {names(event.members)}"
        case Reconnected():
            missing = f"messages since {event.gap.reason} are missing"
            return f"-- again connected, as {event.private_group}; {missing}"
        case Gap():
            return f"-- {event.messages} messages of {' '.join(event.groups)} are missing here"
        case SlowWarning():
            return f"-- too slow: {event.waiting_bytes} bytes wait at the daemon, of {event.limit_bytes}"


def _why(view: View) -> str:
    return view.cause if view.who is None else f"{view.cause} of {view.who.private_group}"


def names(members: tuple[Member, ...]) -> str:
    """Members by their private groups."""
    return " ".join([member.private_group for member in members])


def _facts(event: Event) -> dict[str, object]:
    match event:
        case Message():
            return {
                "event": "message",
                "groups": event.groups,
                "sender": event.sender,
                "service": event.service.name.lower(),
                "type": event.type,
                **_data(event.data),
            }
        case View():
            return {
                "event": "view",
                "group": event.group,
                "cause": event.cause,
                "who": None if event.who is None else event.who.private_group,
                "members": [member.private_group for member in event.members],
                "together": [member.private_group for member in event.together],
            }
        case Transition():
            members = [member.private_group for member in event.members]
            return {"event": "transition", "group": event.group, "members": members}
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
        case SlowWarning():
            limits = {"waiting_bytes": event.waiting_bytes, "limit_bytes": event.limit_bytes}
            return {"event": "slow", "policy": event.policy, **limits}


def _data(data: bytes) -> dict[str, str]:
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"data_base64": base64.b64encode(data).decode()}
