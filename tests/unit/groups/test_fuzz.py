"""Wrong messages of other daemons, in every state of the groups: each is refused, and none ends the daemon.

The messages are those of a random run with ideal daemons, changed in bytes, in one field or in the message
around them, and delivered in the place of a right one. What a receiver cannot know to be wrong it accepts, so
afterwards the daemon that is fed starts again, as a faulty daemon's neighbours would have it; a following
exchange of all daemons must work.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

import msgspec
import pytest
from tests.support.decoding import Tally
from tests.unit.groups.ideal_daemons import IdealDaemon, IdealWorld
from tests.unit.groups.one_daemon import ALL, BLUE, FAR, ME, NEAR, RED, FedGroups, delivers, view_id
from tests.unit.groups.random_runs import GROUPS, ask, change, move

from hopring.engine import Delivered, Installed, Rift, Stamped, TransitionalSignal
from hopring.errors import Drop, PeerError
from hopring.groups.events import Connect, DeliverBundle, Disconnect, JoinGroup, Output, ShowView
from hopring.groups.groups import GroupsState
from hopring.groups.messages import (
    ANNOUNCED_MAX,
    HELD_MAX,
    PRESENCES_MAX,
    VERSION_MAX,
    BundlePresence,
    GroupHold,
    GroupInterest,
    GroupJoin,
    GroupKill,
    GroupLeave,
    GroupMessage,
    GroupPresence,
    GroupsPart,
    LocalGroup,
    decode_group_message,
    encode_group_message,
)
from hopring.groups.names import GroupViewId
from hopring.groups.payloads import append_sender, is_group_message
from hopring.ids import DaemonId, GroupName, Incarnation, Process, ViewId
from hopring.ordering.entry import DAEMON_SESSION, OrderedMessage, Position
from hopring.services import Service
from hopring.wire.bundle import BundleKey, encode_bundle

FromBelow = Delivered | Rift | Stamped | TransitionalSignal | Installed
NUMBERS = (0, 1, 2, 70_000, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1, -1)
NAMES = ("", "a", "red", "green", "#a#d0", "x\0y", "ä" * 100, "z" * 200, "#", "a#b")
LAST = GroupViewId(view_id(1), (), 1)


class Tapped(IdealWorld):
    """A world in which daemon 0 gets wrong messages among the right ones."""

    def __init__(self, sites: list[int], seed: int) -> None:
        self.wrong = Random(f"wrong {seed}")
        self.wrong_max = 4  # Before each event; 0 ends it.
        self.kept: list[OrderedMessage] = []
        self.states: Counter[GroupsState] = Counter()
        self.tally = Tally(Refused)
        super().__init__(sites, seed)

    def _feed(self, host: IdealDaemon, events: Iterable[FromBelow]) -> None:
        super()._feed(host, self._among_wrong_ones(host, events))

    def _carry(self, host: IdealDaemon, outputs: list[Output]) -> None:
        # Messages are not judged: wrong ones that look right are delivered, and nothing is known of them.
        super()._carry(host, [one for one in outputs if not isinstance(one, DeliverBundle)])

    def _among_wrong_ones(self, host: IdealDaemon, events: Iterable[FromBelow]) -> Iterator[FromBelow]:
        for event in events:
            if isinstance(event, Delivered):
                self.kept.append(event.message)
            if self.hosts and host is self.hosts[0] and self.kept:
                for _ in range(self.wrong.randint(0, self.wrong_max)):
                    self._feed_wrong(host)
            yield event

    def _feed_wrong(self, host: IdealDaemon) -> None:
        dice, groups = self.wrong, host.groups
        message = altered(dice, dice.choice(self.kept[-40:]))
        senders = [one for one in groups.members if one.daemon == message.daemon]
        if not senders or groups.view is None:
            return  # The membership refuses it.
        position = Position(dice.randint(1, 60), dice.randrange(3))
        drops = groups.drops.total()
        self.states[groups.state] += 1
        groups.interest.heard(message)
        # What sessions are shown is not judged: a wrong message that looks right is believed.
        groups.step(Delivered(groups.view, message, senders[0], position), self.now_us)
        with self.tally.attempt():
            if groups.drops.total() > drops:
                raise Refused


class Refused(Exception):
    """The groups counted a drop."""


def altered(dice: Random, message: OrderedMessage) -> OrderedMessage:
    """A message that differs from one that was sent: in its head, in one field, or in a few bytes."""
    daemon, session, service = message.daemon, message.session, message.service
    payload = bytes(message.payload)
    kind = dice.random()
    if kind < 0.15:
        daemon = DaemonId(dice.randrange(3))
    elif kind < 0.3:
        session = dice.choice([0, 1, 2, 3, 5, 99, DAEMON_SESSION])
    elif kind < 0.35:
        service = dice.choice(list(Service))
    elif kind < 0.75 and is_group_message(payload):
        payload = msgspec.msgpack.encode(other_field(dice, msgspec.msgpack.decode(payload)))
    elif kind < 0.97:
        payload = other_bytes(dice, payload)
    return OrderedMessage(service, daemon, session, payload)


def other_field(dice: Random, value: Any) -> Any:
    """The same value with one part replaced, doubled or left out."""
    if isinstance(value, list) and value and dice.random() < 0.9:
        at = dice.randrange(len(value))
        kind = dice.random()
        if kind < 0.1:
            return [*value[:at], *value[at + 1 :]]
        if kind < 0.2:
            return [*value, value[at]]
        return [*value[:at], other_field(dice, value[at]), *value[at + 1 :]]
    if isinstance(value, int):
        return dice.choice([value + 1, max(0, value - 1), *NUMBERS])
    if isinstance(value, str):
        return dice.choice(NAMES)
    return dice.choice([[], [[]], None, 0, "red"])


def other_bytes(dice: Random, payload: bytes) -> bytes:
    changed = bytearray(payload)
    for _ in range(dice.choice([1, 1, 2, 5])):
        at = dice.randrange(len(changed))
        changed[at] = dice.choice([changed[at] ^ 1 << dice.randrange(8), 0, 255, dice.randrange(256)])
    return bytes(changed[: dice.choice([len(changed)] * 4 + [dice.randrange(1, len(changed) + 1)])])


def run_with_wrong_messages(seed: int, steps: int) -> Tapped:
    """A random run in which daemon 0 gets wrong messages; then it starts again, and all exchange GROUPS."""
    dice = Random(seed)
    world = Tapped(dice.choice([[0, 0, 1], [0, 1, 2], [0, 0, 1, 1]]), seed)
    world.unite()
    for at in range(len(world.hosts)):
        for name in "ab":
            session = world.connect(at, name)
            world.request(at, JoinGroup(session, GroupName(dice.choice(GROUPS))))
    for _ in range(steps):
        world.now_us += dice.randint(0, 1)
        chance = dice.random()
        if chance < 0.08:
            change(world, dice)
        elif chance < 0.4:
            ask(world, dice, GROUPS)
        else:
            move(world, dice)
    check_usable(world.hosts[0])
    world.wrong_max = 0
    world.crash(0)
    return world


def check_usable(host: IdealDaemon) -> None:
    """The tables of the groups still fit together, whatever was believed."""
    groups = host.groups
    table, sessions = groups.table, groups.requests.sessions
    for group in table.groups.values():
        assert group.members
        local = sorted(one.session for one in group.members if one.process == groups.me)
        assert group.local == tuple(local)
        assert set(local) <= set(sessions.by_number)
    for (process, number), entered in table.sessions.items():
        assert all(one in table.groups[name].members for name, one in entered.items())
        assert all((one.process, one.session) == (process, number) for one in entered.values())
    assert {one.name for one in sessions.by_number.values()} == set(sessions.by_name)
    assert all(count > 0 for count in sessions.joining.values())


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, 81, 20))
def test_wrong_messages_are_refused_or_believed_in_every_state_and_the_next_exchange_works(first: int) -> None:
    states: Counter[GroupsState] = Counter()
    tally = Tally(Refused)
    for seed in range(first, first + 20):
        world = run_with_wrong_messages(seed, 400)
        states += world.states
        tally.taken += world.tally.taken
        tally.refused += world.tally.refused
        world.unite()
        tables = [
            {name: (group.id, group.members) for name, group in host.groups.table.groups.items()}
            for host in world.hosts
        ]
        assert all(host.groups.state is GroupsState.GOP for host in world.hosts)
        assert all(table == tables[0] for table in tables)

    assert all(states[state] > 20 for state in GroupsState), states
    # Some are right by chance, or wrong in a way that only their sender can know, or without any effect.
    tally.expect(0.1)


# Messages that are right in form: each of these is refused, and changes nothing.


def entry(
    group: str = "red", last: GroupViewId = LAST, path: tuple[ViewId, ...] = (), *members: Any
) -> LocalGroup:
    return LocalGroup(group, last, path, members or ((5, "far"),))


def groups_part(
    *entries: LocalGroup, part: int = 0, parts: int = 1, version: int = 0, interested: tuple[str, ...] = ()
) -> GroupsPart:
    return GroupsPart(view_id(3), part, parts, version, entries, interested)


def at_work() -> FedGroups:
    """Session 1 `ann` here and session 5 `far` elsewhere are in `red`; session 2 `bob` is in no group."""
    fed = FedGroups(*ALL)
    fed.join(1, "ann", RED)
    fed.deliver(FAR, 5, GroupJoin("far", "red"))
    fed.step(Connect(2, "bob"))
    return fed


def gathering() -> FedGroups:
    """In view 3, with a newcomer; GROUPS of this daemon are delivered, and no others."""
    fed = at_work()
    fed.move((ME, FAR), ALL, 3)
    fed.delivered(ME, fed.taken())
    assert fed.groups.state is GroupsState.GGATHER
    return fed


def snapshot(fed: FedGroups) -> object:
    groups = fed.groups
    return (
        groups.state,
        {
            name: (one.id, set(one.members), one.local, one.closing_path)
            for name, one in groups.table.groups.items()
        },
        dict(groups.requests.sessions.by_number),
        dict(groups.requests.sessions.joining),
        dict(groups.requests.sessions.blocked),
        {name: dict(said) for name, said in groups.interest._versions.items()},
    )


Case = tuple[Process, int, GroupMessage]
WRONG: dict[str, Case] = {
    "a KILL here of a session that does not exist": (ME, 9, GroupKill()),
    "a KILL here of a session that has not asked for it": (ME, 1, GroupKill()),
    "a JOIN here of a session that does not exist": (ME, 9, GroupJoin("ann", "blue")),
    "a JOIN here under another name": (ME, 1, GroupJoin("eve", "blue")),
    "a JOIN here that was not asked for": (ME, 1, GroupJoin("ann", "blue")),
    "a second JOIN here": (ME, 1, GroupJoin("ann", "red")),
    "a second JOIN": (FAR, 5, GroupJoin("far", "red")),
    "a JOIN of one session under two names": (FAR, 5, GroupJoin("other", "blue")),
    "a JOIN of the daemons' session": (FAR, DAEMON_SESSION, GroupJoin("far", "blue")),
    "a JOIN to a private group": (FAR, 6, GroupJoin("new", "#ann#d0")),
    "a JOIN to a group with a NUL": (FAR, 6, GroupJoin("new", "a\0b")),
    "a JOIN to a group with a long name": (FAR, 6, GroupJoin("new", "ä" * 100)),
    "a JOIN of an illegal name": (FAR, 6, GroupJoin("n#w", "blue")),
    "an INTEREST of a session": (FAR, 5, GroupInterest(1, ("blue",))),
    "an INTEREST in a private group": (FAR, DAEMON_SESSION, GroupInterest(1, ("#a#d1",))),
    "an INTEREST in too many groups": (
        FAR,
        DAEMON_SESSION,
        GroupInterest(1, tuple(f"g{at}" for at in range(ANNOUNCED_MAX + 1))),
    ),
    "the end of interest in too many groups": (
        FAR,
        DAEMON_SESSION,
        GroupInterest(1, (), tuple(f"g{at}" for at in range(ANNOUNCED_MAX + 1))),
    ),
    "an INTEREST far ahead": (FAR, DAEMON_SESSION, GroupInterest(1 << 40, ("blue",))),
    "an INTEREST above all versions": (FAR, DAEMON_SESSION, GroupInterest(VERSION_MAX + 1, ("blue",))),
    "a HOLD with an illegal name": (FAR, DAEMON_SESSION, GroupHold(("a\0b",))),
    "a HOLD of too many groups": (
        FAR,
        DAEMON_SESSION,
        GroupHold(tuple(f"g{at}" for at in range(HELD_MAX + 1))),
    ),
    "a HOLD of a session": (FAR, 5, GroupHold(("red",))),
    "a PRESENT of a session": (FAR, 5, GroupPresence(view_id(2), ())),
    "a PRESENT for too many bundles": (
        FAR,
        DAEMON_SESSION,
        GroupPresence(view_id(2), (BundlePresence(DaemonId(0), 1, 1, 0, ()),) * (PRESENCES_MAX + 1)),
    ),
    "a PRESENT with the daemons' session": (
        FAR,
        DAEMON_SESSION,
        GroupPresence(view_id(2), (BundlePresence(DaemonId(0), DAEMON_SESSION, 1, 0, ()),)),
    ),
    "GROUPS of a session": (FAR, 5, groups_part()),
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_it_is_refused_and_changes_nothing(name: str) -> None:
    sender, session, message = WRONG[name]
    fed = at_work()
    before = snapshot(fed)

    out = fed.deliver(sender, session, message)

    assert (out, fed.groups.drops.total()) == ([], 1)
    assert snapshot(fed) == before
    assert [one for one in fed.join(3, "carl", BLUE) if isinstance(one, ShowView)]


HIGH = ViewId(1, DaemonId(70_000), Incarnation(1))
WRONG_GROUPS = {
    "of a private group": groups_part(entry("#a#d1")),
    "with a long name of a group": groups_part(entry("ä" * 100)),
    "with interest in a group with a NUL": groups_part(interested=("a\0b",)),
    "with an id of the view that begins": groups_part(entry("red", GroupViewId(view_id(3), (), 2**63))),
    "with an id of a daemon that cannot exist": groups_part(entry("red", GroupViewId(HIGH, (), 1))),
    "with a negative counter in an id": groups_part(entry("red", GroupViewId(view_id(-1), (), 1))),
    "with a path over a daemon that cannot exist": groups_part(
        entry("red", GroupViewId(view_id(1), (HIGH,), 1))
    ),
    "with a closing path over such a daemon": groups_part(entry("red", LAST, (HIGH,))),
    "with a negative step": groups_part(entry("red", GroupViewId(view_id(1), (), -1))),
    "with the highest step": groups_part(entry("red", GroupViewId(view_id(1), (), 2**64 - 1))),
    "with the daemons' session": groups_part(entry("red", LAST, (), (DAEMON_SESSION, "far"))),
    "with a session twice": groups_part(entry("red", LAST, (), (5, "far"), (5, "far"))),
    "with a session of two names": groups_part(entry("red"), entry("blue", LAST, (), (5, "other"))),
    "with a name of two sessions": groups_part(entry("red"), entry("blue", LAST, (), (6, "far"))),
    "with two last views of a group": groups_part(
        entry("red"), entry("red", GroupViewId(view_id(1), (), 2), (), (6, "other"))
    ),
    "with a part beyond the last": groups_part(part=1),
    "with too many parts": groups_part(parts=1 << 20),
    "with a version above all": groups_part(version=VERSION_MAX + 1),
}


@pytest.mark.parametrize("name", sorted(WRONG_GROUPS))
def test_groups_are_refused_and_right_ones_still_complete_the_exchange(name: str) -> None:
    fed = gathering()
    before = snapshot(fed)

    out = fed.deliver(FAR, DAEMON_SESSION, WRONG_GROUPS[name])

    assert (out, fed.groups.drops.total()) == ([], 1)
    assert snapshot(fed) == before
    for one in (NEAR, FAR):
        fed.deliver(
            one,
            DAEMON_SESSION,
            groups_part(entry("red", GroupViewId(view_id(2), (), 2)) if one == FAR else entry("blue")),
        )
    assert fed.groups.state is GroupsState.GOP


def test_groups_of_this_daemon_that_it_has_not_sent_are_refused() -> None:
    fed = at_work()
    fed.move((ME, FAR), ALL, 3)

    fed.deliver(ME, DAEMON_SESSION, groups_part(entry("red", LAST, (), (77, "nobody"))))
    assert fed.groups.drops == {Drop.FOREIGN_SENDER: 1}

    fed.exchange(*ALL)
    assert fed.groups.state is GroupsState.GOP


def test_groups_that_repeat_are_refused() -> None:
    fed = gathering()
    fed.deliver(FAR, DAEMON_SESSION, groups_part())
    fed.deliver(FAR, DAEMON_SESSION, groups_part())

    assert fed.groups.drops.total() == 1
    assert fed.groups.state is GroupsState.GGATHER


def test_groups_with_content_are_refused_where_all_know_the_same() -> None:
    fed = at_work()
    fed.move((ME, FAR), (ME, FAR), 3)
    fed.deliver(FAR, DAEMON_SESSION, groups_part(entry("red")))

    assert fed.groups.drops.total() == 1
    fed.exchange(ME, FAR)
    assert fed.groups.state is GroupsState.GOP


def bundle(
    sender: Any, service: Service, name: str = "far", session: int = 5, daemon: int | None = None
) -> bytes:
    number = sender.daemon if daemon is None else DaemonId(daemon)
    key = BundleKey(number, session, service, (RED,))
    return append_sender(encode_bundle(key, [b"body"], [7], [0]), name)


@pytest.mark.parametrize(
    ("sender", "session", "payload"),
    [
        (FAR, 5, bundle(FAR, Service.FIFO, "other")),
        (FAR, 6, bundle(FAR, Service.FIFO, "a#b", 6)),
        (FAR, 6, bundle(FAR, Service.FIFO, "a\0b", 6)),
        (FAR, 5, bundle(FAR, Service.FIFO, session=6)),
        (FAR, 5, bundle(FAR, Service.FIFO, daemon=1)),
        (FAR, 5, bundle(FAR, Service.RELIABLE)),
        (FAR, 5, b"\2"),
        (FAR, 5, b""),
        (ME, 1, bundle(ME, Service.FIFO, "bob", 1)),
    ],
)
def test_bundles_that_name_other_senders_are_refused(sender: Process, session: int, payload: bytes) -> None:
    fed = at_work()
    message = OrderedMessage(Service.FIFO, sender.daemon, session, payload)

    assert fed.step(Delivered(fed.view, message, sender, Position(50, 1))) == []
    assert fed.groups.drops.total() == 1


def test_a_wrong_bundle_that_came_ahead_of_groups_loses_neither_the_others_nor_the_view() -> None:
    """It waits for the exchange without a look at its content; the next view comes before the exchange ends."""
    fed = gathering()
    for payload in (b"\2 wrong", bundle(FAR, Service.FIFO)):
        message = OrderedMessage(Service.FIFO, FAR.daemon, 5, payload)
        assert fed.step(Delivered(fed.view, message, FAR, Position(60, 1))) == []

    out = fed.move((ME, FAR), (ME, FAR), 4)

    assert delivers(out) == [(1,)]
    assert fed.groups.drops.total() == 1
    fed.exchange(ME, FAR)
    assert fed.groups.state is GroupsState.GOP


def test_a_deeply_nested_message_is_refused() -> None:
    payload = b"\x94\xa1J\xa1a\xa1b" + b"\x91" * 50_000 + b"\xc0"

    with pytest.raises(PeerError):
        decode_group_message(payload, Service.AGREED)


def test_a_wrong_interest_keeps_its_place_in_the_order_and_changes_nothing() -> None:
    """The order would stop at a bundle that is refused on receipt."""
    fed = at_work()
    before = snapshot(fed)
    payload = encode_group_message(GroupInterest(1, ("#private",)))

    fed.groups.interest.heard(OrderedMessage(Service.SAFE, FAR.daemon, DAEMON_SESSION, payload))

    assert snapshot(fed) == before


def test_the_end_of_a_session_comes_once() -> None:
    fed = at_work()
    fed.step(Disconnect(1))
    (kill,) = [one for one in fed.taken() if one.session == 1]

    assert fed.delivered(ME, [kill]) != []
    assert fed.delivered(ME, [kill]) == []
    assert fed.groups.drops == {Drop.FOREIGN_SENDER: 1}


def test_a_leave_of_a_group_that_the_session_is_not_in_changes_nothing() -> None:
    """Right daemons send it too: a session that ends gives up a waiting join, and not the leave behind it."""
    fed = at_work()
    before = snapshot(fed)

    assert fed.deliver(FAR, 5, GroupLeave("blue")) == []
    assert fed.groups.drops.total() == 0
    assert snapshot(fed) == before
