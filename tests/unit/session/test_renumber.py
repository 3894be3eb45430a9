"""Sessions that were accepted when their daemon had another number."""

import pytest
from tests.unit.session.fake_daemon import ME, FakeDaemon
from tests.unit.session.joined_sessions import joined, send

from hopring.groups.groups import Groups
from hopring.groups.payloads import split_sender
from hopring.groups.renumbering import renumber
from hopring.ids import DaemonId, GroupName, Process, SiteId
from hopring.services import Service
from hopring.session.frames import FrameKind, encode_frame
from hopring.wire.bundle import BundleKey, decode_bundle, encode_bundle

SITES = {DaemonId(0): SiteId(0), DaemonId(1): SiteId(0)}


def renumbered(fake: FakeDaemon, number: int) -> None:
    names = ["eu0", "eu0"]
    names[number] = "eu1"
    assert isinstance(fake.server.groups, Groups)
    renumber(fake.server.groups, Process(DaemonId(number), ME.incarnation), SITES, names)
    fake.server.queries.forget_views()


def taken(fake: FakeDaemon) -> tuple[int, int]:
    """The sender of the next message."""
    submit = fake.server.next_submission(True, fake.now_us)
    assert submit is not None
    key = decode_bundle(split_sender(submit.payload)[1]).key
    return key.daemon, key.session


def test_their_messages_are_sent_under_the_present_number() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna", "red")
    fake.stopped = True
    renumbered(fake, 1)
    bert = fake.client(2, "bert")
    for number, core in ((1, anna), (2, bert)):
        send(core, b"hello", "red")
        fake.exchange(number, core)

    assert [taken(fake), taken(fake)] == [(1, 1), (1, 2)]
    assert not fake.closed


def test_a_second_renumbering_does_not_affect_them() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna", "red")
    fake.stopped = True
    renumbered(fake, 1)
    renumbered(fake, 0)
    send(anna, b"hello", "red")
    fake.exchange(1, anna)

    assert taken(fake) == (0, 1)


@pytest.mark.parametrize("daemon", [1, 7])
def test_a_number_other_than_the_one_in_their_welcome_is_refused(daemon: int) -> None:
    fake = FakeDaemon()
    joined(fake, 1, "anna", "red")
    fake.stopped = True
    renumbered(fake, 1)
    key = BundleKey(DaemonId(daemon), 1, Service.AGREED, (GroupName("red"),))
    fake.say(1, encode_frame(FrameKind.SEND, encode_bundle(key, [b"hello"], [0], [0])))

    assert fake.closed[1][1].startswith("foreign_sender")
