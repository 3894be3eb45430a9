"""The daemon as a process: `hopd FILE --name NAME`.

It finds its entry in the configuration by its name, starts an engine on its sockets, and serves clients. For
tests, `run` accepts another engine of the table in `engines/registry.py`, and another layer above instead of
clients.
"""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Final

from hopring import __version__
from hopring.config import Config, SpoolTuning, cluster_hash
from hopring.credentials.daemon_tls import DaemonTls
from hopring.daemon.admin.admin_socket import AdminSocket
from hopring.daemon.admin.controls import DaemonControls, DeliveryCounters
from hopring.daemon.admin.description import DaemonDescription
from hopring.daemon.admin.http_server import HttpServer
from hopring.daemon.admin.metrics import Metrics
from hopring.daemon.clients.server import ClientServer
from hopring.daemon.engines.host import EngineHost, HostSetup, OutputHandler, ReconfigurableHost
from hopring.daemon.engines.registry import DEFAULT_ENGINE, ENGINES
from hopring.daemon.log import DaemonLog
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.bind_errors import BindError
from hopring.daemon.process.command_line import HopdExit, StartRefused, command_line, load
from hopring.daemon.process.counter_file import CounterFile
from hopring.daemon.process.environment import (
    NO_SOCKET,
    STDIN,
    admin_place,
    admin_verbs,
    allow_descriptors,
    client_addresses,
    end_with_descriptor,
    keep_memory,
    open_trace,
    session_options,
    spare_the_collector,
    spill_place,
    state_directory,
    state_path,
    where_clients_come,
)
from hopring.daemon.process.event_store import EventStore
from hopring.daemon.process.health_log import HealthLog
from hopring.daemon.process.primary_mark import PrimaryMark
from hopring.daemon.process.rejoin import Rejoin, RejoinParts, addresses_of, names_of, site_names_of, sites_of
from hopring.daemon.process.reload import ConfigReload, tune_log
from hopring.daemon.process.security import (
    check_exposure,
    load_access,
    load_keys,
    load_tls,
    open_audit,
    warnings_of,
)
from hopring.daemon.process.spooler_process import SpoolerProcess, client_url, spool_command, spool_settings
from hopring.daemon.process.trace_file import Number, TraceFile, leading_number, place_number
from hopring.engine import EngineOutput
from hopring.groups.groups import Groups
from hopring.ids import NEVER, Incarnation, Process
from hopring.printable import printable
from hopring.sealing.keys import KeyRing
from hopring.sealing.sealer import CountersUsedUp
from hopring.session.events import AccessNote
from hopring.system.kernel import kernel

DRAIN_US_MAX: Final = 2_000_000
"""How long a daemon that is asked to end waits until all others have its messages."""

DRAIN_CHECK_US: Final = 5_000

_AUDITED: Final = ("session", "identity", "name", "request", "subject", "reason")
"""The fields of a note that the audit has."""

Above = Callable[[Loop, EngineHost], OutputHandler]
"""Makes the layer above an engine; returns the function that handles the engine's outputs."""


