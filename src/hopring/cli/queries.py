"""`hop groups`, `hop members`, `hop locks`, `hop view` and `hop routes`: queries to a daemon.

`hop routes` also draws the routing trees of a configuration file, which needs no daemon.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Final

import click

from hopring.cli.completion import group_names, site_names
from hopring.cli.daemon_session import at_daemon, checked_url, json_option, query_session, timeout_option
from hopring.cli.terminal import say, say_lines
from hopring.client.queries import DaemonView, GroupInfo, GroupMembers, LinkWeights, LockInfo, WeighedLink
from hopring.config import Config, load_config
from hopring.ids import SiteId
from hopring.printable import printable
from hopring.routing.trees import Pair, Tree, build_trees, islands, pair, topology_of


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
        click.echo(json.dumps([_group_facts(one) for one in found]))
        return
    shown = [printable(one.name) for one in found]
    width = max([len("GROUP"), *map(len, shown)])
    say(f"{'GROUP':{width}}  MEMBERS    HERE")
    for name_shown, one in zip(shown, found, strict=True):
        suspended = "  suspended" if one.suspended else ""
        say(f"{name_shown:{width}}  {one.members:7}  {one.here:6}{suspended}")


def _group_facts(one: GroupInfo) -> dict[str, object]:
    return {"group": one.name, "members": one.members, "here": one.here, "suspended": one.suspended}


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
        click.echo(json.dumps(_members_facts(found)))
        return
    if found.id is None:
        say(f"hop: {group} has no members", err=True)
        return
    many = "1 member" if len(found.members) == 1 else f"{len(found.members)} members"
    state = f", suspended: fewer than {_minimum(found)}" if found.suspended else ""
    say(f"hop: view {_id(found)} of {group}, {many}{state}", err=True)
    width = max([len("DAEMON"), *[len(printable(one.daemon)) for one in found.members]])
    say(f"{'DAEMON':{width}}  MEMBER")
    for one in found.members:
        say(f"{printable(one.daemon):{width}}  {one.name}")


def _members_facts(found: GroupMembers) -> dict[str, object]:
    return {
        "group": found.group,
        "view": None if found.id is None else _id(found),
        "suspended": found.suspended,
        "minimum": _minimum(found),
        "members": [
            {"name": one.name, "daemon": one.daemon, "private_group": one.private_group, "session": one.session}
            for one in found.members
        ],
    }


def _minimum(found: GroupMembers) -> int | str:
    return found.minimum if isinstance(found.minimum, int) else found.minimum.value


def _id(found: GroupMembers) -> str:
    """The daemons' view in which the group's view was made, and its index there."""
    assert found.id is not None, "a group with members has a view"
    view = found.id.view
    return f"{view.counter}.{view.representative}.{view.nonce:016x}/{found.id.signed}"


@click.command()
@click.argument("group", shell_complete=group_names)
@at_daemon
@timeout_option
@json_option
def locks(group: str, url: str, name: str | None, seconds: float, as_json: bool) -> None:
    """List the locks of GROUP that somebody claims.

    A lock without a holder is not granted: no view is primary, or a lease has to run out.
    """
    with query_session(url, name, seconds) as session:
        found = session.locks(group, timeout_seconds=seconds)
    if as_json:
        click.echo(json.dumps([_lock_facts(one) for one in found]))
        return
    rows = [("LOCK", "HOLDER", "FENCE", "WAITING")]
    for one in found:
        holder = "-" if one.holder is None else one.holder.private_group
        fence = "-" if one.fence is None else str(one.fence)
        rows.append((printable(one.name), printable(holder), fence, str(one.waiting)))
    widths = [max([len(row[column]) for row in rows]) for column in range(4)]
    for row in rows:
        say("  ".join([text.ljust(width) for text, width in zip(row, widths, strict=True)]).rstrip())


def _lock_facts(one: LockInfo) -> dict[str, object]:
    holder = None if one.holder is None else one.holder.private_group
    return {"lock": one.name, "holder": holder, "fence": one.fence, "waiting": one.waiting}


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
            "primary": shown.primary,
            "primary_by": shown.primary_by,
            "cause": shown.cause,
            "reason": None if shown.reason is None else asdict(shown.reason),
            "suspended": shown.suspended,
        }
        click.echo(json.dumps(facts))
    else:
        primary = f"primary by {shown.primary_by}" if shown.primary else "not primary"
        if shown.suspended:
            primary += f"  suspended: {' '.join(map(printable, shown.suspended))}"
        say(
            f"{when}  {shown.text}  {len(shown.members)}: {' '.join(shown.members)}  {primary}  ({shown.cause})"
        )


_NUMBER_WIDTH = 10  # The largest weight has ten digits.


_COLUMNS: Final = ("LINK", "PROTOCOL", "CONFIGURED", "MEASURED", "AGREED", "USE")


@click.command()
@click.argument("file", type=click.Path(), required=False)
@click.option("--from", "source", metavar="SITE", shell_complete=site_names, help="Only the tree of this site.")
@click.option("--cut", "cuts", metavar="A,B", multiple=True, help="Leave out this link; may be repeated.")
@click.option(
    "--at", "url", metavar="URL", callback=checked_url, help="Ask this daemon instead of reading FILE."
)
@timeout_option
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
def routes(
    file: str | None, source: str | None, cuts: tuple[str, ...], url: str | None, seconds: float, as_json: bool
) -> None:
    """Draw the routing trees of the cluster of FILE, or list the link weights at a daemon.

    For each source site: the sites it sends to and those that forward, with the weight of each link and the
    distance, which is the sum of weights on the path.

    With --at: of each link the configured weight, the time to deliver that this daemon has measured, the weight
    that all daemons of the view route by, and whether some tree uses the link. Only the lowest daemon of a site
    measures, and only links of its own site.
    """
    if (file is None) == (url is None):
        raise click.UsageError("give FILE, or --at URL")
    if url is not None:
        if source is not None or cuts:
            raise click.UsageError("--from and --cut are for trees of FILE")
        with query_session(url, None, seconds) as session:
            _show_weights(session.link_weights(timeout_seconds=seconds), as_json)
    elif file is not None:
        _show_trees(load_config(file), source, cuts, as_json)


def _show_weights(page: LinkWeights, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([asdict(line) for line in page.links]))
        return
    rows = [_COLUMNS, *[_row(line) for line in page.links]]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_COLUMNS))]
    for row in rows:
        texts = [
            f"{text:>{widths[at]}}" if 2 <= at <= 4 else f"{text:{widths[at]}}" for at, text in enumerate(row)
        ]
        say("  ".join(texts).rstrip())
    if page.weights == "measured" and page.representative not in ("", page.daemon):
        say(f"hop: {page.representative} measures the links of this site, not {page.daemon}", err=True)


def _row(line: WeighedLink) -> tuple[str, ...]:
    measured, agreed = ["-" if one is None else str(one) for one in (line.measured, line.agreed)]
    return (
        printable(",".join(line.sites)),
        printable(line.protocol),
        str(line.configured),
        measured,
        agreed,
        printable(line.use),
    )


def _show_trees(config: Config, source: str | None, cuts: tuple[str, ...], as_json: bool) -> None:
    sources = range(len(config.sites)) if source is None else [_site(config, source, "--from")]
    weights = topology_of(config).weights
    cut = {_link(config, weights, one) for one in cuts}
    trees = build_trees(map(SiteId, range(len(config.sites))), weights, cut)
    chosen = [trees[SiteId(site)] for site in sources]
    if as_json:
        click.echo(json.dumps([_facts(tree, config, weights) for tree in chosen]))
    else:
        say_lines("\n\n".join(draw(tree, config, weights) for tree in chosen))
    if len(islands(trees)) > 1:
        parts = [" ".join(_names(config, mask)) for mask in islands(trees)]
        say(f"hop: the sites fall apart: {' | '.join(parts)}", err=True)


def draw(tree: Tree, config: Config, weights: dict[Pair, int]) -> str:
    """The tree as lines of text."""
    rows = [(config.sites[tree.source].name, "weight", "distance")]
    for rails, site in _walk(tree, tree.source, ""):
        weight = weights[pair(site, tree.parent[site])]
        rows.append((f"{rails}{config.sites[site].name}", str(weight), str(tree.distance[site])))
    width = max(len(left) for left, _, _ in rows)
    lines = [f"{left:{width}}  {mid:>{_NUMBER_WIDTH}}  {right:>{_NUMBER_WIDTH}}" for left, mid, right in rows]
    lines += [f"{name} is not reached" for name in _unreached(tree, config)]
    return "\n".join(lines)


def _walk(tree: Tree, site: SiteId, rails: str) -> Iterator[tuple[str, SiteId]]:
    """All sites below this one, each with the tree lines to its left."""
    branches = tree.branches(site)
    for branch in branches:
        last = branch is branches[-1]
        yield rails + ("└── " if last else "├── "), branch.site
        yield from _walk(tree, branch.site, rails + ("    " if last else "│   "))


def _facts(tree: Tree, config: Config, weights: dict[Pair, int]) -> dict[str, object]:
    name = [site.name for site in config.sites]
    reached = [
        {
            "site": name[site],
            "parent": name[parent],
            "weight": weights[pair(site, parent)],
            "distance": tree.distance[site],
        }
        for site, parent in sorted(tree.parent.items())
    ]
    return {"source": name[tree.source], "reached": reached, "not_reached": _unreached(tree, config)}


def _unreached(tree: Tree, config: Config) -> list[str]:
    return _names(config, ~tree.reached)


def _names(config: Config, mask: int) -> list[str]:
    return [site.name for at, site in enumerate(config.sites) if mask >> at & 1]


def _site(config: Config, name: str, option: str) -> SiteId:
    try:
        return config.site_id(name)
    except KeyError:
        known = ", ".join(site.name for site in config.sites)
        raise click.BadParameter(f"no site {name!r}; there are {known}", param_hint=option) from None


def _link(config: Config, weights: dict[Pair, int], text: str) -> Pair:
    names = text.split(",")
    if len(names) != 2:
        raise click.BadParameter(f"{text!r} does not name two sites; write A,B", param_hint="--cut")
    one, other = [_site(config, name.strip(), "--cut") for name in names]
    if pair(one, other) not in weights:
        raise click.BadParameter(f"there is no link between {names[0]} and {names[1]}", param_hint="--cut")
    return pair(one, other)
