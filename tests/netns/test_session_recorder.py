"""The recorder of real clients, on handwritten messages of a daemon; needs no namespaces."""

from dataclasses import dataclass

import pytest

from hopring.check import trace
from hopring.client.core import ClientCore
from hopring.groups.names import GroupViewId
from hopring.ids import DaemonId, GroupName, Incarnation, Place, ViewId
from hopring.local.recorder import message_body
from hopring.local.session_recorder import SessionRecorder
from hopring.services import Service
from hopring.session.frames import PREAMBLE, encode_delivered
from hopring.session.protocol import LeftNotice, MemberEntry, ViewNotice, WelcomeReply, encode_control
from hopring.wire.bundle import BundleKey, decode_bundle, encode_bundle

pytestmark = pytest.mark.interpreted  # The recorder puts its own stream into the library.

ANNA = MemberEntry("anna", "eu1", 7, 3)
ME = trace.ProcessName("eu1", 7, 3)
VIEW = ViewId(5, DaemonId(0), Incarnation(9))


@dataclass
class Session:
    """A connected client without a socket."""

    daemon: str
    name: str
    private_group: str
    _core: ClientCore


@pytest.fixture
def session() -> Session:
    core = ClientCore("hop://nowhere", "anna")
    core.receive(PREAMBLE + encode_control(WelcomeReply("eu1", 0, 3, "#anna#eu1", 1000, 1000)))
    return Session("eu1", "anna", "#anna#eu1", core)


def shown(group: str, step: int) -> bytes:
    return encode_control(ViewNotice(group, GroupViewId(VIEW, (), step), (ANNA,), (0,), "join", ANNA, ()))


def sent(groups: tuple[str, ...], lts: int, *bodies: bytes) -> bytes:
    key = BundleKey(DaemonId(0), 3, Service.AGREED, tuple([GroupName(one) for one in groups]), False)
    zeros = [0] * len(bodies)
    bundle = decode_bundle(encode_bundle(key, list(bodies), zeros, zeros))
    return encode_delivered("#anna#eu1", Place(VIEW, lts, 1), bundle)


def told(session: Session, recorder: SessionRecorder, said: bytes) -> None:
    session._core.receive(said)
    while (event := session._core.take()) is not None:
        recorder.note_event(event)
    recorder.note_due_leaves()


def test_events_before_the_first_view_are_recorded_with_it(session: Session) -> None:
    recorder = SessionRecorder(session)
    recorder.note_join("red")
    assert recorder.events == []
    told(session, recorder, shown("red", 1))

    assert recorder.process == ME
    kinds = [type(one) for one in recorder.events]
    assert kinds == [trace.ClientConnected, trace.AsksJoin, trace.GroupInstalled]
    assert all(one.process == ME for one in recorder.events)


def test_messages_of_a_bundle_have_consecutive_positions(session: Session) -> None:
    recorder = SessionRecorder(session)
    told(session, recorder, shown("red", 1))
    names = [recorder.note_send(("red",), Service.AGREED, body) for body in (b"one", b"two", b"three")]
    told(session, recorder, sent(("red",), 11, *names[:2]) + sent(("red",), 12, names[2]))

    got = [one for one in recorder.events if isinstance(one, trace.ClientDelivered)]
    assert [(one.message.number, one.ord.lts, one.ord.place) for one in got] == [
        (1, 11, 1),
        (2, 11, 2),
        (3, 12, 3),
    ]
    assert {one.message.sender for one in got} == {ME}
    assert message_body(names[2]) == b"three"


def test_a_leave_is_recorded_between_two_messages_that_come_together(session: Session) -> None:
    recorder = SessionRecorder(session)
    told(session, recorder, shown("red", 1) + shown("blue", 1))
    before = recorder.note_send(("red", "blue"), Service.AGREED)
    recorder.note_leave("red")
    after = recorder.note_send(("red", "blue"), Service.AGREED)
    both = ("red", "blue")
    told(session, recorder, sent(both, 11, before) + encode_control(LeftNotice("red")) + sent(both, 12, after))

    seen = [one for one in recorder.events if isinstance(one, trace.ClientDelivered | trace.GroupLeft)]
    assert [type(one) for one in seen] == [trace.ClientDelivered, trace.GroupLeft, trace.ClientDelivered]
