from pathlib import Path

from hopring.check import trace
from hopring.check.trace_files import read_json_lines
from hopring.daemon.process.trace_file import TraceFile
from hopring.ids import DaemonId, Incarnation, Process, ViewId
from hopring.membership.events import Delivered, Installed, Stamped, TransitionalSignal
from hopring.ordering.entry import Message, Position
from hopring.services import Service

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

    me, you = trace.Process("eu1", 7), trace.Process("eu2", 2**64 - 1)
    view = trace.ViewName(3, 1, 2**64 - 1)
    mine, yours = trace.MessageId("eu1", 7, 7), trace.MessageId("eu2", 2**64 - 1, 7)
    assert read(path) == [
        trace.Recover(me, 42, 1_000_042),
        trace.Installed(me, 42, view, (me, you), (me,), "merge"),
        trace.Sent(me, 42, view, mine, Service.SAFE, trace.Ord(9, 1, view), 15),
        trace.Delivered(me, 42, view, yours, Service.SAFE, trace.Ord(8, 1, view)),
        trace.Signal(me, 42, view, (me,)),
    ]


def test_another_life_goes_on_behind_the_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    TraceFile(path, ONE, NAMES, lambda: 1, wall=lambda: 11).close()
    with path.open("ab") as torn:
        torn.write(b'{"schema":1,"ki')
    again = Process(DaemonId(0), Incarnation(8))
    TraceFile(path, again, NAMES, lambda: 2, wall=lambda: 12).close()

    first, second = trace.Process("eu1", 7), trace.Process("eu1", 8)
    assert read(path) == [
        *[trace.Recover(first, 1, 11), trace.Crash(first, 1)],
        *[trace.Recover(second, 2, 12), trace.Crash(second, 2)],
    ]


def test_a_full_disk_ends_the_trace_and_not_the_daemon() -> None:
    file = TraceFile(Path("/dev/full"), ONE, NAMES, lambda: 1)
    file.note([TransitionalSignal(VIEW, (ONE,), VIEW)])

    assert file.problem == "cannot write /dev/full (No space left on device): the trace ends here"
