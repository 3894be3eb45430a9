"""`hop doctor`: what is wrong with a cluster, as far as this host can tell."""

import json
import os
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from hopring.cli import doctor_checks
from hopring.cli.daemon_session import Unreachable, identity, identity_options, json_option, timeout_option
from hopring.cli.doctor_checks import AskedDaemon, CheckVerdict, DoctorReport, ask, check_daemons, check_pairs
from hopring.cli.doctor_keys import check_key_files, check_running_keys
from hopring.cli.monitor.admin_client import AdminClient, default_places
from hopring.cli.peers.checks import check_peers
from hopring.cli.terminal import Exit, say
from hopring.client.arguments import parse_url, unix_url
from hopring.client.peer_url import PeerUrl, is_peer_url, parse_peer_url
from hopring.config import Config, Daemon, load_config
from hopring.daemon.clients.listening import tcp_place, tls_place
from hopring.links.kinds import KINDS

_SIGNS = {CheckVerdict.OK: "ok     ", CheckVerdict.FINDING: "FINDING", CheckVerdict.UNKNOWN: "unknown"}


@click.command()
@click.argument("file", type=click.Path())
@click.option("--at", "urls", metavar="NAME=URL", multiple=True, help="URL of a daemon; may be repeated.")
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    help="State directory of hopd on this host, with its Unix sockets.",
)
@click.option(
    "--admin",
    "places",
    metavar="PATH",
    multiple=True,
    envvar="HOP_ADMIN",
    type=click.Path(path_type=Path),
    help="An admin socket of a daemon, or a directory of them, to ask for keys; may be repeated.",
)
@identity_options
@timeout_option
@json_option
@click.option("--all", "show_all", is_flag=True, help="Also show checks without findings.")
@click.pass_context
def doctor(
    context: click.Context,
    file: str,
    urls: tuple[str, ...],
    state: Path | None,
    places: tuple[Path, ...],
    seconds: float,
    as_json: bool,
    show_all: bool,
) -> None:
    """Check the cluster of FILE from this host: configuration, addresses, ports, packet sizes, views, keys.

    With rmp://... in place of FILE: whether peers with this URL can work here, on which interface, with which
    buffers, and whether multicast works.

    Daemons are asked through their client ports or, on this host, their Unix sockets, and with --ca by TLS; for
    their keys, through their admin sockets. Exit code 1 means that there is a finding; each has a remedy.
    Checks that cannot be made from here are listed as unknown: run the command on every host.
    """
    report = DoctorReport()
    if is_peer_url(file):
        check_peers(report, _peer(file))
        _print(report, as_json, show_all)
        if report.findings:
            context.exit(Exit.FAILURE)
        return
    config = load_config(file)
    given = _given(config, urls)
    asked = _ask_all(report, config, given, state or _state_directory(), seconds)
    _check_host(report, config, asked)
    if any(doctor_checks.is_local(daemon.address) for daemon in config.daemons):
        check_key_files(report, config, Path(file), datetime.now(UTC))
    check_running_keys(report, config, _statuses(list(places) or default_places(), seconds))
    check_daemons(report, config, asked)
    check_pairs(report, config, asked)
    _print(report, as_json, show_all)
    if report.findings:
        context.exit(Exit.FAILURE)


def _peer(url: str) -> PeerUrl:
    try:
        return parse_peer_url(url)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="FILE") from None


def _statuses(places: list[Path], seconds: float) -> list[Mapping[str, Any]]:
    try:
        return [one.status for one in AdminClient(places, seconds).look().seen]
    except Unreachable:
        return []


def _given(config: Config, urls: tuple[str, ...]) -> dict[str, str]:
    given = {}
    for one in urls:
        name, is_there, url = one.partition("=")
        if not is_there or name not in [daemon.name for daemon in config.daemons]:
            raise click.BadParameter(f"{one!r} is not NAME=URL of a daemon of the file", param_hint="--at")
        try:
            parse_url(url)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--at") from None
        given[name] = url
    return given


def _ask_all(
    report: DoctorReport, config: Config, given: dict[str, str], state: Path, seconds: float
) -> dict[str, AskedDaemon]:
    asked: dict[str, AskedDaemon] = {}
    for daemon in config.daemons:
        problem = "it has no client_port" if _ca_given() else "it has no client_port, and --ca is not given"
        if doctor_checks.is_local(daemon.address):
            problem += f", and there is no Unix socket of it in {state}"
        for url in [given[daemon.name]] if daemon.name in given else _urls(config, daemon, state):
            told = ask(url, seconds)
            if isinstance(told, AskedDaemon):
                asked[daemon.name] = told
                break
            problem = f"{url}: {told}"
        else:
            report.unknown(daemon.name, f"could not be asked ({problem})", _how_to_ask(daemon))
    return asked


