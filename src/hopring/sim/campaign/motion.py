"""A world in motion: chaos by schedule, then all is healed, all must come together again, and it is judged."""

from collections import Counter
from dataclasses import dataclass

from hopring.check.history import index
from hopring.check.judge import check_evs
from hopring.check.properties.order import FIFO_ORDER
from hopring.check.trace import Delivered, Event, Installed, Sent
from hopring.check.verdict import Verdict, broken
from hopring.membership.membership import MembershipPhase
from hopring.sim.campaign.draw import World
from hopring.sim.campaign.schedule import CHAOS_US
from hopring.sim.campaign.sending import Sending, session_of
from hopring.sim.campaign.trouble import Trouble, sides
from hopring.sim.cluster import Cluster, Host

CONVERGENCE = "I7 all daemons share one view after the heal"
SELF_SENDING = "I5 what a daemon takes it sends"
SAME_TREES = "I11 all daemons of a view have the same trees"
BUDGET = "I8 the world comes to its end"
NO_CRASH = "the code keeps its own assertions"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a seed."""

    seed: int
    events: int
    broken: tuple[Verdict, ...]
    history: list[Event]
    faults: int

    @property
    def views(self) -> int:
        """How many views were installed, at all daemons together."""
        return sum(isinstance(event, Installed) for event in self.history)


class Run:
    """A world in motion."""

    def __init__(self, world: World, link_counters_us: int = 0) -> None:
        self.world = world
        self.cluster = self._make_cluster(link_counters_us)
        self.trouble = Trouble(self.cluster)
        self._late = ""  # Who was where when all should have come together, if they had not.
        self._rested = False  # Whether all were together early enough for what they sent then to be delivered.
        for link in world.config.links:
            self._shape(link.sites, world.wide_delay_us)

    def _make_cluster(self, link_counters_us: int) -> Cluster:
        world = self.world
        parts = world.config, world.seed, world.quality, world.membership, world.stack
        return Cluster(*parts, link_counters_us=link_counters_us)

    def _load(self) -> Sending:
        return Sending(self.world, self.cluster)

    def _shape(self, ends: tuple[str, str], delay_us: int) -> None:
        sites = {site.name: site.daemons for site in self.world.config.sites}
        for near in sites[ends[0]]:
            for far in sites[ends[1]]:
                self.cluster.network.shape_both(near.name, far.name, delay_us=delay_us)

    def live(self) -> None:
        """Chaos, then quiet."""
        cluster, world = self.cluster, self.world
        engine = cluster.engine
        late = dict(world.starts_us)
        cluster.start(*[name for name in sorted(cluster.numbers) if name not in late])
        for name, at_us in world.starts_us:
            engine.at(at_us, self.trouble.start, name)
        for fault in world.schedule:
            if fault.kind != "speak":
                self.trouble.plan(fault)
        for path in world.paths:
            engine.at(path.at_us, self._shape, path.sites, path.delay_us)
        engine.at(CHAOS_US, self._heal)
        engine.at(CHAOS_US + world.settle_us, self._look)
        engine.at(CHAOS_US + world.healed_us - world.rest_us, self._rest)
        self._load().plan()
        engine.run_until(CHAOS_US + world.healed_us)

    def _heal(self) -> None:
        self.trouble.end()
        for fault in self.world.lasting:
            self.trouble.happen(fault)

    def _look(self) -> None:
        if not self._settled():
            self._late = self._who_is_where()

    def _rest(self) -> None:
        self._rested = self._settled()

    # Who has to come together.

    @property
    def _components(self) -> list[list[str]] | None:
        """Those that should be together in the end; None if that cannot be said."""
        kinds = [fault.kind for fault in self.world.lasting]
        if not kinds:
            return [sorted(self.cluster.numbers)]
        if kinds == ["partition"]:
            return [sorted(names) for names in sides(self.world.lasting[0].what).values()]
        return None

    def _settled(self) -> bool:
        components = self._components
        if components is None:
            return True
        hosts = self.cluster.hosts
        return all(_share_a_view([hosts[name] for name in names]) for names in components)

    def cut_short(self, verdict: Verdict) -> Outcome:
        """The outcome of a world that did not come to its end."""
        cluster = self.cluster
        return Outcome(
            self.world.seed, cluster.engine.events, (verdict,), cluster.history, len(self.world.schedule)
        )

    def judge(self) -> Outcome:
        """The verdicts on what happened, nearest to a cause first; whether all came together is the last."""
        cluster = self.cluster
        settled, components = self._settled(), self._components
        quiet = settled and self._rested and components is not None
        forgets = any(fault.kind == "forget" for fault in self.world.schedule)
        verdicts = check_evs(
            cluster.history,
            quiet_end=quiet,
            components=components,
            counters_survive=not forgets,
        )
        if self._has_sessions:
            # Not promised for all sessions of a daemon taken together.
            verdicts = [
                self._fifo() if verdict.property == FIFO_ORDER.name else verdict for verdict in verdicts
            ]
        wrong = [verdict for verdict in verdicts if not verdict]
        wrong.extend([broken(SAME_TREES, witness) for witness in cluster.misrouted[:1]])
        wrong.extend(self._more(quiet))
        if not settled:
            wrong.append(broken(CONVERGENCE, f"at the end {self._who_is_where()}"))
        elif self._late:
            after = f"{self.world.settle_us / 1_000:g} ms after the heal"
            wrong.append(broken(CONVERGENCE, f"{after} {self._late}"))
        events = cluster.engine.events
        return Outcome(self.world.seed, events, tuple(wrong), cluster.history, len(self.world.schedule))

    @property
    def _has_sessions(self) -> bool:
        return self.world.load.sessions > 1

    def _more(self, quiet: bool) -> list[Verdict]:
        """What the properties of the order do not see."""
        return self._unstamped() if quiet else []

    def _fifo(self) -> Verdict:
        """2.11 for each session by itself."""
        sessions = self.world.load.sessions
        verdicts = [FIFO_ORDER.judge(index(self._of_session(one, sessions), False)) for one in range(sessions)]
        return min(verdicts, key=bool)

    def _of_session(self, session: int, sessions: int) -> list[Event]:
        return [
            event
            for event in self.cluster.history
            if not isinstance(event, Sent | Delivered) or session_of(event.message.number, sessions) == session
        ]

    def _unstamped(self) -> list[Verdict]:
        """Messages that a living daemon took and never sent: no property of the order can see them."""
        stamped = Counter(event.process for event in self.cluster.history if isinstance(event, Sent))
        return [
            broken(SELF_SENDING, f"{name} took {host.sent} messages and sent {stamped[host.process]}")
            for name, host in sorted(self.cluster.hosts.items())
            if stamped[host.process] != host.sent
        ]

    def _who_is_where(self) -> str:
        return "; ".join(
            f"{name} is {host.membership.phase.value} in view {host.membership.view.id.counter}"
            f" of {len(host.membership.view.members)}"
            for name, host in sorted(self.cluster.hosts.items())
        )


def _share_a_view(hosts: list[Host]) -> bool:
    """Whether these are in one view, which has nobody else, and none of them looks around."""
    first = hosts[0].membership.view
    return set(first.members) == {host.me for host in hosts} and all(
        host.membership.view.id == first.id and host.membership.phase is MembershipPhase.OP for host in hosts
    )
