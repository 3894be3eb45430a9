"""The audit on Spark: every property of extended virtual synchrony over long traces, of daemons and of clients.

    python -m hopring.bench.suite.audit [--clients] [--planted] [--engine ENGINE] [--cluster] [DELIVERIES ...]

Daemons: up to 30 million deliveries at sixteen daemons, in two halves that split and merge over and over;
Agreed, Safe, FIFO and Reliable messages. Clients: a million deliveries to 64 sessions at eight daemons, each in
four of forty groups, with joins, leaves and changes of network. Without arguments both are audited.

Traces are written to temporary files beforehand (TMPDIR); that time is not measured. Each audit is a process
of its own, so its time includes the start of Java. With `--cluster` it runs on a standalone cluster of two
workers, which is started before. `peak_mbytes` is the sum of all processes of Spark at its highest,
`disk_mbytes` what Spark had on disk at most; both are looked at once a second. `load_before` is the machine's
load before it; `times_deliveries` and `times_seconds` compare each trace with the first one.

The traces keep every property. Daemons are in two halves that split and merge in turn. In a view all daemons
deliver in the order of the stamps, three quarters of the messages before the signal. In a view that splits, the
rest is delivered after the signal: on each side only the messages of its own daemons. They are written column
by column.

With `--planted` five violations are written into the middle of it: a message is delivered twice, one is lost
at one daemon, two of one sender come in the wrong order, one comes that nobody sent, and a daemon shows one
member too few. The audit has to find all five, each at its place; otherwise the bench fails.

Clients are sessions in some of many groups. In turn each group loses a member, which leaves and joins again,
and all groups get a signal and the view of a new network. All members deliver what is sent to their group, in
the order of the stamps; some messages go to two groups.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hopring.bench.pipeline import java_figures, tree_cpu_seconds, tree_mbytes, workers_peak_mbytes
from hopring.bench.planted_faults import Columns, PlantedFaults, rows_at
from hopring.check.trace import (
    AsksJoin,
    AsksLeave,
    ClientConnected,
    ClientDelivered,
    ClientSent,
    GroupInstalled,
    GroupLeft,
    GroupSignal,
    GroupViewName,
    MessageId,
    Ord,
    ProcessName,
    Recover,
    ViewName,
)
from hopring.check.trace import (
    Event as TraceEvent,
)
from hopring.check.trace_files import SCHEMA_VERSION
from hopring.check.trace_row import process_text, view_text
from hopring.services import Service
from hopring.spark.audit.reading import ROWS_AT_ONCE
from hopring.spark.audit.size import ENGINES, Engine
from hopring.spark.schema import TRACE

VIEWS: Final = 60
SERVICES: Final = ("agreed", "safe", "fifo", "reliable")
DELIVERED: Final = 0.935
"""The share of the deliveries of an unsplit cluster: of the quarter behind the signal, half is missing."""
_ARROW: Final = {"bigint": pa.int64(), "string": pa.string(), "array<string>": pa.list_(pa.string())}
SCHEMA: Final = pa.schema([(name, _ARROW[kind]) for name, kind in TRACE.items()])


@dataclass
class TraceSize:
    """Numbers of events of a trace."""

    deliveries: int = 0
    events: int = 0
    views: int = 0


class TraceWriter:
    """Writes one file per daemon, in row groups of the usual size of traces."""

    def __init__(self, directory: Path, daemons: int) -> None:
        self.names = [process_text(ProcessName(f"d{number:02d}", number + 1)) for number in range(daemons)]
        self.files = [
            pq.ParquetWriter(directory / f"d{n:02d}.parquet", SCHEMA, compression="zstd")
            for n in range(daemons)
        ]
        self.positions = [0] * daemons
        self.waiting: list[list[pa.Table]] = [[] for _ in range(daemons)]
        self.made = TraceSize()

    def write(self, daemon: int, columns: Columns) -> None:
        """Writes the next events of a daemon; columns that are not given are null."""
        rows = len(columns["kind"])
        first = self.positions[daemon]
        self.positions[daemon] += rows
        fixed = {
            "schema": np.full(rows, SCHEMA_VERSION),
            "process": _same(self.names[daemon], rows),
            "daemon": _same(f"d{daemon:02d}", rows),
            "position": np.arange(first, first + rows),
            "time_us": np.arange(first, first + rows),
            "group": _same("", rows),
        }
        whole = fixed | columns
        arrays = [
            pa.array(whole[field.name], field.type)
            if not isinstance(whole.get(field.name), pa.Array) and field.name in whole
            else whole.get(field.name, pa.nulls(rows, field.type))
            for field in SCHEMA
        ]
        self.waiting[daemon].append(pa.table(arrays, schema=SCHEMA))
        self.made.events += rows
        if sum(table.num_rows for table in self.waiting[daemon]) >= ROWS_AT_ONCE:
            self._flush(daemon)

    def _flush(self, daemon: int) -> None:
        self.files[daemon].write_table(pa.concat_tables(self.waiting[daemon]), row_group_size=ROWS_AT_ONCE)
        self.waiting[daemon].clear()

    def close(self) -> TraceSize:
        for daemon, file in enumerate(self.files):
            self._flush(daemon)
            file.close()
        return self.made


def _same(text: str, rows: int) -> Any:
    return pa.repeat(pa.scalar(text, pa.string()), rows)


def write_trace(
    directory: Path, deliveries: int, daemons: int, planted: PlantedFaults | None = None
) -> TraceSize:
    """Writes a trace of daemons with about this many deliveries."""
    writer = TraceWriter(directory, daemons)
    half = daemons // 2
    everybody, halves = list(range(daemons)), (list(range(half)), list(range(half, daemons)))
    messages = max(8, round(deliveries / (VIEWS * daemons * DELIVERED)))
    for daemon in everybody:
        writer.write(daemon, {"kind": _same("recover", 1)})
    clock = 0
    numbers: Any = np.zeros(daemons, np.int64)
    for counter in range(1, VIEWS + 1):
        whole = counter % 2 == 1
        for members in [everybody] if whole else halves:
            view = AuditedView(writer, counter, members, counter == 1, halves, planted)
            view.open()
            view.traffic(messages * len(everybody) // len(members) // (1 if whole else 2), clock, numbers)
            if counter < VIEWS:
                view.close()
        clock += 4 * messages
    return writer.close()


class AuditedView:
    """One view and the events in it."""

    def __init__(
        self,
        writer: TraceWriter,
        counter: int,
        members: list[int],
        first: bool,
        halves: tuple[list[int], list[int]],
        planted: PlantedFaults | None = None,
    ) -> None:
        self.writer, self.members, self.first, self.halves = writer, members, first, halves
        self.counter, self.planted = counter, planted
        self.name = view_text(ViewName(counter, members[0], 1))
        self.late: dict[int, Columns] = {}
        writer.made.views += 1

    def _side(self, daemon: int) -> list[int]:
        return self.halves[0] if daemon in self.halves[0] else self.halves[1]

    def _names(self, daemons: list[int]) -> list[str]:
        return [self.writer.names[one] for one in daemons]

    def open(self) -> None:
        """All members install the view; each comes together with its own half."""
        for daemon in self.members:
            together = [daemon] if self.first else self._side(daemon)
            members = self._names(self.members)
            if self.planted is not None and daemon == self.planted.daemon:
                members = self.planted.members(self.counter, members)
            self.writer.write(
                daemon,
                {
                    "kind": _same("view", 1),
                    "view": _same(self.name, 1),
                    "cause": _same("network", 1),
                    "members": [members],
                    "transitional_set": [self._names(together)],
                },
            )

    def traffic(self, messages: int, clock: int, numbers: Any) -> None:
        """Sends, then deliveries in the order of the stamps; the last quarter waits for the signal."""
        dice = np.random.default_rng(clock + self.members[0])
        senders = np.sort(dice.choice(self.members, messages))
        number: Any = np.zeros(messages, np.int64)
        for daemon in self.members:
            own = senders == daemon
            number[own] = numbers[daemon] + np.arange(1, own.sum() + 1)
            numbers[daemon] += own.sum()
        # Stamps rise with the sends of each daemon, and those of the daemons lie between each other.
        lts = (
            clock
            + 1
            + number
            - np.array(
                [number[senders == one].min() if (senders == one).any() else 0 for one in range(len(numbers))]
            )[senders]
        )
        order = np.lexsort((senders, lts))
        senders, number, lts = senders[order], number[order], lts[order]
        service = np.array(SERVICES)[dice.integers(0, len(SERVICES), messages)]
        names = np.array(self.writer.names)[senders]
        columns = {
            "view": np.full(messages, self.name),
            "message": np.char.add(np.char.add(names, ":"), number.astype(str)),
            "sender": names,
            "service": service,
            "ord_lts": lts,
            "ord_site": senders.astype(np.int64),
            "ord_view": np.full(messages, self.name),
            "ord_place": np.zeros(messages, np.int64),
        }
        early = np.arange(messages) < messages * 3 // 4
        for daemon in self.members:
            self._send(daemon, {name: values[senders == daemon] for name, values in columns.items()})
            self._deliver(daemon, columns, early)
            mine = ~early & np.isin(senders, self._side(daemon))
            self.late[daemon] = {name: values[mine] for name, values in columns.items()}

    def _send(self, daemon: int, columns: Columns) -> None:
        rows = len(columns["view"])
        self.writer.write(daemon, columns | {"kind": _same("send", rows), "size": np.full(rows, 100)})

    def _deliver(self, daemon: int, columns: Columns, which: Any) -> None:
        chosen = rows_at(columns, which)
        if self.planted is not None and daemon == self.planted.daemon:
            chosen = self.planted.alter(self.counter, chosen, self.name)
        rows = len(chosen["view"])
        self.writer.write(daemon, chosen | {"kind": _same("deliver", rows)})
        self.writer.made.deliveries += rows

    def close(self) -> None:
        """The signal, and after it the last messages of the own side."""
        for daemon in self.members:
            self.writer.write(
                daemon,
                {
                    "kind": _same("transitional", 1),
                    "view": _same(self.name, 1),
                    "transitional_set": [self._names(self._side(daemon))],
                },
            )
            late = self.late[daemon]
            rows = len(late["view"])
            self.writer.write(daemon, late | {"kind": _same("deliver", rows)})
            self.writer.made.deliveries += rows


CLIENT_TURNS: Final = 50
CLIENT_SERVICES: Final = (Service.AGREED, Service.SAFE, Service.FIFO, Service.RELIABLE)


@dataclass
class TraceGroup:
    """A group and its members."""

    name: str
    members: set[ProcessName] = field(default_factory=set)
    step: int = 0


class ClientTrace:
    """Generates the history, event by event; the events of each session are in order."""

    def __init__(self, daemons: int, sessions: int, groups: int, groups_each: int, seed: int = 1) -> None:
        self._dice = Random(seed)
        self._lives = [ProcessName(f"d{number:02d}", number + 1) for number in range(daemons)]
        self._sessions = [
            self._lives[number % daemons]._replace(session=number // daemons + 1) for number in range(sessions)
        ]
        self._groups = [TraceGroup(f"group{number:03d}") for number in range(groups)]
        self._each = groups_each
        self._network = 1
        self._lts = 0
        self._numbers = dict.fromkeys(self._sessions, 0)

    def events(self, deliveries: int) -> Iterator[TraceEvent]:
        """Yields about this many deliveries, with the events around them."""
        for life in self._lives:
            yield Recover(life, 0)
        for session in self._sessions:
            yield ClientConnected(session, 0, "x", f"#x{session.session}#{session.daemon}")
            for group in self._dice.sample(self._groups, self._each):
                yield AsksJoin(session, 0, group.name)
                yield from self._shown(group, joining=session)
        for _turn in range(CLIENT_TURNS):
            yield from self._traffic(deliveries // CLIENT_TURNS)
            yield from self._churn()
            yield from self._new_network()

    def _shown(
        self, group: TraceGroup, joining: ProcessName | None = None, cause: str = "join"
    ) -> Iterator[TraceEvent]:
        before = set(group.members)
        group.members |= {joining} if joining else set()
        group.step = 1 if cause == "network" else group.step + 1
        view = GroupViewName(ViewName(self._network, 0, 1), (), group.step)
        members, old = tuple(sorted(group.members)), tuple(sorted(before & group.members))
        for member in members:
            together = (member,) if member == joining else old
            yield GroupInstalled(member, 0, group.name, view, members, together, cause)

    def _traffic(self, deliveries: int) -> Iterator[TraceEvent]:
        done = 0
        while done < deliveries:
            targets = self._dice.sample(self._groups, 2 if self._dice.random() < 0.1 else 1)
            receivers = sorted(set().union(*[group.members for group in targets]))
            if not receivers:
                continue
            sender, service = self._dice.choice(receivers), self._dice.choice(CLIENT_SERVICES)
            self._lts += 1
            self._numbers[sender] += 1
            name = MessageId(sender.daemon, sender.incarnation, self._numbers[sender], sender.session)
            to = tuple(group.name for group in targets)
            yield ClientSent(sender, self._lts, to, name, service, 100)
            stamp = Ord(self._lts, 0, ViewName(self._network, 0, 1))
            for receiver in receivers:
                yield ClientDelivered(receiver, self._lts, to, name, service, stamp)
            done += len(receivers)

    def _churn(self) -> Iterator[TraceEvent]:
        for group in self._groups:
            if len(group.members) > 1:
                one = self._dice.choice(sorted(group.members))
                yield AsksLeave(one, 0, group.name)
                yield GroupLeft(one, 0, group.name)
                group.members.remove(one)
                yield from self._shown(group, cause="leave")
                yield AsksJoin(one, 0, group.name)
                yield from self._shown(group, joining=one)

    def _new_network(self) -> Iterator[TraceEvent]:
        self._network += 1
        for group in self._groups:
            view = GroupViewName(ViewName(self._network - 1, 0, 1), (), group.step)
            members = tuple(sorted(group.members))
            for member in members:
                yield GroupSignal(member, 0, group.name, view, members)
            yield from self._shown(group, cause="network")


SIZES: Final = (1_000_000, 10_000_000, 30_000_000)
DAEMONS: Final = 16
CLIENT_SIZES: Final = (1_000_000,)
CLIENT_DAEMONS, SESSIONS, GROUPS, GROUPS_EACH = 8, 64, 40, 4
FIGURES_FILE: Final = "_figures.json"
"""Written beside the trace; Spark ignores names that begin with an underscore."""

PLANTED_FILE: Final = "_planted.json"
"""The planted faults, as the process that audits gets them."""

PLANTED: Final = 5

WORKERS: Final = 2
"""Of the cluster, each with one core."""

LOOK_SECONDS: Final = 1.0

Figures = dict[str, Any]


@dataclass(frozen=True)
class AuditWish:
    """How traces are made and audited."""

    engine: Engine = "auto"
    planted: bool = False
    cluster: bool = False
    memory: str = "5g"  # Of each worker of the cluster.


def write_daemons(directory: Path, deliveries: int, wish: AuditWish) -> Figures:
    """Writes a trace of daemons; returns its size."""
    planted = PlantedFaults(DAEMONS // 2 - 1) if wish.planted else None
    made = write_trace(directory, deliveries, DAEMONS, planted)
    if planted is not None:
        assert len(planted.broken) == PLANTED, "a trace of more deliveries has room for all faults"
        (directory / PLANTED_FILE).write_text(json.dumps(planted.broken))
    return {
        "case": f"{made.deliveries} deliveries",
        "deliveries": made.deliveries,
        "events": made.events,
        "views": made.views,
        "trace_mbytes": round(sum(file.stat().st_size for file in directory.iterdir()) / 1e6, 1),
    }


def write_clients(directory: Path, deliveries: int, _wish: AuditWish) -> Figures:
    """Writes a trace of clients; returns its size."""
    from hopring.check.trace_files import write_parquet  # noqa: PLC0415  The audit process does not need it.

    events = list(ClientTrace(CLIENT_DAEMONS, SESSIONS, GROUPS, GROUPS_EACH).events(deliveries))
    write_parquet(events, directory / "trace.parquet")
    return {
        "case": f"{deliveries} deliveries to sessions",
        "deliveries": deliveries,
        "events": len(events),
    }


class Watch:
    """Looks at the memory of a process and all that it started, and at a directory, while they are used."""

    def __init__(self, pid: int, directory: Path) -> None:
        self._pid = pid
        self._directory = directory
        self._ended = Event()
        self.peak_mbytes = self.disk_mbytes = 0
        self._thread = Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self.peak_mbytes = max(self.peak_mbytes, tree_mbytes(self._pid))
            self.disk_mbytes = max(self.disk_mbytes, round(_stored_bytes(self._directory) / 1e6))


def _stored_bytes(directory: Path) -> int:
    total = 0
    for place, _, files in os.walk(directory):
        for name in files:
            with suppress(OSError):  # It was removed meanwhile.
                total += (Path(place) / name).lstat().st_size
    return total


def measure(deliveries: int, write: Callable[[Path, int, AuditWish], Figures], wish: AuditWish) -> Figures:
    """Writes a trace and audits it in another process."""
    directory = Path(tempfile.mkdtemp(prefix="hopring-audit-"))
    scratch = Path(tempfile.mkdtemp(prefix="hopring-spark-"))
    try:
        size = write(directory, deliveries, wish)
        load = os.getloadavg()[0]
        began = time.monotonic()
        module = [sys.executable, "-m", "hopring.bench.suite.audit"]
        command = [*module, "--engine", wish.engine, "--memory", wish.memory, "--one", str(directory)]
        command += ["--cluster"] if wish.cluster else []
        run = subprocess.Popen(command, env={**os.environ, "SPARK_LOCAL_DIRS": str(scratch)})
        with Watch(run.pid, scratch) as watch:
            if run.wait():
                raise subprocess.CalledProcessError(run.returncode, command)
        seconds = time.monotonic() - began
        return {
            **size,
            "engine": wish.engine,
            "seconds": round(seconds, 1),
            "deliveries_per_s": round(size["deliveries"] / seconds),
            "load_before": round(load, 1),
            "peak_mbytes": watch.peak_mbytes,
            "disk_mbytes": watch.disk_mbytes,
            **json.loads((directory / FIGURES_FILE).read_text()),
        }
    finally:
        shutil.rmtree(directory)
        shutil.rmtree(scratch, ignore_errors=True)


def audit_one(directory: str, wish: AuditWish) -> None:
    """Audits the trace in a directory, with progress on stderr."""
    from hopring.spark import session  # noqa: PLC0415  Only the process that measures needs Spark.
    from hopring.spark.audit import audit, read_trace  # noqa: PLC0415

    began = time.monotonic()

    def report_step(step: str) -> None:
        spent = f"{time.monotonic() - began:6.1f} s, CPU {tree_cpu_seconds(os.getpid()):6.1f} s"
        print(f"  {spent}  {step}", file=sys.stderr, flush=True)

    report_step("starting Spark")
    with _cluster(wish) as (master, settings):
        spark = session("bench audit", master, settings=settings)
        started_cpu_seconds = tree_cpu_seconds(os.getpid())
        report = audit(spark, read_trace(spark, directory), directory, say=report_step, engine=wish.engine)
        report_step("done")
        used = os.times()
        figures = {
            "java": java_figures(),
            "python_cpu_seconds": round(used.user + used.system, 1),
            "workers_peak_mbytes": workers_peak_mbytes(os.getpid()),
            "cpu_seconds": round(tree_cpu_seconds(os.getpid()), 1),
            "audit_cpu_seconds": round(tree_cpu_seconds(os.getpid()) - started_cpu_seconds, 1),
            **verdict(report, Path(directory) / PLANTED_FILE),
        }
        (Path(directory) / FIGURES_FILE).write_text(json.dumps(figures))
        spark.stop()


@contextmanager
def _cluster(wish: AuditWish) -> Iterator[tuple[str | None, dict[str, str]]]:
    """The master for a session, and its settings."""
    if not wish.cluster:
        yield None, {}
        return
    from hopring.spark.cluster import Standalone  # noqa: PLC0415  Only the process that measures needs Spark.

    with Standalone(WORKERS, memory=wish.memory) as cluster:
        yield cluster.url, {"spark.executor.memory": wish.memory, "spark.driver.memory": "4g"}


def verdict(report: Any, planted_file: Path) -> Figures:
    """The broken properties; RuntimeError if they are not those that were planted."""
    broken = sorted({one.property for one in report.findings})
    planted = json.loads(planted_file.read_text()) if planted_file.exists() else {}
    found = {
        number
        for number, part in planted.items()
        for one in report.violations
        if one.property.startswith(f"{number} ") and part in one.witness
    }
    if found != set(planted) or bool(broken) != bool(planted):
        shown = "; ".join([f"{one.property}: {one.witness}" for one in report.violations[:20]])
        raise RuntimeError(f"planted {planted}, found {sorted(found)}: {shown}")
    return {"planted": len(planted), "found": len(found), "broken": broken}


def measure_all(sizes: list[int], write: Callable[[Path, int, AuditWish], Figures], wish: AuditWish) -> None:
    """Prints the figures of each trace, and from the second on its ratio to the first."""
    first: Figures = {}
    for deliveries in sizes:
        figures = measure(deliveries, write, wish)
        if first:
            figures |= {
                f"times_{name}": round(float(figures[name]) / float(first[name]), 2)
                for name in ("deliveries", "seconds")
            }
        first = first or figures
        print(json.dumps(figures), flush=True)


def main() -> None:
    """Reads the command line and measures."""
    parser = argparse.ArgumentParser(prog="python -m hopring.bench.suite.audit", description="Time the audit.")
    parser.add_argument("sizes", nargs="*", type=int, metavar="DELIVERIES")
    parser.add_argument("--clients", action="store_true", help="traces of clients instead of daemons")
    parser.add_argument("--engine", choices=ENGINES, default="auto", help="kernel, queries or by size")
    parser.add_argument("--planted", action="store_true", help="with five violations, which have to be found")
    parser.add_argument("--cluster", action="store_true", help="on a standalone cluster of two workers")
    parser.add_argument("--memory", default="5g", help="of each worker of the cluster")
    parser.add_argument("--one", metavar="DIR", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    wish = AuditWish(arguments.engine, arguments.planted, arguments.cluster, arguments.memory)
    if arguments.one:
        audit_one(arguments.one, wish)
        return
    if arguments.clients and arguments.planted:
        parser.error("--planted is for traces of daemons")
    if not arguments.clients:
        measure_all(arguments.sizes or list(SIZES), write_daemons, wish)
    if arguments.clients or not (arguments.sizes or arguments.planted):
        measure_all(arguments.sizes or list(CLIENT_SIZES), write_clients, wish)


if __name__ == "__main__":
    main()
