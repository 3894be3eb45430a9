"""One world with clients, run and judged: the daemons by EVS-S, their clients by EVS-C."""

from hopring.check.history import index
from hopring.check.judge import check_evs_c
from hopring.check.properties.order import FIFO_ORDER
from hopring.check.trace import Delivered, Sent
from hopring.check.verdict import Verdict, broken
from hopring.groups.groups import GroupsOptions, GroupsState
from hopring.sim.campaign.motion import Run
from hopring.sim.campaign.sending import Sending
from hopring.sim.campaign.sending_clients import ClientSending
from hopring.sim.clients import ClientCluster, ClientHost

SAME_GROUPS = "I9 daemons that share a view know the same groups"
UNDERSTOOD = "I10 daemons understand each other's words on groups"


class ClientRun(Run):
    """A world in motion, with clients."""

    def _make_cluster(self, link_counters_us: int) -> ClientCluster:
        world = self.world
        assert world.clients is not None, "a world with clients"
        parts = world.config, world.seed, world.quality, world.membership, world.stack
        clients = world.clients
        options = GroupsOptions(linger_us=clients.linger_us, groups_bytes_max=clients.groups_bytes_max)
        self.clients = ClientCluster(*parts, link_counters_us, options)
        return self.clients

    def _load(self) -> Sending:
        return ClientSending(self.world, self.clients)

    @property
    def _has_sessions(self) -> bool:
        return True

    def _fifo(self) -> Verdict:
        """2.11 for each session by itself; daemons have one more, for their own words."""
        session_of = self.clients.session_of
        named = [
            type(event)(
                event.process,
                event.at_us,
                event.view,
                event.message._replace(session=session_of[event.message]),
                event.service,
                event.ord,
            )
            if isinstance(event, Sent | Delivered)
            else event
            for event in self.cluster.history
        ]
        return FIFO_ORDER.judge(index(named, False))

    def _more(self, quiet: bool) -> list[Verdict]:
        """What clients are promised, and what their daemons know."""
        verdicts = check_evs_c(self.cluster.history, quiet, self._components)
        wrong = [verdict for verdict in verdicts if not verdict]
        for name in sorted(self.clients.hosts):
            drops = self.clients.client_host(name).groups.drops
            if drops:
                wrong.append(broken(UNDERSTOOD, f"{name} dropped {dict(drops)}"))
        if quiet:
            wrong.extend(self._unlike_groups())
        return wrong

    def _unlike_groups(self) -> list[Verdict]:
        for names in self._components or []:
            hosts = [self.clients.client_host(name) for name in names]
            for host in hosts:
                if host.groups.state is not GroupsState.GOP:
                    return [broken(SAME_GROUPS, f"{host.name} is in {host.groups.state.name} at the end")]
                if _table(host) != _table(hosts[0]):
                    return [broken(SAME_GROUPS, f"{hosts[0].name} and {host.name} do not")]
        return []


def _table(host: ClientHost) -> dict[str, object]:
    groups = host.groups.table.groups.values()
    return {str(group.name): (group.id, frozenset(group.members), group.closing_path) for group in groups}
