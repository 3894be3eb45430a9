"""Traces that record the requests and events of a client."""

import pytest

from hopring import AGREED, SAFE, Member, Message, Transition, View
from hopring.check import trace
from hopring.check.judge import check_evs_c
from hopring.client.events import Event
from hopring.groups.names import GroupViewId
from hopring.ids import DaemonId, Incarnation, Place, ViewId
from hopring.local.recorder import Recorder, message_name
from hopring.services import Service

VIEW = ViewId(3, DaemonId(0), Incarnation(7))
ME = Member("eu1", "anna", incarnation=7, session=4)
PROCESS = trace.ProcessName("eu1", 7, 4)


def recorder() -> Recorder:
    return Recorder("eu1", "anna", "#anna#eu1")


def view(*members: Member, step: int = 1) -> View:
    return View("g", GroupViewId(VIEW, (), step), members, members, "join", members[-1], ())


def message(data: bytes, lts: int, service: Service = AGREED) -> Message:
    return Message("#anna#eu1", ("g",), data, service, 0, Place(VIEW, lts, 0))


def test_events_before_the_first_view_are_kept_until_the_process_is_known() -> None:
    record = recorder()
    record.note_join("g")

    assert record.events == []
    record.note_event(view(Member("us1", "bert", 9, 1), ME))

    kinds = [type(event) for event in record.events]
    assert kinds == [trace.ClientConnected, trace.AsksJoin, trace.GroupInstalled]
    assert {event.process for event in record.events} == {PROCESS}
    installed = record.events[-1]
    assert isinstance(installed, trace.GroupInstalled)
    assert installed.view == trace.GroupViewName(trace.ViewName(3, 0, 7), (), 1)
    assert installed.members == (trace.ProcessName("us1", 9, 1), PROCESS)


def test_a_recorded_message_begins_with_its_name() -> None:
    record = recorder()
    record.note_event(view(ME))
    data = record.note_send(["g"], SAFE, b"body")

    assert message_name(data) == trace.MessageId("eu1", 7, 1, 4)
    assert data.endswith(b"body")
    assert message_name(record.note_send(["g"], SAFE)).number == 2
    with pytest.raises(ValueError, match="has no name"):
        message_name(b"somebody else's")


def test_messages_of_one_bundle_are_recorded_in_the_order_of_their_numbers() -> None:
    record = recorder()
    record.note_event(view(ME))
    sent = [record.note_send(["g"], AGREED) for _ in range(4)]
    for data, lts in zip(sent, (5, 5, 5, 6), strict=True):
        record.note_event(message(data, lts))
    places = [(event.ord.lts, event.ord.place) for event in record.events if hasattr(event, "ord")]

    assert places == [(5, 1), (5, 2), (5, 3), (6, 4)]


def history(*later: Event) -> list[object]:
    record = recorder()
    record.note_join("g")
    record.note_event(view(ME))
    data = record.note_send(["g"], AGREED)
    for event in (message(data, 5), *later):
        record.note_event(event)
    return [trace.Recover(trace.ProcessName("eu1", 7), 0), *record.events]


def test_the_checker_accepts_a_correct_record_and_refuses_a_wrong_one() -> None:
    signal = Transition("g", GroupViewId(VIEW, (), 1), (ME,))
    good = history(signal)
    twice = [*good, good[-2]]

    assert [one for one in check_evs_c(good, quiet_end=True) if not one] == []
    assert [one for one in check_evs_c(twice, quiet_end=True) if not one] != []
