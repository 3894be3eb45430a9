from dataclasses import dataclass
from pathlib import Path

from hopring.check import trace
from hopring.check.trace_files import read_json_lines
from hopring.daemon.process.trace_file import PERIOD_US, LinkCountLog, TraceFile
from hopring.engine.events import Delivered, Installed, Stamped, TransitionalSignal
from hopring.ids import DaemonId, Generation, Incarnation, Process, ViewId
from hopring.links.events import LinkCounters
from hopring.ordering.entry import Message, Position
from hopring.services import Service
from hopring.stack_events import Identity

NAMES = {DaemonId(0): "eu1", DaemonId(1): "eu2"}
ONE, OTHER = Process(DaemonId(0), Incarnation(7)), Process(DaemonId(1), Incarnation(2**64 - 1))
VIEW = ViewId(3, DaemonId(1), Incarnation(2**64 - 1))


def number_7(service: Service, daemon: int) -> Message:
    return Message(service, DaemonId(daemon), 0, (7).to_bytes(8, "little") + b"payload")


def read(path: Path) -> list[trace.Event]:
    with path.open("rb") as file:
        return read_json_lines(file)


def test_what_happens_is_in_the_file_at_once_and_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    file = TraceFile(path, ONE, NAMES, lambda: 42, wall=lambda: 1_000_042)
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


def test_another_life_goes_on_behind_the_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    TraceFile(path, ONE, NAMES, lambda: 1, wall=lambda: 11).close()
    with path.open("ab") as torn:
        torn.write(b'{"schema":1,"ki')
    again = Process(DaemonId(0), Incarnation(8))
    TraceFile(path, again, NAMES, lambda: 2, wall=lambda: 12).close()

    first, second = trace.ProcessName("eu1", 7), trace.ProcessName("eu1", 8)
    assert read(path) == [
        *[trace.Recover(first, 1, 11), trace.Crash(first, 1)],
        *[trace.Recover(second, 2, 12), trace.Crash(second, 2)],
    ]


def test_a_full_disk_ends_the_trace_and_not_the_daemon() -> None:
    file = TraceFile(Path("/dev/full"), ONE, NAMES, lambda: 1)
    file.note([TransitionalSignal(VIEW, (ONE,), VIEW)])

    assert file.problem == "cannot write /dev/full (No space left on device): the trace ends here"


EU1, US1, AP1 = DaemonId(0), DaemonId(1), DaemonId(2)


def counted(sent: int, round_trip_us: int = 0) -> LinkCounters:
    return LinkCounters(sent, 2, 1, 1, 0, 0, round_trip_us)


@dataclass
class FakeNetwork:
    own: Identity
    counts: dict[DaemonId, LinkCounters]

    def counters(self) -> dict[DaemonId, LinkCounters]:
        return self.counts


def network(generation: int, counts: dict[DaemonId, LinkCounters]) -> FakeNetwork:
    return FakeNetwork(Identity(EU1, Incarnation(7), 1, Generation(generation)), counts)


def test_only_links_that_have_moved_are_news() -> None:
    counts = LinkCountLog()
    its = network(5, {US1: counted(3), AP1: LinkCounters(0, 0, 0, 0, 0, 0, 0)})

    assert [(one.generation, one.peer, one.counters.sent) for one in counts.news(its, 0)] == [(5, US1, 3)]
    its.counts[US1] = counted(3, round_trip_us=70)
    assert counts.news(its, 1) == []
    its.counts[AP1] = counted(1)
    assert [one.peer for one in counts.news(its, 2)] == [AP1]


def test_the_last_counts_of_a_network_are_told_when_the_next_one_begins() -> None:
    counts = LinkCountLog()
    old = network(5, {US1: counted(3)})
    counts.news(old, 0)
    old.counts[US1] = counted(4)

    news = counts.news(network(6, {US1: counted(1)}), 1)

    assert [(one.generation, one.counters.sent) for one in news] == [(5, 4), (6, 1)]


def test_a_trace_has_them_at_most_once_in_a_period_and_in_the_end(tmp_path: Path) -> None:
    now_us = [0]
    path, names = tmp_path / "trace", {EU1: "eu1", US1: "us1"}
    file = TraceFile(path, Process(EU1, Incarnation(7)), names, lambda: now_us[0])
    its = network(5, {})
    for now_us[0] in (0, 1, PERIOD_US - 1, PERIOD_US):
        its.counts[US1] = counted(now_us[0] + 1)
        file.count(its)
    its.counts[US1] = counted(PERIOD_US + 2)
    file.close()

    with path.open("rb") as lines:
        told = [one for one in read_json_lines(lines) if isinstance(one, trace.Counters)]
    assert [one.sent for one in told] == [1, PERIOD_US + 1, PERIOD_US + 2]
    assert {(one.link, one.peer, one.lost) for one in told} == {("us1@0000000000000005", "us1", 1)}
