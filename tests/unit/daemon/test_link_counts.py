from dataclasses import dataclass
from pathlib import Path

from hopring.check import trace
from hopring.check.trace_files import read_json_lines
from hopring.daemon.process.trace_file import PERIOD_US, LinkCountLog, TraceFile
from hopring.ids import DaemonId, Generation, Incarnation, Process
from hopring.links.events import LinkCounters
from hopring.stack_events import Identity

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
