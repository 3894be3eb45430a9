"""`hop view`: the view of the daemons, and each new one."""

import json
from datetime import UTC, datetime, timedelta

import click

from hopring.cli.asking import asking, json_option, timeout_option
from hopring.cli.at_daemon import at_daemon
from hopring.client.queries import DaemonView


@click.command()
@at_daemon
@timeout_option
@json_option
@click.option("--watch", is_flag=True, help="Go on with each view that follows, until interrupted.")
@click.option("--count", type=click.IntRange(1), help="With --watch: end after so many views.")
def view(url: str, name: str | None, seconds: float, as_json: bool, watch: bool, count: int | None) -> None:
    """Show the daemons of the present view.

    It shows since when, and why the view was installed.
    """
    with asking(url, name, seconds) as session:
        shown = session.view(timeout_seconds=seconds)
        _show(shown, session.daemon, as_json)
        seen = 1
        while watch and seen != count:
            shown = session.view(shown)
            _show(shown, session.daemon, as_json)
            seen += 1


def _show(shown: DaemonView, daemon: str, as_json: bool) -> None:
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