class Hopd:
    """A daemon from start to end: an engine, its clients, log, trace and admin channel."""

    def __init__(
        self, loop: Loop, config: Config, arguments: argparse.Namespace, above: Above | None, engine: str
    ) -> None:
        name: str = arguments.name
        check_exposure(config, arguments)
        keys, tls = load_keys(config, arguments.file), load_tls(config, arguments)
        spool = spool_settings(arguments, config)
        self._access, self._audit = (
            load_access(config, arguments.file, name),
            open_audit(config, arguments.file, name, loop.now_us),
        )
        self.log = DaemonLog(name)
        self.failed = False
        tune_log(self.log, config, arguments)
        me = Process(config.daemon_id(name), Incarnation(int.from_bytes(kernel().random_bytes(8))))
        names = names_of(config)
        state = state_directory(arguments.state)
        self._counter = CounterFile(state_path(state, config.cluster, name, "views"))
        self._mark = PrimaryMark(loop, state_path(state, config.cluster, name, "primary"), config.cluster, name)
        groups = _groups(config, me) if above is None else None
        self._loop = loop
        self._leave_by_us = NEVER
        self._drain_alarm = loop.alarm(self._drain)
        self._health_log = HealthLog(loop, self.log, names, addresses_of(config), site_names_of(config))
        self._deliveries = DeliveryCounters()
        self._trace: TraceFile | None = None
        destinations = None if groups is None else groups.interest
        setup = HostSetup(
            loop,
            config,
            me,
            self._handle_engine_outputs,
            self._counter.start,
            self._note,
            self._reached,
            destinations,
            self._mark,
            keys,
            tls,
        )
        self._host = ENGINES[engine](setup)
        # Only now: a second process of this name, which gets no sockets, must not touch the trace of the first.
        number: Number = leading_number if groups is None else place_number
        if arguments.trace is not None:
            self._trace = open_trace(arguments.trace, me, names, loop, self._host.snapshot, number)
        self._clients: ClientServer | None = None
        where: dict[str, object] = {}
        if groups is not None:
            addresses = client_addresses(arguments, state, config, me.daemon)
            options = session_options(config, arguments)
            connections_max = allow_descriptors(options.sessions_max)
            spills = spill_place(state_path(state, config.cluster, name, "spill"))
            self._clients = ClientServer(
                loop,
                self.log,
                self._host,
                groups,
                addresses,
                options,
                spills,
                config.order_names,
                connections_max,
                tls,
            )
            self._above: OutputHandler = self._clients.handle_engine_outputs
            where = where_clients_come(self._clients.addresses)
        elif above is not None:
            self._above = above(loop, self._host)
        self._open_to_view(config, arguments)
        self._spooler = self._start_spooler(spool)
        if self._admin is not None:
            where["admin"] = self._admin.path
        self._health_log.also = self._count_links
        self._health_log.watch(self._host)
        loop.on_stall.append(self._health_log.stalled)
        if self._http is not None:
            where["metrics"] = "{} port {}".format(*self._http.address)
        self._say_start(config, me, keys, where)
        if self._clients is not None and addresses.path is None:
            self.log.say("warning", text=NO_SOCKET)

    def _start_spooler(self, spool: SpoolTuning | None) -> SpoolerProcess | None:
        if spool is None or self._clients is None:
            return None
        command = spool_command(spool, client_url(self._clients.addresses))
        spooler = SpoolerProcess(self._loop, self.log, command)
        self._description.spooler = spooler.report
        return spooler

    def _say_start(self, config: Config, me: Process, keys: KeyRing | None, where: dict[str, object]) -> None:
        own = config.daemons[me.daemon]
        self.log.say(
            "start",
            version=__version__,
            cluster=config.cluster,
            site=config.sites[config.site_of[me.daemon]].name,
            hash=f"{cluster_hash(config):08x}",
            address=f"{own.address} port {own.port}",
            incarnation=f"{me.incarnation:016x}",
            pid=os.getpid(),
            key="none" if keys is None else f"{keys.use:08x}",
            **({"after": "crash"} if self._events.crashed else {}),
            **where,
        )
        of_files = *self._counter.warnings, *self._mark.warnings, *self._events.warnings
        for warning in (*warnings_of(config), *of_files, *self._description.problems):
            self._warn(warning)
        self._mark.warn = self._events.warn = self._warn

    def _warn(self, text: str) -> None:
        self.log.say("warning", text=text)

    def _open_to_view(self, config: Config, arguments: argparse.Namespace) -> None:
        """Makes the description of the daemon available to clients, by HTTP and on the admin channel."""
        session_server = None if self._clients is None else self._clients.session_server
        events = state_path(state_directory(arguments.state), config.cluster, arguments.name, "events")
        self._events = EventStore(events, arguments.name, self._loop.now_us)
        self.log.also = self._health_log.note = self._events.note
        description = DaemonDescription(config, self._host, session_server, self._loop.now_us())
        self._description = description
        if self._clients is not None:
            description.problems = tuple(self._clients.problems)
            description.tls_refused = self._clients.tls_refused
            self._clients.audit = None if self._audit is None else self._note_access
            self._clients.grant(*self._access)
        if session_server is not None:
            session_server.queries.describe = lambda: description.answer(self._loop.now_us())
            session_server.queries.weigh = description.weights
        self._metrics: Metrics | None = None
        self._http: HttpServer | None = None
        if arguments.metrics is not None:
            self._metrics = Metrics(self._loop, self.log, description)
            metrics = self._metrics
            pages = {"/metrics": metrics.page, "/healthz": metrics.alive, "/readyz": metrics.ready}
            try:
                self._http = HttpServer(self._loop, arguments.metrics, pages)
            except BindError as error:
                description.problems += (f"{error}, and restart: there are no metrics",)
        self.reloading = ConfigReload(arguments, config, self.log, session_server, self._change_keys)
        self.reloading.audit = self._audit
        self.reloading.apply_access = None if self._clients is None else self._clients.grant
        reload = self.reloading.reload_for_admin
        controls = DaemonControls(
            self._loop, description, self._deliveries, self.log, reload=reload, terminate=self.leave
        )
        self._admin: AdminSocket | None = None
        if (place := admin_place(arguments, config)) is not None:
            allowed = admin_verbs(arguments, config)
            self._admin = AdminSocket(self._loop, self.log, place, controls, allowed, config.admin.mode)
            self.reloading.admin = self._admin
            self._admin.audit = self._audit
            self._admin.offer(self._events)
            controls.store = self._events
        self._rejoin: Rejoin | None = None
        if self._clients is not None and isinstance(self._host, ReconfigurableHost):
            parts = RejoinParts(self._host, self._clients, description, self._health_log, self._trace, controls)
            taken = self.reloading.taken
            self._rejoin = Rejoin(self._loop, self.log, parts, taken, self._fail)
            self.reloading.rejoin = self._rejoin

    def _change_keys(self, keys: KeyRing, tls: DaemonTls | None) -> None:
        self._host.change_keys(keys)
        if tls is not None:
            self._host.change_tls(tls)
            if self._clients is not None:
                self._clients.change_tls(tls)

    def _note_access(self, note: AccessNote, address: str) -> None:
        assert self._audit is not None, "there is one"
        told = {key: value for key in _AUDITED if (value := getattr(note, key))}
        was_failing = self._audit.failing
        self._audit.write(note.event, **told, address=address)
        if self._audit.failing and not was_failing:
            self.log.say("warning", text="the audit cannot be written; make room on its disk")

    def _fail(self) -> None:
        self.failed = True
        self._loop.stop()

    def leave(self) -> None:
        """Ends the loop when all daemons have its messages, or after DRAIN_US_MAX; a second call ends now."""
        if self._leave_by_us < NEVER:
            self._loop.stop()
            return
        self.log.say("leave")
        if self._rejoin is not None:
            self._rejoin.stop()
            self.reloading.rejoin = None
        if self._metrics is not None:
            self._metrics.leaving = True
        if self._clients is not None:
            self._clients.leave()
        self._leave_by_us = self._loop.now_us() + DRAIN_US_MAX
        self._drain()

    def _drain(self) -> None:
        now_us = self._loop.now_us()
        served = self._clients is None or self._clients.drained
        if (served and self._host.drained) or now_us >= self._leave_by_us:
            if self._spooler is None:
                self._end()
            else:
                # It gets what the daemon had for it until now, and writes it.
                self._spooler.stop(self._end)
        else:
            self._drain_alarm.set(now_us + DRAIN_CHECK_US)

    def _end(self) -> None:
        if self._clients is not None:
            self._clients.end()
        self._host.leave()
        # Its last messages are sent at the end of this turn.
        self._loop.call_soon(self._loop.stop)

    def close(self) -> None:
        """Closes all sockets and files of the daemon."""
        if self._spooler is not None:
            self._spooler.close()
        if self._http is not None:
            self._http.close()
        if self._admin is not None:
            self._admin.close()
        if self._clients is not None:
            self._clients.close()
        self._host.close()
        if self._trace is not None:
            self._trace.close()
        self._counter.wait_until_written()
        self._mark.close()
        if self._audit is not None:
            self._audit.close()
        self.log.say("end")
        self._events.close()

    def _note(self, events: Sequence[EngineOutput]) -> None:
        if self._trace is not None and not self._trace.problem:
            self._trace.note(events)
            self._trace.count()
            self._warn_of_trace()

    def _reached(self, counter: int) -> None:
        """Another network begins, with this view counter."""
        self._counter.reserve(counter)
        self._count_links(at_once=True)

    def _count_links(self, *, at_once: bool = False) -> None:
        """Records link counters; called only when the daemon is awake for another reason."""
        if self._trace is not None and not self._trace.problem:
            self._trace.count(at_once=at_once)
            self._warn_of_trace()

    def _warn_of_trace(self) -> None:
        assert self._trace is not None, "there is one"
        if self._trace.problem:
            self.log.say("warning", text=self._trace.problem)

    def _handle_engine_outputs(self, events: Sequence[EngineOutput]) -> None:
        self._health_log.observe(events)
        self._deliveries.observe(events)
        if self._metrics is not None:
            self._metrics.observe(events)
        self._above(events)


