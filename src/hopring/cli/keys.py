"""`hop keys`: makes, shows, checks and rotates cluster keys, certificates of daemons and keys of users.

Modules that need `cryptography` are imported when a command runs, so that `hop --help` stays quick.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from hopring.cli.terminal import Failure, confirm, say, yes_option
from hopring.config import load_config
from hopring.config.builder import NAME_REMEDY, is_name
from hopring.credentials import AUTHORITY_DAYS, DAEMON_DAYS, DAYS_MAX

if TYPE_CHECKING:
    from hopring.credentials.directory import CertificateFacts, DirectoryFacts, KeyDirectory

Command = TypeVar("Command", bound=Callable[..., Any])

DIRECTORY_DEFAULT: Final = "keys"
LOCAL: Final = "local"
"""The name of the cluster of `hop up`."""


def _checked_name(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not is_name(value):
        raise click.BadParameter(f"{value!r:.60} is not a name; {NAME_REMEDY}")
    return value


def _directory_argument(command: Command) -> Command:
    return click.argument("root", metavar="[DIR]", default=DIRECTORY_DEFAULT, type=click.Path(path_type=Path))(
        command
    )


def _name_argument(command: Command) -> Command:
    return click.argument("name", callback=_checked_name)(command)


def _days_option(name: str, whose: str, default: int) -> Callable[[Command], Command]:
    return click.option(
        name,
        metavar="DAYS",
        type=click.IntRange(1, DAYS_MAX),
        default=default,
        show_default=True,
        help=f"Validity of {whose}.",
    )


_json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")


@click.group()
def keys() -> None:
    """Make, show, check and rotate keys and certificates.

    DIR is the directory that `hop keys new` made, or a part of it on a host; `keys` if it is not given. No
    command prints a secret.
    """


@keys.command()
@click.option(
    "--out",
    "root",
    metavar="DIR",
    default=DIRECTORY_DEFAULT,
    show_default=True,
    type=click.Path(path_type=Path),
    help="Directory to make.",
)
@click.option(
    "--cluster",
    metavar="NAME",
    callback=_checked_name,
    help=f"Name of the cluster.  [default: {LOCAL}, which is that of `hop up`]",
)
@click.option(
    "--config",
    "file",
    metavar="FILE",
    type=click.Path(),
    help="Configuration: its cluster's name, and a certificate for each of its daemons.",
)
@_days_option("--ca-days", "the authority's certificate", AUTHORITY_DAYS)
@_days_option("--days", "certificates of daemons", DAEMON_DAYS)
def new(root: Path, cluster: str | None, file: str | None, ca_days: int, days: int) -> None:
    """Make a cluster key, an authority, and certificates of daemons.

    Nothing that is there already is overwritten.
    """
    daemons: list[str] = []
    if file is not None:
        config = load_config(file)
        if cluster not in (None, config.cluster):
            raise click.UsageError(f"{file} describes the cluster {config.cluster}; leave --cluster out")
        cluster, daemons = config.cluster, [one.name for one in config.daemons]
    cluster = cluster or LOCAL
    there = _open(root)
    made = there.create(cluster, daemons, datetime.now(UTC), ca_days, days)
    say(f"{there.keys_path}  key {made.used.key.id:08x}")
    say(f"{there.authority_path}  authority of the cluster {cluster}")
    for name in daemons:
        say(f"{there.certificate_path(name)}")
    files = f"{there.keys_path.name}, {there.authority_path.name} and daemons/NAME.*"
    _say(f"next: copy {files} to the host of each daemon")
    _say(f"keep {there.authority_key_path} in a safe place, it is needed only to add and renew daemons")


@keys.command()
@_directory_argument
@_json_option
def show(root: Path, as_json: bool) -> None:
    """Show ids and states of keys, fingerprints and expiry of certificates."""
    facts = _open(root).facts()
    if as_json:
        click.echo(json.dumps(_as_json(facts)))
        return
    for state, key_id in facts.keys:
        say(f"key     {key_id}  {state}")
    if facts.authority is not None:
        say(f"ca      {_line(facts.authority)}")
    for one in facts.daemons:
        say(f"daemon  {_line(one)}")
    for user_ in facts.users:
        say(f"user    {user_.name}  {user_.fingerprint}")
    for one in facts.certificates:
        say(f"user    {_line(one)}")


@keys.command()
@_directory_argument
def add(root: Path) -> None:
    """Add a second cluster key, which is accepted and not used yet.

    Its id is printed.
    """
    changed = _open(root).key_file().with_new_key()
    changed.save()
    (key_id,) = [f"{one.key.id:08x}" for one in changed.keys if not one.in_use]
    say(key_id)
    _say_next(changed.path, then=_with_directory(f"hop keys use {key_id}", root))


@keys.command()
@click.argument("key_id", metavar="ID")
@_directory_argument
def use(key_id: str, root: Path) -> None:
    """Use the cluster key ID, and only accept the other one."""
    before = _open(root).key_file()
    changed = before.with_use(key_id)
    if changed == before:
        _say(f"key {before.used.key.id:08x} is in use already; nothing was done")
        return
    changed.save()
    _say(f"key {changed.used.key.id:08x} is in use in {changed.path}")
    _say_next(changed.path, then=_with_directory(f"hop keys drop {before.used.key.id:08x}", root))


@keys.command()
@click.argument("key_id", metavar="ID")
@_directory_argument
@yes_option
def drop(key_id: str, root: Path, yes: bool) -> None:
    """Drop the cluster key ID, which is not in use."""
    changed = _open(root).key_file().without(key_id)
    confirm(f"drop key {key_id.lower()}, after which daemons that still seal with it are not understood", yes)
    changed.save()
    _say(f"key {key_id.lower()} is dropped from {changed.path}")
    _say_next(changed.path)


@keys.command()
@_directory_argument
@_json_option
def check(root: Path, as_json: bool) -> None:
    """Check modes, owners, ids, certificates and their expiry.

    Exit code 1 means that something was found; certificates that expire within 30 days count.
    """
    from hopring.credentials.inspection import inspect_directory  # noqa: PLC0415  It needs cryptography.

    findings = inspect_directory(_open(root), datetime.now(UTC))
    if as_json:
        rows = [{"path": str(one.path), "problem": one.problem, "remedy": one.remedy} for one in findings]
        click.echo(json.dumps({"findings": rows}))
    else:
        for one in findings:
            say(str(one))
    if findings:
        count = "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
        raise Failure(f"{root}: {count}, each with its remedy on stdout")
    _say(f"{root}: nothing was found")


@keys.command()
@_name_argument
@_directory_argument
@_days_option("--days", "the certificate", DAEMON_DAYS)
@click.option("--renew", is_flag=True, help="Replace the certificate by a new one for the same private key.")
def daemon(name: str, root: Path, days: int, renew: bool) -> None:
    """Make the key and the certificate of the daemon NAME."""
    there = _open(root)
    make = there.renew_daemon if renew else there.add_daemon
    path = make(name, datetime.now(UTC), days)
    say(str(path))
    _say(f"next: copy {path}{'' if renew else f' and {there.daemon_key_path(name)}'} to the host of {name}")


@keys.command()
@_name_argument
@_directory_argument
@click.option("--certificate", is_flag=True, help="A certificate and its key instead, for hops://.")
@_days_option("--days", "the certificate", DAEMON_DAYS)
@click.option("--renew", is_flag=True, help="With --certificate: replace the one that is there.")
def user(name: str, root: Path, certificate: bool, days: int, renew: bool) -> None:
    """Make an Ed25519 key for the user NAME, or a certificate.

    A certificate needs ca.key.
    """
    there = _open(root)
    if renew and not certificate:
        raise click.UsageError("--renew is for certificates: give --certificate, too")
    if certificate:
        path = there.add_user_certificate(name, datetime.now(UTC), days, renew=renew)
        say(str(path))
        _say(f"next: move {path} to {name} over an encrypted connection; it has the private key")
        return
    path = there.add_user(name)
    say(str(path))
    private = there.user_path(name, "key")
    _say(f"next: move {private} to {name} over an encrypted connection; nobody else needs it")


def _open(root: Path) -> "KeyDirectory":
    from hopring.credentials.directory import KeyDirectory  # noqa: PLC0415  It needs cryptography.

    return KeyDirectory(root)


def _line(facts: "CertificateFacts") -> str:
    return f"{facts.name}  until {facts.expires:%Y-%m-%d}  sha256 {facts.sha256}"


def _as_json(facts: "DirectoryFacts") -> dict[str, object]:
    return {
        "keys": [{"id": key_id, "state": state} for state, key_id in facts.keys],
        "ca": None if facts.authority is None else _certificate(facts.authority),
        "daemons": [_certificate(one) for one in facts.daemons],
        "users": [asdict(one) for one in facts.users],
        "user_certificates": [_certificate(one) for one in facts.certificates],
    }


def _certificate(facts: "CertificateFacts") -> dict[str, object]:
    return {**asdict(facts), "expires": facts.expires.isoformat()}


def _with_directory(command: str, root: Path) -> str:
    return command if str(root) == DIRECTORY_DEFAULT else f"{command} {quote(str(root))}"


def _say_next(path: Path, then: str | None = None) -> None:
    after = "" if then is None else f", then `{then}`"
    _say(f"next: copy {path} to every host (mode 600), then reload the daemons: `hop monitor reload`{after}")


def _say(text: str) -> None:
    say(f"hop: {text}", err=True)
