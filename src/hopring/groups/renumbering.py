"""Another configuration: the daemon's number changes, and with it its members, claims and queued bundles."""

from collections.abc import Mapping, Sequence

from hopring.groups.events import Send
from hopring.groups.groups import Groups, GroupsState
from hopring.groups.interest import InterestTable
from hopring.groups.minimum import GroupMinimum
from hopring.ids import DaemonId, Process, SiteId
from hopring.wire.bundle import with_daemon


def renumber(groups: Groups, me: Process, site_of: Mapping[DaemonId, SiteId], names: Sequence[str]) -> None:
    """Gives the daemon another number, after a change of the configuration.

    Numbers of daemons and sites are indexes into the configuration, so all may change when one is added or
    removed. This is done while a daemon is alone in its view: then only its own number is in its state. Ids of
    views contain numbers too, but are never looked up.
    """
    assert groups.state is GroupsState.GOP, "nothing is closing or being exchanged"
    assert groups.members == {groups.me}, "nobody else is in the view"
    assert names[me.daemon] == groups.names[groups.me.daemon], "its name does not change"
    table = [
        (
            one.name,
            one.id,
            [member._replace(daemon=me.daemon, incarnation=me.incarnation) for member in one.members],
        )
        for one in groups.table.in_order()
    ]
    minimums = {
        one.name: (one.suspended, _renumbered_minimum(one.minimum, groups.names, me, names))
        for one in groups.table.in_order()
        if one.minimum is not None
    }
    groups.me = groups.table.me = groups.views.me = groups.delivery.me = me
    groups.table.replace(table)
    for name, (suspended, minimum) in minimums.items():
        groups.table.groups[name].suspended = suspended
        groups.table.groups[name].minimum = minimum
    groups.locks.renumber(me)
    groups.members = frozenset([me])
    groups.names = groups.delivery.names = tuple(names)
    groups.requests.daemon = groups.early.me = me.daemon
    # Other daemons announce their interest when they join the view; until then nothing is pruned.
    groups.interest = InterestTable(me.daemon, site_of, {name: DaemonId(at) for at, name in enumerate(names)})
    groups._site_of = dict(site_of)
    for session in groups.requests.sessions.by_number.values():
        for at, request in enumerate(session.requests):
            if isinstance(request, Send):
                session.requests[at] = _renumbered(request, me.daemon)


def _renumbered_minimum(
    minimum: GroupMinimum, old: Sequence[str], me: Process, names: Sequence[str]
) -> GroupMinimum:
    """The minimum with other numbers; lost members at daemons that are not configured are dropped."""
    stated = {
        one._replace(daemon=me.daemon, incarnation=me.incarnation): number
        for one, number in minimum.stated.items()
    }
    numbers = {name: DaemonId(at) for at, name in enumerate(names)}
    lost = {
        one._replace(daemon=numbers[old[one.daemon]]): number
        for one, number in minimum.lost.items()
        if old[one.daemon] in numbers
    }
    return GroupMinimum(stated, lost)


def _renumbered(request: Send, daemon: DaemonId) -> Send:
    key = request.key.replace(daemon=daemon)
    return Send(request.session, key, with_daemon(request.bundle, daemon), request.deadline_us)
