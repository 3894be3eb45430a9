"""The judgement of the fuzz of packets: what a forgery excuses, and what it does not."""

from pathlib import Path

import msgspec
from tests.fuzz.packet_judge import (
    CLIENTS_MAY_BREAK,
    INTEGRITY,
    MAY_BREAK,
    TraceSlices,
    integrity,
    judge,
)

from hopring.check.properties import CLIENTS, DAEMONS
from hopring.check.trace import (
    Event,
    MessageDelivered,
    MessageId,
    MessageSent,
    Ord,
    ProcessName,
    Recover,
    ViewInstalled,
    ViewName,
)
from hopring.check.trace_files import rows
from hopring.services import Service

A, B = ProcessName("a", 1), ProcessName("b", 2)
VIEW = ViewName(3, 0, 1)
PAGE = Path(__file__).parents[3] / "docs" / "security.md"


def place(lts: int) -> Ord:
    return Ord(lts, 0, VIEW)


def message(lts: int) -> MessageId:
    return MessageId("a", 1, lts)


def sends(lts: int, service: Service = Service.AGREED) -> Event:
    return MessageSent(A, lts, VIEW, message(lts), service, place(lts))


def delivers(process: ProcessName, lts: int, service: Service = Service.AGREED) -> Event:
    return MessageDelivered(process, lts, VIEW, message(lts), service, place(lts))


def begins(process: ProcessName) -> list[Event]:
    return [Recover(process, 0), ViewInstalled(process, 1, VIEW, (A, B), (process,))]


def good() -> list[Event]:
    return [*begins(A), sends(5), delivers(A, 5), *begins(B), delivers(B, 5)]


def test_every_property_that_may_break_exists_and_is_on_the_page_about_security() -> None:
    page = PAGE.read_text()

    assert set(MAY_BREAK) <= {one.name for one in DAEMONS}
    assert set(CLIENTS_MAY_BREAK) <= {one.name for one in CLIENTS}
    for name in MAY_BREAK:
        short = name.split()[0] if name[0].isdigit() else " ".join(name.split()[:2])
        assert short in page, name


def test_nothing_is_wrong_with_a_right_history_forged_or_not() -> None:
    assert judge(good(), [], ["a", "b"], None) == ([], [])
    assert judge(good(), [], ["a", "b"], set()) == ([], [])


def test_a_message_that_one_of_two_lacks_is_excused_only_where_something_is_forged() -> None:
    history = good()[:-1]

    assert judge(history, [], ["a", "b"], None)[0]
    wrong, excused = judge(history, [], ["a", "b"], set())
    assert not wrong
    assert "2.17 termination of delivery" in [one.property for one in excused]


def test_a_message_that_nobody_sent_counts_as_sent_if_it_was_forged_with_this_stamp_and_service() -> None:
    history = [*good(), delivers(B, 7, Service.SAFE)]

    assert [one.property for one in integrity(history, set())] == [INTEGRITY]
    assert [one.property for one in integrity(history, {("a", 7, int(Service.AGREED))})] == [INTEGRITY]
    assert not integrity(history, {("a", 7, int(Service.SAFE))})


def test_a_process_that_is_not_in_its_own_view_is_never_excused() -> None:
    history = [Recover(A, 0), ViewInstalled(A, 1, VIEW, (B,), (A,)), *begins(B)]

    assert "2.2 self inclusion" in [one.property for one in judge(history, [], ["a", "b"], set())[0]]


def test_a_piece_of_a_trace_begins_in_the_present_view_without_what_was_judged_before(tmp_path: Path) -> None:
    before = {"a": [*begins(A), sends(5), delivers(A, 5)], "b": [*begins(B), delivers(B, 5)]}
    after = {"a": [sends(6), delivers(A, 6)], "b": [delivers(B, 6)]}
    files = {name: tmp_path / name for name in before}
    lines = {
        name: [msgspec.json.encode(row) + b"\n" for row in rows([*before[name], *after[name]])]
        for name in files
    }
    slices = TraceSlices(files)
    for name, file in files.items():
        file.write_bytes(b"".join(lines[name][: len(before[name])]))
    assert judge(slices.history(files), [], ["a", "b"], None) == ([], [])
    slices.next_piece()
    for name, file in files.items():
        file.write_bytes(b"".join(lines[name]))

    history = slices.history(files)

    assert [one.message.number for one in history if isinstance(one, MessageDelivered)] == [6, 6]
    assert judge(history, [], ["a", "b"], None) == ([], [])
