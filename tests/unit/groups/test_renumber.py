"""Another configuration: the state that a daemon's groups keep when all daemons get other numbers."""

import pytest
from tests.unit.groups.one_daemon import ALL, ME, RED, FedGroups, member, views

from hopring.engine import Delivered, Installed, TransitionalSignal
from hopring.groups.events import DeliverBundle
from hopring.groups.groups import GroupsState
from hopring.groups.messages import GroupsPart, LocalGroup
from hopring.groups.payloads import split_sender
from hopring.groups.renumbering import renumber
from hopring.ids import DaemonId, Incarnation, Process, SiteId
from hopring.ordering.entry import OrderedMessage, Position
from hopring.services import Service
from hopring.wire.bundle import decode_bundle

THEN = Process(DaemonId(2), ME.incarnation)
OTHER = Process(DaemonId(0), Incarnation(99))
NAMES = ["a0", "b0", "d0"]
SITES = {DaemonId(0): SiteId(0), DaemonId(1): SiteId(1), DaemonId(2): SiteId(1)}


def alone() -> FedGroups:
    """A daemon alone with ann in red, whose message waits."""
    fed = FedGroups()
    fed.join(1, "ann", RED)
    fed.send(1, Service.AGREED, "red")
    return fed


def go_on(fed: FedGroups, members: tuple[Process, ...], counter: int) -> list[object]:
    view = fed.view._replace(counter=counter, representative=THEN.daemon)
    signal = TransitionalSignal(fed.view, (THEN,), view)
    fed.view = view
    return [*fed.step(signal), *fed.step(Installed(view, members, (THEN,), "test"))]


def test_members_stay_and_see_no_event_while_the_daemon_is_alone() -> None:
    fed = alone()
    renumber(fed.groups, THEN, SITES, NAMES)

    assert views(go_on(fed, (THEN,), 2)) == []  # type: ignore[arg-type]
    assert fed.groups.state is GroupsState.GOP
    assert fed.groups.table.groups[RED].members == {member(THEN, "ann", 1)}
    assert fed.groups.table.local(RED) == (1,)


def test_waiting_messages_are_sent_under_the_new_number_and_come_back() -> None:
    fed = alone()
    renumber(fed.groups, THEN, SITES, NAMES)
    go_on(fed, (THEN,), 2)
    [submit] = fed.taken()
    assert decode_bundle(split_sender(submit.payload)[1]).key.daemon == THEN.daemon
    message = OrderedMessage(submit.service, THEN.daemon, submit.session, submit.payload)
    out = fed.step(Delivered(fed.view, message, THEN, Position(9, 1)))

    [deliver] = [one for one in out if isinstance(one, DeliverBundle)]
    assert (deliver.sessions, deliver.sender) == ((1,), "#ann#d0")


def test_daemons_that_come_later_are_merged_under_their_new_names() -> None:
    fed = alone()
    renumber(fed.groups, THEN, SITES, NAMES)
    go_on(fed, (THEN,), 2)
    go_on(fed, (OTHER, THEN), 3)
    theirs = LocalGroup("red", fed.groups.table.groups[RED].id._replace(step=7), (), ((4, "bob"),))
    told = fed.taken()
    for submit in told:
        message = OrderedMessage(submit.service, THEN.daemon, submit.session, submit.payload)
        fed.step(Delivered(fed.view, message, THEN, Position(10, 1)))
    out = fed.deliver(OTHER, told[0].session, GroupsPart(fed.view, 0, 1, 0, (theirs,)))

    [view] = views(out)
    assert view.view.members == (member(OTHER, "bob", 4), member(THEN, "ann", 1))
    assert view.view.together == (member(THEN, "ann", 1),)


def test_only_a_daemon_that_is_alone_can_change_its_number() -> None:
    with pytest.raises(AssertionError, match="nobody else"):
        renumber(FedGroups(*ALL).groups, THEN, SITES, NAMES)
    with pytest.raises(AssertionError, match="its name"):
        renumber(alone().groups, THEN, SITES, ["a0", "b0", "other"])
