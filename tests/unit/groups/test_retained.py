"""Retained values: joiners get the last one, and sides that merge come to have the same."""

from random import Random
from typing import Any

import pytest
from tests.unit.groups.ideal_daemons import IdealDaemon, IdealWorld
from tests.unit.groups.one_daemon import FAR, ME, NEAR, RED, FedGroups, view_id
from tests.unit.groups.random_runs import GROUPS, ask, change, move

from hopring.engine import Delivered, Installed, Rift, Stamped, TransitionalSignal
from hopring.errors import Drop, PeerError
from hopring.groups.events import DeliverBundle, JoinGroup, Output, ShowRetained, ShowView
from hopring.groups.groups import Groups
from hopring.groups.messages import GroupLeave, GroupsPart, RetainedEntry
from hopring.groups.payloads import append_sender, is_group_message
from hopring.groups.retained import (
    RETAINED_TOTAL_BYTES,
    RetainedValue,
    RetainedValues,
    check_retained,
    with_values,
)
from hopring.ids import DaemonId, GroupName, Incarnation, Place, ViewId
from hopring.ordering.entry import OrderedMessage, Position
from hopring.services import Service
from hopring.wire.bundle import BundleKey, decode_bundle, encode_bundle

ORDERED = (Service.CAUSAL, Service.AGREED, Service.SAFE)
VIEW = ViewId(3, DaemonId(1), Incarnation(9))


def packed(data: bytes, group: str = "red", service: Service = Service.AGREED) -> bytes:
    key = BundleKey(DaemonId(1), 9, service, (GroupName(group),), retained=True)
    return encode_bundle(key, [data], [7], [0])


def value(data: bytes, lts: int = 1, group: str = "red", counter: int = 3) -> RetainedValue:
    place = Place(ViewId(counter, DaemonId(1), Incarnation(9)), lts, 0)
    return RetainedValue(place, GroupName("#sender#d1"), packed(data, group))


def put(values: RetainedValues, data: bytes, lts: int, group: str = "red") -> None:
    one = value(data, lts, group)
    values.put(GroupName(group), one, decode_bundle(one.bundle))


def delivered(fed: FedGroups, data: bytes, group: str = "red") -> list[Output]:
    fed.at += 1
    message = OrderedMessage(Service.AGREED, NEAR.daemon, 9, append_sender(packed(data, group), "sender"))
    return fed.step(Delivered(fed.view, message, NEAR, Position(fed.at, 0)))


def shown(outputs: list[Output]) -> list[bytes]:
    found = [one.value.bundle for one in outputs if isinstance(one, ShowRetained)]
    return [bytes(decode_bundle(one).bodies) for one in found]


# One daemon.


def test_a_joiner_gets_the_last_value_behind_its_view_and_before_any_message() -> None:
    fed = FedGroups(ME, NEAR)
    delivered(fed, b"old")
    delivered(fed, b"new")

    out = fed.join(1, "anna", RED)

    kinds = [type(one) for one in out if isinstance(one, (ShowView, ShowRetained, DeliverBundle))]
    assert kinds == [ShowView, ShowRetained]
    assert shown(out) == [b"new"]
    (one,) = [one for one in out if isinstance(one, ShowRetained)]
    assert (one.sessions, one.group, one.value.sender) == ((1,), "red", "#sender#d1")


def test_members_get_the_message_and_no_value_and_other_groups_nothing() -> None:
    fed = FedGroups(ME, NEAR)
    fed.join(1, "anna", RED)

    out = delivered(fed, b"x")

    assert [one.sessions for one in out if isinstance(one, DeliverBundle)] == [(1,)]
    assert shown(out) == []
    assert shown(fed.join(2, "bert", GroupName("blue"))) == []
    assert shown(fed.join(3, "carl", RED)) == [b"x"]


def test_a_message_without_a_body_clears_the_value() -> None:
    fed = FedGroups(ME, NEAR)
    delivered(fed, b"x")
    delivered(fed, b"")

    assert shown(fed.join(1, "anna", RED)) == []


def test_values_outlive_the_members_of_their_groups() -> None:
    fed = FedGroups(ME)
    delivered(fed, b"x")
    fed.join(1, "anna", RED)
    fed.deliver(ME, 1, GroupLeave("red"))

    assert RED in fed.groups.retained.by_group


def test_a_side_with_a_later_value_changes_that_of_members_here() -> None:
    fed = FedGroups(ME)
    fed.join(1, "anna", RED)
    delivered(fed, b"here")
    theirs = value(b"there", lts=1, counter=90)
    entry = RetainedEntry("red", *theirs.place, theirs.sender, theirs.bundle)

    fed.move((ME,), (ME, FAR), 91)
    out = fed.exchange(ME, FAR, said={FAR: GroupsPart(view_id(91), 0, 1, 0, retained=(entry,))})

    assert shown(out) == [b"there"]
    assert shown(fed.join(2, "bert", RED)) == [b"there"]


