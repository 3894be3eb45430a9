"""Another configuration: the same sessions and groups at a daemon that has another number, among others.

Numbers of daemons and sites are places in the configuration, so all of them may change when one comes or goes.
That is done while a daemon is alone in its view: then only its own number is in what it keeps. Ids of views
have numbers too, but nobody looks them up.
"""

from collections.abc import Mapping, Sequence

from hopring.groups.events import Send
from hopring.groups.groups import Groups, GState
from hopring.groups.interest import InterestTable
from hopring.ids import DaemonId, Process, SiteId
from hopring.wire.bundle import with_daemon


def renumber(groups: Groups, me: Process, site_of: Mapping[DaemonId, SiteId], names: Sequence[str]) -> None:
    """From now on the daemon is this process, among daemons of these names."""
    assert groups.state is GState.GOP, "nothing is closing or being gathered"
    assert groups.members == {groups.me}, "nobody else is in the view"
    assert names[me.daemon] == groups.names[groups.me.daemon], "its name is what stays"
    table = [
        (
            one.name,
            one.id,
            [member._replace(daemon=me.daemon, incarnation=me.incarnation) for member in one.members],
        )
        for one in groups.table.in_order()
    ]
    groups.me = groups.table.me = groups.views.me = groups.delivery.me = me
    groups.table.replace(table)
    groups.members = frozenset([me])
    groups.names = groups.delivery.names = tuple(names)
    groups.requests.daemon = groups.early.me = me.daemon
    # Where others are is told anew when they come; until then nothing is pruned.
    groups.interest = InterestTable(me.daemon, site_of, {name: DaemonId(at) for at, name in enumerate(names)})
    groups._site_of = dict(site_of)
    for session in groups.requests.sessions.by_number.values():
        for at, request in enumerate(session.requests):
            if isinstance(request, Send):
                session.requests[at] = _of(request, me.daemon)


def _of(request: Send, daemon: DaemonId) -> Send:
    run = request.run.replace(daemon=daemon)
    return Send(request.session, run, with_daemon(request.bundle, daemon))