def run(words: Sequence[str], above: Above | None = None, engine: str = DEFAULT_ENGINE) -> int:
    """Runs a daemon from its command line to its exit code; without `above` it serves clients."""
    arguments = command_line().parse_args(words)
    loop = Loop()
    loop.lingering.linger_us = arguments.linger
    try:
        hopd = Hopd(loop, load(arguments.file, arguments.name), arguments, above, engine)
    except StartRefused as refused:
        print(printable(f"hopd: {refused}", keep="\n"), file=sys.stderr)
        return refused.code
    except BindError as error:
        print(printable(f"hopd: {error}", keep="\n"), file=sys.stderr)
        return HopdExit.FAILURE

    def signalled(number: int) -> None:
        (hopd.reloading.reload if number == signal.SIGHUP else hopd.leave)()

    loop.on_signals(signalled, [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    if arguments.end_with_stdin:
        end_with_descriptor(loop, STDIN, hopd.leave)
    keep_memory()
    spare_the_collector()
    try:
        loop.run()
    except CountersUsedUp as error:
        # No packet may be sent any more, not even a farewell; whoever restarts the daemon gives it other keys.
        print(f"hopd: {error}", file=sys.stderr)
        hopd.failed = True
    hopd.close()
    loop.close()
    return HopdExit.FAILURE if hopd.failed else HopdExit.OK


def _groups(config: Config, me: Process) -> Groups:
    return Groups(me, sites_of(config), [daemon.name for daemon in config.daemons])


def main() -> None:
    """The entry point of the command `hopd`."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