def test_a_value_that_is_wrong_is_refused_with_its_groups() -> None:
    good = value(b"x")
    wrong = [
        RetainedEntry("blue", *good.place, good.sender, good.bundle),
        RetainedEntry("red", *good.place, "anna", good.bundle),
        RetainedEntry("red", *good.place, good.sender, b"noise"),
        RetainedEntry("red", VIEW, 2**64, 0, good.sender, good.bundle),
        RetainedEntry("red", VIEW, 1, 64, good.sender, good.bundle),
        RetainedEntry("red", view_id(91), 1, 0, good.sender, good.bundle),
    ]
    check_retained(RetainedEntry("red", *good.place, good.sender, good.bundle), view_id(91))
    for entry in wrong:
        with pytest.raises(PeerError):
            check_retained(entry, view_id(91))


@pytest.mark.parametrize(
    "key",
    [
        BundleKey(DaemonId(0), 1, Service.FIFO, (RED,), retained=True),
        BundleKey(DaemonId(0), 1, Service.AGREED, (RED, GroupName("blue")), retained=True),
        BundleKey(DaemonId(0), 1, Service.AGREED, (GroupName("#anna#d0"),), retained=True),
    ],
)
def test_bundles_that_cannot_be_retained_are_refused(key: BundleKey) -> None:
    with pytest.raises(PeerError) as caught:
        decode_bundle(encode_bundle(key, [b"x"], [0], [0]))
    assert caught.value.reason is Drop.INCONSISTENT


# The values of all groups.


def test_values_keep_their_limit_and_forget_the_lowest_places() -> None:
    values = RetainedValues()
    for at in range(40):
        put(values, bytes(10_000), lts=100 - at, group=f"g{at}")

    assert values.size_bytes <= RETAINED_TOTAL_BYTES
    assert values.size_bytes == sum([one.size_bytes for one in values.by_group.values()])
    assert GroupName("g39") not in values.by_group
    assert GroupName("g0") in values.by_group


def test_the_higher_place_wins_a_merge_whatever_the_order() -> None:
    entries = [
        RetainedEntry("red", *value(data, lts, counter=counter).place, "#sender#d1", packed(data))
        for data, lts, counter in ((b"a", 9, 3), (b"b", 1, 4), (b"c", 2, 4))
    ]
    for some in (entries, entries[::-1]):
        values = RetainedValues()
        assert values.merge(some) == ["red"]
        assert bytes(decode_bundle(values.by_group[RED].bundle).bodies) == b"c"
        assert values.merge(values.entries()) == []


def test_parts_with_values_follow_those_with_groups_and_are_counted() -> None:
    entries = [RetainedEntry(f"g{at}", VIEW, 1, 0, "#a#d1", packed(bytes(1_000), f"g{at}")) for at in range(5)]

    parts = with_values([GroupsPart(VIEW, 0, 1, 4, primary=True)], entries, 2_500)

    assert [(one.part, one.parts, len(one.retained)) for one in parts] == [
        (0, 4, 0),
        (1, 4, 2),
        (2, 4, 2),
        (3, 4, 1),
    ]
    assert all((one.view, one.version, one.primary) == (VIEW, 4, True) for one in parts)
    assert [one for part in parts for one in part.retained] == entries
    assert with_values(parts[:1], [], 100) == [GroupsPart(VIEW, 0, 1, 4, primary=True)]


# Many daemons.


