"""Where the daemons of a cluster stand, and whether what they did was right."""

from collections import Counter
from collections.abc import Collection, Sequence

from hopring.check.judge import check_evs
from hopring.check.trace import Sent
from hopring.membership.membership import MembershipPhase
from hopring.sim.cluster import Cluster, Host
from hopring.sim.scenario.daemons_show import table


def phase_of(host: Host) -> str:
    """The state of a daemon, by its name in the thesis."""
    membership = host.membership
    if membership.phase is MembershipPhase.SEARCH and membership.discovery.gather is not None:
        return membership.discovery.gather.phase.value
    return membership.phase.value


def who_is_where(cluster: Cluster) -> list[str]:
    """A table: every daemon with its phase, and its last view with its members."""
    rows = [("daemon", "phase", "view", "members")]
    for name in sorted(cluster.numbers):
        host = cluster.hosts.get(name)
        if host is None:
            rows.append((name, "down", "", ""))
            continue
        view = host.membership.view
        members = " ".join(cluster.names[one.daemon] for one in view.members)
        rows.append((name, phase_of(host), str(view.id.counter), members))
    return table(rows)


def verdict_on(
    cluster: Cluster, components: Sequence[Collection[str]] | None, *, counters_survive: bool
) -> str:
    """That all properties hold, or the first that does not."""
    quiet = _quiet(cluster)
    verdicts = check_evs(cluster.history, quiet, components, counters_survive=counters_survive)
    broken = [f"broken: {one.property}: {one.witness}" for one in verdicts if not one]
    if not broken and not quiet:
        broken = ["broken: not all daemons are in a view that is whole"]
    return [*broken, *_unsent(cluster), "all properties hold"][0]


def _quiet(cluster: Cluster) -> bool:
    """Whether all are in views whose members are all there."""
    memberships = [host.membership for host in cluster.hosts.values()]
    views = {one.local.me: one.view.id for one in memberships if one.phase is MembershipPhase.OP}
    return all(
        one.local.me in views and all(views.get(other) == one.view.id for other in one.view.members)
        for one in memberships
    )


def _unsent(cluster: Cluster) -> list[str]:
    """What a living daemon took and never stamped, which no property of the order can see."""
    sent = Counter(event.process for event in cluster.history if isinstance(event, Sent))
    return [
        f"broken: {name} took {host.sent} messages and sent {sent[host.process]}"
        for name, host in sorted(cluster.hosts.items())
        if sent[host.process] != host.sent
    ]
