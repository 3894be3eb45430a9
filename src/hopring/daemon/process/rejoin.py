"""Change to another configuration while the daemon runs: daemons and sites come and go, and clients stay.

Numbers of daemons and sites are indexes in the configuration, and all protocols use them. So a daemon changes
its configuration between two views. It stops submitting messages and waits until all daemons have those that it
sent; leaves the others and forms a view alone; changes numbers, sockets and membership; and then looks for the
daemons with the same configuration. Its clients see a partition and a merge. Their messages wait until another
daemon is in the view, or for REJOIN_US.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from hopring.config import Config, cluster_hash
from hopring.daemon.admin.controls import DaemonControls
from hopring.daemon.admin.description import DaemonDescription
from hopring.daemon.clients.server import ClientServer
from hopring.daemon.engines.host import ReconfigurableHost
from hopring.daemon.log import DaemonLog
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.bind_errors import BindError
from hopring.daemon.process.health_log import HealthLog
from hopring.daemon.process.trace_file import TraceFile
from hopring.groups.groups import Groups
from hopring.groups.renumbering import renumber
from hopring.ids import NEVER, DaemonId, Process, SiteId

DRAIN_US_MAX: Final = 2_000_000
QUIET_US: Final = 100_000
LINGER_US_MAX: Final = 500_000
"""Other daemons may be about to leave too. The daemon waits for their messages until none was delivered for
QUIET_US, and no longer than LINGER_US_MAX."""

PART_US_MAX: Final = 20_000_000
REJOIN_US: Final = 2_000_000
CHECK_US: Final = 5_000
CAUSE: Final = "reload of the configuration"
ALONE: Final = "nobody else with this configuration was met: clients go on alone, reload the other daemons"


class RejoinStep(Enum):
    """The steps from one configuration to another, in this order."""

    NONE = "none"
    DRAIN = "drain"  # Until all daemons have its messages.
    PART = "part"  # Until it is alone in its view.
    REJOIN = "rejoin"  # Until it is in a view with others.


@dataclass(slots=True)
class RejoinParts:
    """The parts of a daemon that know numbers or names of daemons."""

    host: ReconfigurableHost
    clients: ClientServer
    description: DaemonDescription
    health_log: HealthLog
    trace: TraceFile | None
    controls: DaemonControls


class Rejoin:
    """Changes the configuration, step by step."""

    def __init__(
        self,
        loop: Loop,
        log: DaemonLog,
        parts: RejoinParts,
        taken: Callable[[Config], None],
        failed: Callable[[], None],
    ) -> None:
        """`taken` is called with the new configuration; `failed` if not even the old one can be used."""
        self._loop = loop
        self._log = log
        self._parts = parts
        self._taken = taken
        self._failed = failed
        self._step = RejoinStep.NONE
        self._wanted: Config | None = None
        self._by_us = NEVER
        self._linger_us = NEVER
        self._quiet_us = NEVER
        self._delivered: object = None
        self._alarm = loop.alarm(self._advance)

    def begin(self, config: Config) -> None:
        """Starts a change to this configuration, or replaces the one that is being changed to."""
        self._wanted = config
        if self._step in (RejoinStep.NONE, RejoinStep.REJOIN):
            self._go_to(RejoinStep.DRAIN, DRAIN_US_MAX)
            self._linger_us = self._loop.now_us() + LINGER_US_MAX
            self._parts.host.paused = True
            self._advance()

    def stop(self) -> None:
        """Stops the change where it is; also called when the daemon is about to end."""
        self._step, self._wanted = RejoinStep.NONE, None
        self._alarm.set(NEVER)
        self._parts.host.paused = False

    def _go_to(self, step: RejoinStep, within_us: int) -> None:
        self._step, self._by_us = step, self._loop.now_us() + within_us

    def _advance(self) -> None:
        late = self._loop.now_us() >= self._by_us
        host = self._parts.host
        match self._step:
            case RejoinStep.DRAIN if (host.drained and self._quiet()) or late:
                self._isolate()
            case RejoinStep.PART if host.alone and self._groups_settled:
                self._change()
            case RejoinStep.PART if late:
                self._log.say("refused", reload="it does not come to rest", then="the old configuration stays")
                self._parts.controls.resume()
                self._finish()
            case RejoinStep.REJOIN if late or self._met:
                if not self._met:
                    self._log.say("warning", text=ALONE)
                self._finish()
        if self._step is not RejoinStep.NONE:
            self._alarm.set(self._loop.now_us() + CHECK_US)

    def _quiet(self) -> bool:
        """Whether no more messages of others are likely to arrive."""
        now_us, snapshot = self._loop.now_us(), self._parts.host.snapshot()
        if len(snapshot.members) == 1:
            return True
        delivered = snapshot.view, snapshot.reached
        if delivered != self._delivered:
            self._delivered, self._quiet_us = delivered, now_us + QUIET_US
        return now_us >= min(self._quiet_us, self._linger_us)

    @property
    def _groups_settled(self) -> bool:
        return self._parts.clients.session_server.groups.settled

    @property
    def _met(self) -> bool:
        snapshot = self._parts.host.snapshot()
        alone = len(snapshot.members) == 1 < len(self._parts.description.config.daemons)
        return snapshot.settled and not alone and self._groups_settled

    def _isolate(self) -> None:
        parts = self._parts
        me = parts.host.me.daemon
        if not parts.host.drained:
            out = parts.host.snapshot().window.used_bundles
            self._log.say("warning", text=f"{out} bundles may reach only some: reload waits no longer for them")
        self._go_to(RejoinStep.PART, PART_US_MAX)
        parts.controls.suspend()
        parts.host.isolate([one for one in parts.description.names if one != me], CAUSE)

    def _change(self) -> None:
        wanted, old = self._wanted, self._parts.description.config
        assert wanted is not None, "another configuration is wanted"
        try:
            self._become(wanted)
        except BindError as error:
            self._log.say("refused", reload=str(error), then="the old configuration stays in force")
            try:
                self._become(old)
            except BindError as again:
                self._log.say("refused", reload=str(again), then="the daemon ends")
                self.stop()
                self._failed()
                return
        else:
            self._taken(wanted)
            self._log.say("reload", hash=f"{cluster_hash(wanted):08x}", daemons=len(wanted.daemons))
        self._go_to(RejoinStep.REJOIN, REJOIN_US)

    def _become(self, config: Config) -> None:
        """Applies the numbers of this configuration everywhere, and restarts the engine."""
        parts = self._parts
        groups, names = parts.clients.session_server.groups, names_of(config)
        assert isinstance(groups, Groups), "daemons have numbers in a configuration"
        me = Process(config.daemon_id(groups.names[groups.me.daemon]), groups.me.incarnation)
        renumber(groups, me, sites_of(config), list(names.values()))
        parts.clients.session_server.queries.forget_views()
        parts.clients.reorder(config.order_names)
        parts.description.use_config(config)
        parts.health_log.rename(names, addresses_of(config), site_names_of(config), me)
        if parts.trace is not None:
            parts.trace.rename(names)
        signal = parts.host.renew(config, me, groups.interest, CAUSE)
        parts.host.hand_up(signal)
        parts.health_log.watch(parts.host)
        parts.controls.resume()

    def _finish(self) -> None:
        self.stop()
        self._parts.clients.go_on()


def names_of(config: Config) -> dict[DaemonId, str]:
    """The names of all daemons, by their numbers."""
    return {DaemonId(at): daemon.name for at, daemon in enumerate(config.daemons)}


def site_names_of(config: Config) -> dict[DaemonId, str]:
    """The names of the sites of all daemons."""
    return {DaemonId(at): config.sites[site].name for at, site in enumerate(config.site_of)}


def addresses_of(config: Config) -> dict[tuple[str, int], str]:
    """The names of all daemons, by their addresses."""
    return {(daemon.address, daemon.port): daemon.name for daemon in config.daemons}


def sites_of(config: Config) -> dict[DaemonId, SiteId]:
    """The site of each daemon."""
    return {DaemonId(at): site for at, site in enumerate(config.site_of)}
