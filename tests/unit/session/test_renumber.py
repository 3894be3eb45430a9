"""Sessions that were welcomed when their daemon had another number."""

import pytest
from tests.unit.session.fake_daemon import ME, FakeDaemon
from tests.unit.session.joined_sessions import joined, send

from hopring.groups.payloads import unseal
from hopring.ids import DaemonId, GroupName, Process, SiteId
from hopring.services import Service
from hopring.session.frames import FrameKind, encode_frame
from hopring.wire.bundle import BundleKey, decode_bundle, encode_bundle

SITES = {DaemonId(0): SiteId(0), DaemonId(1): SiteId(0)}


def renumbered(front: FakeDaemon, number: int) -> None:
    names = ["eu0", "eu0"]
    names[number] = "eu1"
    front.desk.renumber(Process(DaemonId(number), ME.incarnation), SITES, names)


def taken(front: FakeDaemon) -> tuple[int, int]:
    """Whose the next message is."""
    submit = front.desk.take(True, front.now_us)
    assert submit is not None
    key = decode_bundle(unseal(submit.payload)[1]).key
    return key.daemon, key.session


def test_what_they_send_goes_out_under_the_present_number() -> None:
    front = FakeDaemon()
    anna = joined(front, 1, "anna", "red")
    front.stopped = True
    renumbered(front, 1)
    bert = front.client(2, "bert")
    for number, core in ((1, anna), (2, bert)):
        send(core, b"hello", "red")
        front.exchange(number, core)

    assert [taken(front), taken(front)] == [(1, 1), (1, 2)]
    assert not front.closed


def test_twice_another_number_is_none_of_their_affair() -> None:
    front = FakeDaemon()
    anna = joined(front, 1, "anna", "red")
    front.stopped = True
    renumbered(front, 1)
    renumbered(front, 0)
    send(anna, b"hello", "red")
    front.exchange(1, anna)

    assert taken(front) == (0, 1)


@pytest.mark.parametrize("daemon", [1, 7])
def test_another_number_than_the_one_they_were_told_is_refused(daemon: int) -> None:
    front = FakeDaemon()
    joined(front, 1, "anna", "red")
    front.stopped = True
    renumbered(front, 1)
    key = BundleKey(DaemonId(daemon), 1, Service.AGREED, (GroupName("red"),))
    front.say(1, encode_frame(FrameKind.SEND, encode_bundle(key, [b"hello"], [0], [0])))

    assert front.closed[1][1].startswith("foreign_sender")