class RetainingWorld(IdealWorld):
    """Compares what joiners get with the values of all daemons at the same place in the order."""

    def __init__(self, sites: list[int], seed: int) -> None:
        self.problems: list[str] = []
        self.last: dict[tuple[IdealDaemon, str], Place] = {}  # Of the last retained message delivered there.
        self.at_joins: dict[tuple[object, ...], bytes | None] = {}
        self.seen: dict[tuple[object, int, str], bytes] = {}  # By session: the last value or retained message.
        super().__init__(sites, seed)

    def _feed(self, host: IdealDaemon, events: Any) -> None:
        for event in events:
            self._note(host, event)
            outputs = host.groups.step(event, self.now_us)
            self._judge(host, event, outputs)
            self._carry(host, outputs)
        self._pump(host)

    def _note(
        self, host: IdealDaemon, event: Delivered | Rift | Stamped | TransitionalSignal | Installed
    ) -> None:
        if isinstance(event, Delivered) and not is_group_message(event.message.payload):
            size = event.message.payload[-1]
            bundle = decode_bundle(event.message.payload[: -1 - size])
            if bundle.key.retained:
                self.last[host, bundle.key.groups[0]] = Place(event.view, *event.position)

    def _judge(self, host: IdealDaemon, event: object, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, ShowRetained):
                body = bytes(decode_bundle(output.value.bundle).bodies)
                self.seen.update({(host.process, one, output.group): body for one in output.sessions})
            elif isinstance(output, DeliverBundle) and output.bundle.key.retained:
                group = output.bundle.key.groups[0]
                self.seen.update(
                    {(host.process, one, group): bytes(output.bundle.bodies) for one in output.sessions}
                )
        if not isinstance(event, Delivered) or b"J" not in event.message.payload[:3]:
            return
        for output in outputs:
            if isinstance(output, ShowView) and output.view.cause.value == "join":
                self._judge_join(host, event, output.view.group, outputs)

    def _judge_join(self, host: IdealDaemon, event: Delivered, group: str, outputs: list[Output]) -> None:
        held = host.groups.retained.by_group.get(GroupName(group))
        body = None if held is None else bytes(decode_bundle(held.bundle).bodies)
        self._judge_age(host, group)
        place = event.view, event.position, group
        if self.at_joins.setdefault(place, body) != body:
            self.problems.append(f"daemons have {body!r} and {self.at_joins[place]!r} at the join {place}")
        if event.sender == host.process and shown(outputs) != ([] if body is None else [body]):
            self.problems.append(f"the joiner at {place} got {shown(outputs)}, and the value is {body!r}")

    def _judge_age(self, host: IdealDaemon, group: str) -> None:
        """A value is never older than a message that this daemon has delivered; no run clears one."""
        held, last = host.groups.retained.by_group.get(GroupName(group)), self.last.get((host, group))
        if last is not None and (held is None or held.place < last):
            self.problems.append(f"{host.process} holds {held} of {group} after {last}")

    def judge(self) -> list[str]:
        """The problems of the run, which has ended with all daemons in one view and nothing in flight."""
        for host in self.hosts:
            if host.groups.retained.by_group != self.hosts[0].groups.retained.by_group:
                self.problems.append(f"{host.process} has other values in the end")
            for group, held in host.groups.retained.by_group.items():
                body = bytes(decode_bundle(held.bundle).bodies)
                for session in host.groups.table.local(group):
                    seen = self.seen.get((host.process, session, group))
                    if seen != body:
                        self.problems.append(
                            f"{host.process}/{session} saw {seen!r} of {group}, it is {body!r}"
                        )
            for daemon, name in self.last:
                if daemon is host:
                    self._judge_age(host, name)
        return self.problems


def run(seed: int, steps: int = 250) -> tuple[list[str], int]:
    """The problems in the random run of this seed, and how many joiners there were at places with a value."""
    rng = Random(seed)
    world = RetainingWorld(rng.choice([[0, 0, 1], [0, 1, 2], [0, 0, 1, 1], [0, 1, 1, 2, 2]]), seed)
    changes = rng.choice([0.01, 0.04, 0.1])
    world.unite()
    for at in range(len(world.hosts)):
        session = world.connect(at, "a")
        world.request(at, JoinGroup(session, GroupName(rng.choice(GROUPS))))
    for _ in range(steps):
        world.now_us += rng.randint(0, 1)
        chance = rng.random()
        if chance < changes:
            change(world, rng)
        elif chance < 0.3:
            ask(world, rng, GROUPS)
        elif chance < 0.4:
            retain(world, rng)
        else:
            move(world, rng)
    world.unite()
    return world.judge(), len([body for body in world.at_joins.values() if body is not None])


def retain(world: RetainingWorld, rng: Random) -> None:
    here = [
        (at, trace.member.session)
        for at, host in enumerate(world.hosts)
        for trace in world.book.traces.values()
        if trace.member.process == host.process and not trace.ended
    ]
    if here:
        at, session = rng.choice(here)
        world.send(at, session, rng.choice(ORDERED), (rng.choice(GROUPS),), retained=True)


@pytest.mark.slow
def test_daemons_agree_on_values_and_joiners_and_merged_sides_get_the_last_one() -> None:
    joins = 0
    for seed in range(150):
        problems, some = run(seed)
        joins += some
        assert problems == [], seed
    assert joins > 500


def _lowest(values: RetainedValues, entries: list[RetainedEntry]) -> list[GroupName]:
    """The lowest place wins: a value may be older than the view."""
    before = dict(values.by_group)
    first: dict[str, RetainedEntry] = {}
    for one in entries:
        if one.group not in first or (one.view, one.lts) < (first[one.group].view, first[one.group].lts):
            first[one.group] = one
    ORIGINAL(values, first.values())
    return sorted([group for group, one in values.by_group.items() if before.get(group) != one])


ORIGINAL = RetainedValues.merge


def _silent(groups: Groups, sessions: tuple[int, ...], group: GroupName) -> None:
    """Only joiners get values, not the members of a side whose value was replaced."""
    held = groups.retained.by_group.get(group)
    if len(sessions) == 1 and held is not None and groups._exchange is None and groups.state.value != "ggather":
        groups._emit(ShowRetained(sessions, group, held))


@pytest.fixture(params=["pruned", "lowest", "silent"])
def bug(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "pruned":
        monkeypatch.setattr("hopring.groups.interest.is_retained", lambda _: False)
    elif request.param == "lowest":
        monkeypatch.setattr(RetainedValues, "merge", _lowest)
    else:
        monkeypatch.setattr(Groups, "_show_retained", _silent)
    return str(request.param)


@pytest.mark.slow
@pytest.mark.interpreted
def test_a_planted_bug_is_found(bug: str) -> None:
    assert any(run(seed)[0] for seed in range(60)), bug
