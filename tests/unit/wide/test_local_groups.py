"""Local groups as a member sees them: programs count, other members of the service do not."""

from hopring.client.events import Member, Message, Transition, View
from hopring.groups.names import GroupViewId
from hopring.haul.ids import ClusterId
from hopring.haul.member_events import CopySeen, RepresentativesChanged
from hopring.ids import DaemonId, Incarnation, Place, ViewId
from hopring.services import Service
from hopring.wide.messages import HandedItem, encode
from hopring.wide.process.local_groups import LocalGroups

ID = GroupViewId(ViewId(1, DaemonId(0), Incarnation(0)), (), 0)
SERVICE = Member("hub1", "wide:hub:h1", 1, 1)
VENDOR = Member("hub1", "vendor", 1, 2)
ITEM = HandedItem("tickets", 4, 0, ClusterId(1), 4, False)


def view(*members: Member) -> View:
    return View("tickets", ID, members, members, "join", None, (members,))


def copy(data: bytes) -> Message:
    place = Place(ViewId(1, DaemonId(0), Incarnation(0)), 1, 0)
    return Message("#wide:hub:h1#hub1", ("tickets",), data, Service.AGREED, 0, place)


def test_a_group_of_members_of_the_service_alone_has_nobody() -> None:
    groups = LocalGroups()

    assert groups.take(view(SERVICE)) is None
    assert groups.take(view(SERVICE, VENDOR)) == RepresentativesChanged("tickets", True)
    assert groups.take(view(SERVICE, VENDOR)) is None
    assert groups.take(view(SERVICE)) == RepresentativesChanged("tickets", False)


def test_a_copy_counts_by_the_view_in_which_it_came() -> None:
    groups = LocalGroups()
    groups.take(view(SERVICE))
    assert groups.seen("tickets", copy(encode(ITEM))) == CopySeen("tickets", 4, False)
    groups.take(view(SERVICE, VENDOR))
    assert groups.seen("tickets", copy(encode(ITEM))) == CopySeen("tickets", 4, True)
    assert groups.seen("tickets", copy(b"of somebody else")) is None


def test_behind_the_signal_only_those_count_who_stay_together() -> None:
    groups = LocalGroups()
    groups.take(view(SERVICE, VENDOR))

    assert groups.take(Transition("tickets", ID, (SERVICE,))) == RepresentativesChanged("tickets", False)
    assert groups.seen("tickets", copy(encode(ITEM))) == CopySeen("tickets", 4, False)


def test_without_a_session_nobody_is_known() -> None:
    groups = LocalGroups()
    groups.take(view(SERVICE, VENDOR))

    assert groups.restart() == [RepresentativesChanged("tickets", False)]
    assert groups.restart() == []
