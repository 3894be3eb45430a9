"""Checks of running daemons: what each reports of itself, and which daemons see each other."""

from dataclasses import dataclass
from itertools import permutations
from typing import Final

from hopring.cli.doctor.findings import DoctorReport
from hopring.client.blocking import connect
from hopring.client.errors import ConnectError
from hopring.client.queries import DaemonFacts, DaemonView, LinkFacts
from hopring.config import Config, cluster_hash
from hopring.errors import Drop, HopError

LOSS_MAX: Final = 0.05
LOSS_PACKETS_MIN: Final = 200
"""The least number of packets for which a share of lost ones means something."""

_DROPS: Final = {
    Drop.CLUSTER: "another cluster, or another configuration file, sends here: compare `hop config check`",
    Drop.VERSION: "another version of the protocol sends here: upgrade the older daemons",
    Drop.MAGIC: "something that is no daemon sends to its port: find it, or choose another port",
}
_UNSENT: Final = {
    "too_long": "the network carries smaller packets: lower `segment`",
    "unreachable": "there is no route: check addresses, routes and, for a group, multicast",
    "queue_full": "the network takes less than is sent: set `rate`, or raise net.core.wmem_max",
}
_ALIKE: Final = "all daemons need the same"


@dataclass(frozen=True, slots=True)
class AskedDaemon:
    """The answers of one daemon."""

    url: str
    facts: DaemonFacts
    view: DaemonView


def ask(url: str, seconds: float) -> AskedDaemon | str:
    """The answers of the daemon at a URL, or the reason why there are none."""
    try:
        session = connect(url, membership=False, timeout_seconds=seconds, reconnect=False)
    except ConnectError as error:
        return error.reason
    try:
        facts = session.daemon_facts(timeout_seconds=seconds)
        return AskedDaemon(url, facts, session.view(timeout_seconds=seconds))
    except HopError as error:
        return str(error)
    finally:
        session.abort()


def check_daemons(report: DoctorReport, config: Config, asked: dict[str, AskedDaemon]) -> None:
    """Checks each daemon by itself and against the configuration file."""
    digest = f"{cluster_hash(config):08x}"
    for name, one in sorted(asked.items()):
        facts = one.facts
        if facts.hash != digest:
            text = f"runs with a configuration of hash {facts.hash}, the file's is {digest}"
            report.finding(name, text, f"give it this file, and reload or restart it; {_ALIKE}")
        else:
            report.good(name, f"runs with this configuration (hash {digest})")
        if facts.daemon != name:
            report.finding(
                name, f"{one.url} is {facts.daemon}", "correct addresses and ports in the configuration"
            )
        if facts.phase != "op":
            text = f"is in no whole view ({facts.phase}, {one.view.cause})"
            report.finding(name, text, "wait a few seconds; if it stays so, look at its log")
        since = f"since it started {_age(facts.uptime_seconds)} ago"
        for reason, count in facts.dropped.items():
            if reason in _DROPS:
                report.finding(name, f"refused {count} packets for {reason} {since}", _DROPS[Drop(reason)])
        for reason, count in facts.unsent.items():
            if reason in _UNSENT:
                report.finding(name, f"could not send {count} datagrams {since}: {reason}", _UNSENT[reason])
        for link in facts.links:
            sender = asked.get(link.daemon)
            _check_link(report, name, link, sender is not None and name in sender.facts.shaped)
    versions = sorted({one.facts.version for one in asked.values()})
    if len(versions) > 1:
        report.finding("cluster", f"daemons of versions {', '.join(versions)}", "upgrade the older ones")


def _age(time_seconds: float) -> str:
    seconds = int(time_seconds)
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _check_link(report: DoctorReport, name: str, link: LinkFacts, shaped: bool) -> None:
    pair = f"{link.daemon} -> {name}"
    if link.received + link.lost >= LOSS_PACKETS_MIN and link.lost > LOSS_MAX * (link.received + link.lost):
        text = f"{link.lost} of {link.received + link.lost} packets were lost in this view"
        if shaped:
            remedy = f"clear what the admin channel of {link.daemon} has set for {name} (verb shape)"
        else:
            remedy = "check the network; if it is full, set `rate` of the link"
        report.finding(pair, text, remedy)
    else:
        trip = (
            f"round trip {link.round_trip_seconds * 1000:.1f} ms"
            if link.round_trip_seconds
            else "no round trip yet"
        )
        report.good(pair, f"{link.protocol}: {link.received} packets came, {link.lost} were lost, {trip}")


def check_pairs(report: DoctorReport, config: Config, asked: dict[str, AskedDaemon]) -> None:
    """Checks that daemons have each other in their views; each pair is reported once."""
    seen = {name: set(one.view.members) for name, one in asked.items()}
    for one, other in permutations(sorted(daemon.name for daemon in config.daemons), 2):
        if one not in seen or other in seen[one]:
            continue
        if other in seen and one > other and one not in seen[other]:
            continue
        text, remedy = _apart(asked, one, other)
        report.finding(f"{one} <-> {other}", text, remedy)
    for name in sorted(seen):
        if seen[name] >= {daemon.name for daemon in config.daemons}:
            report.good(name, f"has all {len(config.daemons)} daemons in its view")


def _apart(asked: dict[str, AskedDaemon], one: str, other: str) -> tuple[str, str]:
    """Why one daemon does not have another in its view, with the remedy: the most certain cause first."""
    cutting = [name for name, peer in ((one, other), (other, one)) if _cuts(asked, name, peer)]
    if cutting:
        text = f"they are parted by hand (hop monitor partition): cut at {' and '.join(cutting)}"
        return text, "hop monitor heal, with --admin where the admin sockets are"
    if other not in asked:
        return f"{other} is not in {one}'s view", f"start {other}, or see why it is not reached"
    here, there = asked[one], asked[other]
    if one in there.view.members:
        # A view is one at all its members once it is installed; so this passes, or something is broken.
        text = f"{one} does not see {other}, though {other} sees {one}"
        return text, "ask again in a few seconds: one of them may have a newer view"
    views = f"{one} has {_list(here)}, {other} has {_list(there)}"
    if here.facts.hash != there.facts.hash:
        text = f"they run with different configurations ({here.facts.hash}, {there.facts.hash}): {views}"
        return text, f"give both the same file, and reload or restart; {_ALIKE}"
    searching = [name for name in (one, other) if asked[name].facts.phase != "op"]
    if searching:
        text = f"neither sees the other, and no view is whole at {' and '.join(searching)}: {views}"
        return text, "ask again in a few seconds: their views may be about to change"
    remedy = f"check that UDP passes both ways between them, and the log of {one} (dropped, unsent)"
    return f"neither sees the other: {views}", remedy


def _cuts(asked: dict[str, AskedDaemon], one: str, other: str) -> bool:
    return one in asked and other in asked[one].facts.cut


def _list(one: AskedDaemon) -> str:
    return " ".join(sorted(one.view.members))
