"""`hop rmp`: where a group's packets go, which rings are there, and the status of a peer of this host."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import msgspec

from hopring.cli.daemon_session import Unreachable, checked_url, client_errors, json_option
from hopring.cli.terminal import Failure, say
from hopring.client.peer_url import PeerUrl, check_peer, is_peer_url, parse_peer_url
from hopring.credentials.files import write_new
from hopring.errors import ChannelRefused
from hopring.groups.names import is_legal_group
from hopring.local.peer_processes import ask_peer
from hopring.peer.census import RingFound, take_census
from hopring.rmp.lists.quorum import is_quorate
from hopring.rmp.naming import group_address
from hopring.wire.rmp.lists import MINIMUM_ALL, MINIMUM_MAJORITY

_MINIMUM_WORDS = {MINIMUM_MAJORITY: "majority", MINIMUM_ALL: "all"}


def at_peer(command: Any) -> Any:
    """Adds the option --at with the URL of a peer."""
    return click.option(
        "--at",
        "url",
        metavar="URL",
        envvar="HOP_URL",
        default="rmp://",
        show_default=True,
        show_envvar=True,
        callback=checked_url,
        help="The domain, the interface and the members to ask, as for rmp:// of other commands.",
    )(command)


@click.group()
def rmp() -> None:
    """Groups without daemons: their addresses, their rings, and the status of peers."""


@rmp.command()
@click.argument("group")
@at_peer
@json_option
def name(group: str, url: str, as_json: bool) -> None:
    """Show the multicast address and the port of GROUP, and the hash in its packets."""
    peer = _peer(url, group)
    at = group_address(peer.domain, group)
    facts = {"group": group, "domain": peer.domain, "address": at.host, "port": at.port, "cluster": at.cluster}
    if as_json:
        click.echo(json.dumps(facts))
    else:
        say(f"{at.host}:{at.port}  cluster {at.cluster:08x}  domain {peer.domain!r}")


@rmp.command()
@click.argument("group")
@at_peer
@click.option(
    "--timeout",
    "seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True, max=60),
    default=0.4,
    show_default=True,
    help="How long to wait for answers.",
)
@json_option
def rings(group: str, url: str, seconds: float, as_json: bool) -> None:
    """List the rings of GROUP: who answers, their members, versions, and where the token is.

    Nothing is joined or changed. More than one ring means that they do not hear each other, or have just met.
    Exit code 3: nobody answers.
    """
    peer = _peer(url, group)
    with client_errors():
        check_peer(peer, "kick", False, False)
    try:
        found = take_census(peer, group, seconds)
    except ChannelRefused as error:
        raise Unreachable(f"{error.reason}; {error.remedy}") from None
    if as_json:
        click.echo(json.dumps([_facts(one) for one in found]))
        return
    if not found:
        raise Unreachable(f"nobody answers for {group}; is a member on this network, with this domain and ttl?")
    for ring in found:
        _show(ring)


def _peer(url: str, group: str) -> PeerUrl:
    if not is_peer_url(url):
        raise click.UsageError("give the URL of a peer: rmp://...")
    if not is_legal_group(group):  # type: ignore[arg-type]
        raise click.BadParameter("no name of a group: 1 to 128 bytes without # and NUL")
    return parse_peer_url(url)


def _facts(ring: RingFound) -> dict[str, object]:
    listed = ring.list
    return {
        "version": ring.epoch.version,
        "initiator": str(ring.epoch.process),
        "timestamp": ring.timestamp,
        "list": listed.id.timestamp,
        "minimum": _MINIMUM_WORDS.get(listed.minimum, listed.minimum),
        "primary": is_quorate(listed),
        "token": str(ring.named),
        "answered": [str(one) for one in ring.answered],
        "members": [
            {"name": one.name, "process": str(one.process), "multicast": one.capable, "ttl": one.ttl}
            for one in listed.members
        ],
    }


def _show(ring: RingFound) -> None:
    listed = ring.list
    kind = "primary" if is_quorate(listed) else "not primary"
    minimum = _MINIMUM_WORDS.get(listed.minimum, listed.minimum)
    many = "1 member" if len(listed) == 1 else f"{len(listed)} members"
    say(
        f"ring {ring.epoch.version} of {ring.epoch.process}: {many}, minimum {minimum}, {kind}, "
        f"list {listed.id.timestamp}, packets up to {ring.timestamp}"
    )
    for one in listed.members:
        marks = ["token"] if one.process == ring.named else []
        marks += [] if one.process in ring.answered else ["no answer"]
        marks += [] if one.capable else ["hears no multicast"]
        name = one.name or "(only sends)"
        say(f"  {one.process!s:21}  {name}{'  ' + ', '.join(marks) if marks else ''}")


@rmp.command()
@click.argument("file", type=click.Path(path_type=Path))
def key(file: Path) -> None:
    """Make a cluster key for peers in a new FILE, for &keys=FILE of rmp:// URLs.

    Copy it to all hosts, with mode 0600: whoever has it can read and forge what the peers send each other.
    """
    cluster_keys: Any = import_module("hopring.credentials.cluster_keys")
    made = cluster_keys.KeyFile(file, (cluster_keys.new_key(in_use=True),))
    write_new([made.as_new_file()])
    say(f"hop: key {made.used.key.id:08x} is in {file}; give &keys={file} in the URL of each peer", err=True)


@rmp.command()
@click.argument("socket", type=click.Path(path_type=Path))
def status(socket: Path) -> None:
    """Show the status of a peer of this host, as JSON, by its admin SOCKET (&admin=SOCKET in its URL)."""
    try:
        answer = msgspec.json.decode(ask_peer(socket, {"verb": "status"}))
    except OSError as error:
        raise Unreachable(f"{socket}: {error.strerror or error}; is the peer running with &admin=?") from None
    except msgspec.DecodeError as error:
        raise Failure(f"{socket}: this is no peer ({error})") from None
    click.echo(json.dumps(answer, indent=2))
