from pathlib import Path

from hopring.check import trace
from hopring.check.trace_files import read_json_lines
from hopring.daemon.process.trace_file import PERIOD_US, LinkCountLog, TraceFile
from hopring.engine import (
    Delivered,
    Installed,
    LinkSnapshot,
    NetworkSnapshot,
    Snapshot,
    Stamped,
    TransitionalSignal,
    WindowSnapshot,
)
from hopring.ids import DaemonId, Incarnation, Process, ViewId
from hopring.links.events import LinkCounters
from hopring.ordering.entry import OrderedMessage, Position
from hopring.services import Service

NAMES = {DaemonId(0): "eu1", DaemonId(1): "eu2"}
ONE, OTHER = Process(DaemonId(0), Incarnation(7)), Process(DaemonId(1), Incarnation(2**64 - 1))
VIEW = ViewId(3, DaemonId(1), Incarnation(2**64 - 1))


def number_7(service: Service, daemon: int) -> OrderedMessage:
    return OrderedMessage(service, DaemonId(daemon), 0, (7).to_bytes(8, "little") + b"payload")


def read(path: Path) -> list[trace.Event]:
    with path.open("rb") as file:
        return read_json_lines(file)


def test_events_are_in_the_file_at_once_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    file = TraceFile(path, ONE, NAMES, lambda: 42, snapshot, wall=lambda: 1_000_042)
    file.note([Installed(VIEW, (ONE, OTHER), (ONE,), "merge")])
    file.note(
        [
            Stamped(VIEW, number_7(Service.SAFE, 0), Position(9, 1)),
            Delivered(VIEW, number_7(Service.SAFE, 1), OTHER, Position(8, 1)),
            TransitionalSignal(VIEW, (ONE,), VIEW),
        ]
    )

    me, you = trace.ProcessName("eu1", 7), trace.ProcessName("eu2", 2**64 - 1)
    view = trace.ViewName(3, 1, 2**64 - 1)
    mine, yours = trace.MessageId("eu1", 7, 7), trace.MessageId("eu2", 2**64 - 1, 7)
    assert read(path) == [
        trace.Recover(me, 42, 1_000_042),
        trace.ViewInstalled(me, 42, view, (me, you), (me,), "merge"),
        trace.MessageSent(me, 42, view, mine, Service.SAFE, trace.Ord(9, 1, view), 15),
        trace.MessageDelivered(me, 42, view, yours, Service.SAFE, trace.Ord(8, 1, view)),
        trace.Signalled(me, 42, view, (me,)),
    ]


def test_a_restart_appends_after_the_last_complete_line(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    TraceFile(path, ONE, NAMES, lambda: 1, snapshot, wall=lambda: 11).close()
    with path.open("ab") as torn:
        torn.write(b'{"schema":1,"ki')
    again = Process(DaemonId(0), Incarnation(8))
    TraceFile(path, again, NAMES, lambda: 2, snapshot, wall=lambda: 12).close()

    first, second = trace.ProcessName("eu1", 7), trace.ProcessName("eu1", 8)
    assert read(path) == [
        *[trace.Recover(first, 1, 11), trace.Crash(first, 1)],
        *[trace.Recover(second, 2, 12), trace.Crash(second, 2)],
    ]


def test_a_full_disk_ends_the_trace_and_not_the_daemon() -> None:
    file = TraceFile(Path("/dev/full"), ONE, NAMES, lambda: 1, snapshot)
    file.note([TransitionalSignal(VIEW, (ONE,), VIEW)])

    assert file.problem == "cannot write /dev/full (No space left on device): the trace ends here"


EU1, US1, AP1 = DaemonId(0), DaemonId(1), DaemonId(2)


def counted(sent: int, round_trip_us: int = 0) -> LinkCounters:
    return LinkCounters(sent, 2, 1, 1, 0, 0, round_trip_us)


def network(generation: int, **counts: LinkCounters) -> NetworkSnapshot:
    peers = {"us1": US1, "ap1": AP1}
    return NetworkSnapshot(
        generation, tuple([LinkSnapshot(peers[one], "hop", seen, 0) for one, seen in counts.items()])
    )


def snapshot(present: NetworkSnapshot | None = None, last: NetworkSnapshot | None = None) -> Snapshot:
    return Snapshot(
        me=ONE,
        phase="op",
        phases=("op",),
        settled=True,
        view=VIEW,
        members=(ONE,),
        cause="",
        reached=(),
        window=WindowSnapshot({}),
        network=present,
        last_network=last,
    )


def test_only_links_with_changed_counters_are_written() -> None:
    counts = LinkCountLog()
    silent = LinkCounters(0, 0, 0, 0, 0, 0, 0)

    news = counts.news(snapshot(network(5, us1=counted(3), ap1=silent)), 0)
    assert [(one.generation, one.link.peer, one.link.counters.sent) for one in news] == [(5, US1, 3)]
    assert counts.news(snapshot(network(5, us1=counted(3, round_trip_us=70), ap1=silent)), 1) == []
    news = counts.news(snapshot(network(5, us1=counted(3), ap1=counted(1))), 2)
    assert [one.link.peer for one in news] == [AP1]


def test_the_last_counters_of_a_network_are_written_when_the_next_one_begins() -> None:
    counts = LinkCountLog()
    counts.news(snapshot(network(5, us1=counted(3))), 0)

    news = counts.news(snapshot(network(6, us1=counted(1)), last=network(5, us1=counted(4))), 1)

    assert [(one.generation, one.link.counters.sent) for one in news] == [(5, 4), (6, 1)]


def test_the_last_counters_of_a_network_are_written_once_if_none_follows() -> None:
    counts = LinkCountLog()
    counts.news(snapshot(network(5, us1=counted(3))), 0)
    ended = snapshot(None, last=network(5, us1=counted(4)))

    assert [one.link.counters.sent for one in counts.news(ended, 1)] == [4]
    assert counts.news(ended, 2) == []


def test_a_trace_has_counters_at_most_once_per_period_and_at_its_end(tmp_path: Path) -> None:
    now_us = [0]
    path, names = tmp_path / "trace", {EU1: "eu1", US1: "us1"}
    now = [snapshot(network(5))]
    file = TraceFile(path, Process(EU1, Incarnation(7)), names, lambda: now_us[0], lambda: now[0])
    for now_us[0] in (0, 1, PERIOD_US - 1, PERIOD_US):
        now[0] = snapshot(network(5, us1=counted(now_us[0] + 1)))
        file.count()
    now[0] = snapshot(None, last=network(5, us1=counted(PERIOD_US + 2)))
    file.close()

    with path.open("rb") as lines:
        told = [one for one in read_json_lines(lines) if isinstance(one, trace.Counters)]
    assert [one.sent for one in told] == [1, PERIOD_US + 1, PERIOD_US + 2]
    assert {(one.link, one.peer, one.lost) for one in told} == {("us1@0000000000000005", "us1", 1)}