def _how_to_ask(daemon: Daemon) -> str:
    if not doctor_checks.is_local(daemon.address):
        return "run hop doctor there; or give it a tls_port and --ca here, or --at NAME=URL"
    holder = doctor_checks.holder_of(socket.SOCK_DGRAM, daemon.port)
    if holder is not None and holder.is_hopd(daemon.name):
        runs = f"it runs as process {holder.pid}"
        if holder.stopped:
            return f"{runs} and is stopped: kill -CONT {holder.pid}"
        where = f"--state DIR as hopd was given it, or --at {daemon.name}=URL"
        return f"{runs}: say where it is ({where}), or look at its log"
    return "start it"


def _urls(config: Config, daemon: Daemon, state: Path) -> list[str]:
    by_tls = tls_place(daemon, None) if _ca_given() else None
    last = [] if by_tls is None else [_url(*by_tls, scheme="hops")]
    if not doctor_checks.is_local(daemon.address):
        return [*last, *([] if daemon.client_port is None else [_url(daemon.address, daemon.client_port)])]
    path = doctor_checks.unix_socket(state, config, daemon.name)
    place = tcp_place(daemon, None)
    urls = [] if path is None else [unix_url(path)]
    return [*urls, *([] if place is None else [_url(*place)]), *last]


def _ca_given() -> bool:
    return identity().get("ca") is not None


def _url(address: str, port: int, scheme: str = "hop") -> str:
    return f"{scheme}://[{address}]:{port}" if ":" in address else f"{scheme}://{address}:{port}"


def _check_host(report: DoctorReport, config: Config, asked: dict[str, AskedDaemon]) -> None:
    own = [daemon for daemon in config.daemons if doctor_checks.is_local(daemon.address)]
    if own:
        report.good("host", f"has the addresses of {', '.join(one.name for one in own)}")
    else:
        text = "has no address of any daemon of the file"
        report.unknown("host", text, "run hop doctor on the hosts of the daemons; or correct their addresses")
        return
    doctor_checks.check_localhost(report)
    doctor_checks.check_limits(report, config)
    sites = {daemon.name: site for site in config.sites for daemon in site.daemons}
    for daemon in own:
        _check_ports(report, config, daemon, _answers(asked, daemon.name))
        doctor_checks.check_paths(report, config, daemon)
        if sites[daemon.name].multicast is not None:
            doctor_checks.check_multicast(report, sites[daemon.name], daemon)


def _answers(asked: dict[str, AskedDaemon], name: str) -> bool:
    """Whether the daemon that answered is this one, and not another at its address."""
    return name in asked and asked[name].facts.daemon == name


def _check_ports(report: DoctorReport, config: Config, daemon: Daemon, running: bool) -> None:
    wanted = [("UDP", socket.SOCK_DGRAM, daemon.address, daemon.port)]
    if any(KINDS[link.protocol].over_stream for link in config.all_links):
        wanted.append(("TCP", socket.SOCK_STREAM, daemon.address, daemon.port))
    place = tcp_place(daemon, None)
    if place is not None:
        wanted.append(("clients' TCP", socket.SOCK_STREAM, *place))
    if (by_tls := tls_place(daemon, None)) is not None:
        wanted.append(("clients' TLS", socket.SOCK_STREAM, *by_tls))
    for what, kind, address, port in wanted:
        where = f"{what} port {port} of {address}"
        if running:
            report.good(daemon.name, f"{where} is the running daemon's")
            continue
        problem = doctor_checks.port_problem(kind, address, port)
        holder = doctor_checks.holder_of(kind, port) if problem else None
        if not problem:
            report.good(daemon.name, f"{where} is free")
        elif holder is None:
            text = f"{where}: {problem}, by a process that this user cannot see"
            remedy = "see whose it is as root (ss -lunpt): if not hopd's, end it or choose another port"
            report.finding(daemon.name, text, remedy)
        elif holder.is_hopd(daemon.name):
            report.good(daemon.name, f"{where} is that of the running daemon, process {holder.pid}")
        else:
            text = f"{where}: {problem}, by process {holder.pid} ({holder.name}), which is not this daemon"
            report.finding(daemon.name, text, "end that process, or choose another port")


def _state_directory() -> Path:
    """The state directory that hopd uses by default."""
    given = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(given) if given else Path(base) / "hopring"


def _print(report: DoctorReport, as_json: bool, show_all: bool) -> None:
    if as_json:
        facts = {"findings": len(report.findings), "checks": [one.facts() for one in report.checks]}
        click.echo(json.dumps(facts))
        return
    for one in report.checks:
        if one.verdict is not CheckVerdict.OK or show_all:
            remedy = f"; {one.remedy}" if one.remedy else ""
            say(f"{_SIGNS[one.verdict]}  {one.subject}: {one.text}{remedy}")
    good = sum(one.verdict is CheckVerdict.OK for one in report.checks)
    unknown = len(report.checks) - good - len(report.findings)
    say(f"hop: {good} checks are good, {len(report.findings)} findings, {unknown} unknown", err=True)
