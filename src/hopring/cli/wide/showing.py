"""`hop wide status`, `links`, `sets`, `spools`, `check`: what members show of themselves; the clusters file."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from hopring.cli.daemon_session import client_errors, identity, identity_options, json_option
from hopring.cli.terminal import say
from hopring.cli.wide.options import (
    chosen_cluster,
    chosen_file,
    cluster_option,
    file_option,
    session_at,
    urls_of,
)
from hopring.cli.wide.talking import Awaited, read_seconds
from hopring.client.aio import connect
from hopring.errors import HopError
from hopring.haul.ids import clusters_in
from hopring.wide.clusters_file import ClustersFile
from hopring.wide.library.sets import status as ask_status
from hopring.wide.process.transport_security import check_wide_exposure, load_wide_tls

LOOK_SECONDS: Final = 0.2
STATUS_SECONDS: Final = 5.0

Status = dict[str, Any]


async def _statuses(path: Path | None, cluster_name: str | None, url: str | None) -> list[Status]:
    async with session_at(path, cluster_name, url) as session:
        return await ask_status(session)


def of_cluster(members: list[Status]) -> Status:
    """The status of a cluster, by a member that serves, with all members that answer."""
    best = max(members, key=lambda one: (bool(one["serving"]), int(one["epoch"])))
    return {**best, "answering": [one["member"] for one in members]}


@click.command()
@file_option
@click.option(
    "--cluster", "cluster_name", metavar="NAME", help="This cluster alone.  [default: all of the file]"
)
@json_option
@identity_options
def status(path: Path | None, cluster_name: str | None, as_json: bool) -> None:
    """Show all clusters of the file: members, links, sets and spools.

    It asks at the `daemons` of each cluster; exit code 1 if a cluster does not answer, or does not serve.
    """
    file, path = chosen_file(path)
    names = [one.name for one in file.clusters] if cluster_name is None else [cluster_name]
    for name in names:
        chosen_cluster(file, path, name)
    found = asyncio.run(_all(path, names))
    if as_json:
        click.echo(json.dumps({"wide": file.wide, "digest": file.whole_digest, "clusters": found}, indent=2))
    else:
        for name in names:
            _show_cluster(name, found[name])
    if not all(one.get("serving") for one in found.values()):
        click.get_current_context().exit(1)


async def _all(path: Path, names: list[str]) -> dict[str, Status]:
    answers = await asyncio.gather(*[_one(path, name) for name in names])
    return dict(zip(names, answers, strict=True))


async def _one(path: Path, name: str) -> Status:
    try:
        async with asyncio.timeout(STATUS_SECONDS):
            file, _ = chosen_file(path)
            at = urls_of(chosen_cluster(file, path, name), None)
            async with connect(at, membership=False, reconnect=False, **identity()) as session:
                return of_cluster(await ask_status(session))
    except (HopError, TimeoutError) as error:
        return {"cluster": name, "serving": False, "error": str(error) or f"no answer in {STATUS_SECONDS:g} s"}


def _show_cluster(name: str, found: Status) -> None:
    if "error" in found:
        say(f"{name}: {found['error']}")
        return
    serving = "serving" if found["serving"] else "not serving"
    here = ", ".join(found["answering"])
    count = f"{len(found['answering'])} of {len(found['members'])}"
    say(f"{name}: {serving}, epoch {found['epoch']}, {count} members: {here}")
    _show_links(found["links"])
    for one in found["sets"]:
        say(f"  {_set_line(one)}")
    for one in found["spools"]:
        say(f"  {_spool_line(one)}")


def _show_links(links: list[Status], before: str = "  ") -> None:
    for one in links:
        state = "open" if one["open"] else "closed" if one["on"] else "off"
        at = f", at {one['member']}, generation {one['generation'][0]}.{one['generation'][1]}"
        schedule = "" if one["schedule"] == "always" else f", {one['schedule']}"
        say(f"{before}link {one['cluster']}: {state}{at if one['open'] else ''}{schedule}")


def _set_line(one: Status) -> str:
    handed = f"delivered {one['delivered']}, handed over {one['handed']}"
    waits = f", {one['delayed']} wait for causes" if one["delayed"] else ""
    forwarder = f", forwarder {one['forwarder']}" if one["forwarder"] else ""
    differ = "".join([f", {peer} has {', '.join(names)}" for peer, names in one["disputed"].items()])
    where = f"group {one['group'] or '(none)'}, {', '.join(one['clusters'])}"
    return f"set {one['name']}: {where}: {handed}{waits}{forwarder}{differ}"


def _spool_line(one: Status) -> str:
    kind = "wSpool" if one["to"] is None else f"interLAN spool {one['to']}"
    many = f"{one['messages']} message{'' if one['messages'] == 1 else 's'}"
    beside = f", {one['on_disk']} on disk" if one["on_disk"] else ""
    state = (
        f"on, {many} ({one['set']}, {one['bytes']} bytes{beside})"
        if one["on"]
        else f"empty, off ({one['set']})"
    )
    return f"{kind}: {state}"


def _shown(
    lines: Callable[[Status], None],
    key: str,
    path: Path | None,
    at: tuple[str | None, str | None],
    as_json: bool,
) -> None:
    with client_errors():
        found = of_cluster(asyncio.run(_statuses(path, *at)))
    if as_json:
        click.echo(json.dumps(found[key], indent=2))
    else:
        lines(found)


@click.command()
@file_option
@json_option
@cluster_option
def links(path: Path | None, cluster_name: str | None, url: str | None, as_json: bool) -> None:
    """Show the links of a cluster to all others."""
    _shown(lambda found: _show_links(found["links"], ""), "links", path, (cluster_name, url), as_json)


@click.command()
@file_option
@json_option
@cluster_option
def sets(path: Path | None, cluster_name: str | None, url: str | None, as_json: bool) -> None:
    """Show the sets of a cluster: clusters, local group, delivery numbers."""

    def show(found: Status) -> None:
        for one in found["sets"]:
            say(_set_line(one))

    _shown(show, "sets", path, (cluster_name, url), as_json)


@click.command()
@file_option
@click.option(
    "--wait-empty",
    "seconds",
    metavar="DURATION",
    callback=read_seconds,
    help="Wait until all are empty and off, for this time at most; exit code 4 after it.",
)
@json_option
@cluster_option
def spools(
    path: Path | None, cluster_name: str | None, url: str | None, seconds: float | None, as_json: bool
) -> None:
    """Show the spools of a cluster: what waits for other clusters, and for the local groups."""
    with client_errors():
        found = asyncio.run(_spools(path, cluster_name, url, seconds))
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        for one in found:
            say(_spool_line(one))
    if seconds is not None and any(one["on"] for one in found):
        raise Awaited(f"not all spools are empty and off after {seconds:g} s")


async def _spools(
    path: Path | None, cluster_name: str | None, url: str | None, seconds: float | None
) -> list[Status]:
    end = time.monotonic() + (seconds or 0.0)
    async with session_at(path, cluster_name, url) as session:
        while True:
            found: list[Status] = of_cluster(await ask_status(session))["spools"]
            if not any(one["on"] for one in found) or time.monotonic() >= end:
                return found
            await asyncio.sleep(LOOK_SECONDS)


@click.command()
@file_option
@json_option
def check(path: Path | None, as_json: bool) -> None:
    """Check the clusters file, and the certificates that it names, without starting anything."""
    file, path = chosen_file(path)
    check_wide_exposure(file, str(path))
    if as_json:
        facts = {"file": str(path), "wide": file.wide, "digest": file.whole_digest}
        facts["clusters"] = {one.name: one.id for one in file.clusters}  # type: ignore[assignment]
        click.echo(json.dumps(facts))
        return
    say(f"{path}: {file.wide}, {len(file.clusters)} clusters, digest {file.whole_digest[:16]}")
    for one in file.clusters:
        dials = ", ".join([file.name_of(peer) for peer in clusters_in(file.dials(one.name))]) or "nobody"
        access = ", ".join(map(str, one.access))
        say(f"  {one.id:2}  {one.name}: {', '.join(one.members)} at {access}; dials {dials}")
    _check_certificates(file)


def _check_certificates(file: ClustersFile) -> None:
    if file.keys is None:
        say("  no keys: connections are in the clear, on loopback alone")
        return
    for one in file.clusters:
        if (file.keys / "daemons" / f"{one.name}.crt").exists():
            load_wide_tls(file, one.name)
            say(f"  the certificate of {one.name} is here, and valid")
