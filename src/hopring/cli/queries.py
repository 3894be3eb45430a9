"""`hop groups`, `hop members` and `hop view`: queries to a daemon."""

import json
from datetime import UTC, datetime, timedelta

import click

from hopring.cli.completion import group_names
from hopring.cli.daemon_session import at_daemon, json_option, query_session, timeout_option
from hopring.client.queries import DaemonView, GroupMembers


@click.command()
@at_daemon
@timeout_option
@json_option
def groups(url: str, name: str | None, seconds: float, as_json: bool) -> None:
    """List the groups and how many members they have.

    HERE counts the members that are clients of this daemon. Empty groups and private groups are not listed.
    """
    with query_session(url, name, seconds) as session:
        found = session.groups(timeout_seconds=seconds)
    if as_json:
        click.echo(json.dumps([{"group": one.name, "members": one.members, "here": one.here} for one in found]))
        return
    width = max([len("GROUP"), *[len(one.name) for one in found]])
    click.echo(f"{'GROUP':{width}}  MEMBERS    HERE")
    for one in found:
        click.echo(f"{one.name:{width}}  {one.members:7}  {one.here:6}")


@click.command()
@click.argument("group", shell_complete=group_names)
@at_daemon
@timeout_option
@json_option
def members(group: str, url: str, name: str | None, seconds: float, as_json: bool) -> None:
    """List the members of GROUP.

    They are sorted by daemon and name. A group without members has no rows.
    """
    with query_session(url, name, seconds) as session:
        found = session.members(group, timeout_seconds=seconds)
    if as_json:
        click.echo(json.dumps(_facts(found)))
        return
    if found.id is None:
        click.echo(f"hop: {group} has no members", err=True)
        return
    many = "1 member" if len(found.members) == 1 else f"{len(found.members)} members"
    click.echo(f"hop: view {_id(found)} of {group}, {many}", err=True)
    width = max([len("DAEMON"), *[len(one.daemon) for one in found.members]])
    click.echo(f"{'DAEMON':{width}}  MEMBER")
    for one in found.members:
        click.echo(f"{one.daemon:{width}}  {one.name}")


def _facts(found: GroupMembers) -> dict[str, object]:
    return {
        "group": found.group,
        "view": None if found.id is None else _id(found),
        "members": [
            {"name": one.name, "daemon": one.daemon, "private_group": one.private_group, "session": one.session}
            for one in found.members
        ],
    }


def _id(found: GroupMembers) -> str:
    """The daemons' view in which the group's view was made, and its index there."""
    assert found.id is not None, "a group with members has a view"
    view = found.id.view
    return f"{view.counter}.{view.representative}.{view.nonce:016x}/{found.id.signed}"


@click.command()
@at_daemon
@timeout_option
@json_option
@click.option("--watch", is_flag=True, help="Show each following view too, until interrupted.")
@click.option("--count", type=click.IntRange(1), help="With --watch: end after this many views.")
def view(url: str, name: str | None, seconds: float, as_json: bool, watch: bool, count: int | None) -> None:
    """Show the daemons of the present view.

    It also shows when and why the view was installed.
    """
    with query_session(url, name, seconds) as session:
        shown = session.view(timeout_seconds=seconds)
        _print_view(shown, session.daemon, as_json)
        seen = 1
        while watch and seen != count:
            shown = session.view(shown)
            _print_view(shown, session.daemon, as_json)
            seen += 1


def _print_view(shown: DaemonView, daemon: str, as_json: bool) -> None:
    since = datetime.now(UTC) - timedelta(seconds=shown.age_seconds)
    when = since.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if as_json:
        facts = {
            "view": shown.text,
            "since": when,
            "age_s": round(shown.age_seconds, 3),
            "daemon": daemon,
            "members": shown.members,
            "cause": shown.cause,
        }
        click.echo(json.dumps(facts))
    else:
        click.echo(f"{when}  {shown.text}  {len(shown.members)}: {' '.join(shown.members)}  ({shown.cause})")
