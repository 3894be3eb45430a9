"""The pictures of docs/views.md match the simulator, and the text of the page matches the pictures."""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Coroutine
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from docs.pictures.make import HERE, STORIES, Story

from hopring import SAFE, Message, Session, SessionClosed, Transition, View, local_cluster
from hopring.check.judge import first_broken, first_broken_c
from hopring.check.picture import draw
from hopring.check.trace import ClientDelivered, ClientSent, Event, GroupInstalled, GroupSignal, ViewInstalled
from hopring.client.events import Member
from hopring.groups.names import GroupViewId
from hopring.ids import Place, ViewId
from hopring.local.aio import Cluster

PAGE = (Path(__file__).parents[2] / "docs" / "views.md").read_text()
NAMES = {1: "anna", 2: "bert", 3: "carl", 4: "dora"}
SIGNAL = "signal"


@cache
def story(name: str) -> Story:
    return STORIES[name]()


def seen(name: str) -> dict[str, list[str]]:
    """The events of each client in a picture: messages by number, signals, views with their T."""
    told = story(name)
    from_us = told.wish.from_us or 0
    numbers: dict[object, str] = {}
    found: dict[str, list[str]] = {}
    for event in told.history:
        if event.at_us < from_us or event.process.session not in NAMES:
            continue
        if isinstance(event, ClientSent):
            numbers[event.message] = str(len(numbers) + 1)
        elif (words := _seen(event, numbers)) is not None:
            found.setdefault(NAMES[event.process.session], []).append(words)
    return found


def _seen(event: Event, numbers: dict[object, str]) -> str | None:
    match event:
        case ClientDelivered():
            return numbers[event.message]
        case GroupSignal():
            return SIGNAL
        case GroupInstalled():
            members, together = [
                [NAMES[one.session][0] for one in them] for them in (event.members, event.together)
            ]
            return f"{''.join(members)} with {''.join(together)}"
        case _:
            return None


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_drawing_a_picture_again_gives_the_same_bytes(name: str) -> None:
    told = story(name)

    assert draw(told.history, told.wish) == (HERE / f"{name}.svg").read_text(), (
        "run `make pictures`, and look at it"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_the_drawn_histories_keep_every_property(name: str) -> None:
    told = story(name)

    assert first_broken(told.history, quiet_end=True, components=told.components) is None
    assert first_broken_c(told.history, quiet_end=True, components=told.components) is None


def test_the_page_shows_all_pictures() -> None:
    assert re.findall(r"\]\(pictures/(\w+)\.svg\)", PAGE) == list(STORIES)
    # In docs/pipeline.md and docs/performance.md; other tests check the code that draws them.
    elsewhere = {"braid", "peers"}
    assert {path.stem for path in HERE.glob("*.svg")} == {*STORIES, *elsewhere}


@pytest.mark.slow
def test_joins_make_views_and_messages_that_cross_have_one_order() -> None:
    assert seen("joins") == {
        "anna": ["a with a", "ab with a", "abc with ab", "1", "2", "ac with ac"],
        "bert": ["ab with b", "abc with ab", "1", "2"],
        "carl": ["abc with c", "1", "2", "ac with ac"],
    }


@pytest.mark.slow
def test_only_safe_waits_for_a_round() -> None:
    told = story("services")
    sent = {event.message: event for event in told.history if isinstance(event, ClientSent)}
    waits_ms = {
        (event.service.name, NAMES[event.process.session]): (event.at_us - sent[event.message].at_us) / 1000
        for event in told.history
        if isinstance(event, ClientDelivered)
    }

    assert all(ms < 25 for (service, _), ms in waits_ms.items() if service != "SAFE")
    assert all(55 < ms < 65 for (service, _), ms in waits_ms.items() if service == "SAFE")


@pytest.mark.slow
def test_in_the_split_one_side_has_the_safe_message_before_the_signal_and_the_other_after_it() -> None:
    eu, us = ["1", SIGNAL, "2", "ab with ab"], [SIGNAL, "1", "3", "cd with cd"]

    assert seen("split") == {"anna": eu, "bert": eu, "carl": us, "dora": us}


@pytest.mark.slow
def test_after_a_merge_the_transitional_set_is_the_own_side_and_there_is_no_signal() -> None:
    eu, us = ["1", "abcd with ab", "3", "4"], ["2", "abcd with cd", "3", "4"]

    assert seen("merge") == {"anna": eu, "bert": eu, "carl": us, "dora": us}


@pytest.mark.slow
def test_a_safe_message_sent_before_a_crash_reaches_the_survivors() -> None:
    all_left = ["1", "2", SIGNAL, "abd with abd"]

    assert seen("crash") == {"anna": all_left, "bert": all_left, "carl": ["1"], "dora": all_left}


@pytest.mark.slow
def test_daemons_install_more_views_after_the_crash_than_the_group() -> None:
    told = story("daemons")
    views = [
        {one.daemon for one in event.members}
        for event in told.history
        if isinstance(event, ViewInstalled)
        and event.at_us > (told.wish.from_us or 0)
        and event.process.daemon == "us2"
    ]

    assert views == [{"eu1", "eu2", "us2"}, {"eu1", "eu2", "us1", "us2"}]


# Programs on the page.


@cache
def programs() -> dict[str, Any]:
    """All definitions on the page, as one program."""
    code = "\n\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    names: dict[str, Any] = {"__name__": "docs.views"}
    exec(compile(code, "docs/views.md", "exec"), names)
    return names


ANNA, BERT, CARL = [Member(at, name, 1, 1) for at, name in (("eu1", "anna"), ("eu2", "bert"), ("us1", "carl"))]
ID = GroupViewId(ViewId(1, 0, 1), (), 1)  # type: ignore[arg-type]


def message(data: bytes, kind: int = 0) -> Message:
    place: Place = None  # type: ignore[assignment]
    return Message(BERT.private_group, ("trades",), data, SAFE, kind, place)


def view(members: tuple[Member, ...], together: tuple[Member, ...]) -> View:
    return View("trades", ID, members, together, "network", None, ())


def test_payments_pays_certain_messages_and_asks_about_the_rest() -> None:
    paid: list[bytes] = []
    asked: list[list[bytes]] = []
    payments = programs()["Payments"](paid.append, asked.append)
    on: Callable[[object], None] = payments.on

    on(view((ANNA, BERT, CARL), (ANNA, BERT, CARL)))
    on(message(b"one"))
    on(Transition("trades", ID, (ANNA, BERT)))
    on(message(b"two"))
    on(view((ANNA, BERT), (ANNA, BERT)))
    assert (paid, asked) == ([b"one"], [])
    on(message(b"three"))
    on(view((ANNA, BERT, CARL), (ANNA, BERT)))

    assert (paid, asked) == ([b"one", b"three"], [[b"two"]])


class Side:
    """Members of one view, and their messages that are not delivered yet."""

    def __init__(self, members: list[Member]) -> None:
        self.members = members
        self.sent: list[tuple[Member, bytes, int]] = []


class Group:
    """Replicas in views that the test makes; each side has one order."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.replicas: dict[Member, Any] = {}
        self.sides: list[Side] = []
        self.views = 0
        self.tells = 0  # Number of states that were sent.

    def change(
        self, old: list[Side], new: list[list[Member]], ordered: int = 1000, lost: float = 0.0
    ) -> list[Side]:
        """Replaces old views by new ones; a member that is in no new view has crashed.

        The first `ordered` messages of an old view have a place in its order. Members that stay together
        deliver the same ones: all of their own, and those of other members that are not lost. Messages
        without a place are delivered in the next view of their sender.
        """
        self.sides = [one for one in self.sides if one not in old]
        made = [Side(sorted(members)) for members in new]
        for side in made:
            self.views += 1
            whence = {member: before for before in old for member in before.members}
            for before in [one for one in old if any(whence.get(member) is one for member in side.members)]:
                stay = [member for member in side.members if whence.get(member) is before]
                for sender, data, kind in before.sent[:ordered]:
                    if sender in stay or self.dice.random() >= lost:
                        self._deliver(side, stay, data, kind)
                side.sent += [one for one in before.sent[ordered:] if one[0] in stay]
            for member in side.members:
                together = [one for one in side.members if whence.get(one) is whence.get(member, member)]
                self._show(side, member, tuple(together) or (member,))
        self.sides += made
        return made

    def join(self, side: Side | None, member: Member) -> Side:
        self.replicas[member] = programs()["Replica"](member.private_group)
        old = [] if side is None else [side]
        members = [member] if side is None else [*side.members, member]
        (made,) = self.change(old, [members])
        return made

    def say(self, member: Member, data: str) -> None:
        (side,) = [one for one in self.sides if member in one.members]
        side.sent.append((member, data.encode(), 0))

    def deliver(self, side: Side) -> None:
        """Delivers the next message of a side to all its members."""
        _, data, kind = side.sent.pop(0)
        self._deliver(side, side.members, data, kind)

    def settle(self) -> list[str]:
        """Merges all living members and delivers everything; returns their common log."""
        everybody = [member for side in self.sides for member in side.members]
        (side,) = self.change(self.sides, [everybody])
        while side.sent:
            self.deliver(side)
        logs = [self.replicas[member].log for member in everybody]
        assert all(log == logs[0] for log in logs), "the logs differ"
        assert not any(self.replicas[member].unspoken for member in everybody), "a replica still waits"
        return list(logs[0])

    def _show(self, side: Side, member: Member, together: tuple[Member, ...]) -> None:
        seen = View(
            "log", GroupViewId(ID.view, (), self.views), tuple(side.members), together, "network", None, ()
        )
        self._take(side, member, seen)

    def _deliver(self, side: Side, members: list[Member], data: bytes, kind: int) -> None:
        for member in members:
            self._take(side, member, message(data, kind))

    def _take(self, side: Side, member: Member, event: object) -> None:
        state = self.replicas[member].on(event)
        if state is not None:
            self.tells += 1
            side.sent.append((member, state, 1))


def test_one_member_of_each_side_sends_its_state_after_a_merge() -> None:
    group = Group(Random(1))
    eu, us = group.join(group.join(None, ANNA), BERT), group.join(None, CARL)
    group.say(ANNA, "of eu")
    while eu.sent:
        group.deliver(eu)
    group.say(CARL, "of us")
    group.deliver(us)
    group.tells = 0

    assert group.settle() == ["of eu", "of us"]
    assert group.tells == 2


def test_a_joiner_gets_the_state_even_if_its_first_sender_crashes() -> None:
    group = Group(Random(1))
    side = group.join(group.join(None, ANNA), BERT)
    group.say(ANNA, "old")
    while side.sent:
        group.deliver(side)
    side = group.join(side, CARL)
    assert [who.name for who, _, kind in side.sent if kind == 1] == ["anna", "carl"]
    group.say(BERT, "while they tell")
    side.sent = side.sent[1:]
    (left,) = group.change([side], [[BERT, CARL]])  # All messages except the one that anna was to send.
    group.say(CARL, "behind")
    while left.sent:
        group.deliver(left)

    assert group.replicas[CARL].log == group.replicas[BERT].log == ["old", "while they tell", "behind"]


@pytest.mark.parametrize("seed", range(20))
def test_replicas_agree_after_any_splits_merges_joins_and_crashes(seed: int) -> None:
    dice = Random(seed)
    for _ in range(20):
        group, said = Group(dice), 0
        group.join(None, ANNA)
        for at in range(60):
            side = dice.choice(group.sides)
            match dice.randrange(8):
                case 0:
                    group.join(dice.choice([side, None]), Member("eu1", f"m{at:02}", 1, at))
                case 1 if len(side.members) > 1:
                    some = set(dice.sample(side.members, dice.randint(1, len(side.members) - 1)))
                    parts = [sorted(some), [one for one in side.members if one not in some]]
                    group.change([side], parts, dice.randrange(3), 0.5)
                case 2 if len(group.sides) > 1:
                    two = dice.sample(group.sides, 2)
                    group.change(two, [two[0].members + two[1].members], dice.randrange(3), 0.5)
                case 3 if len(side.members) > 1:
                    gone = dice.choice([side.members[0], dice.choice(side.members)])
                    left = [one for one in side.members if one != gone]
                    group.change([side], [left], dice.randrange(3), 0.5)
                case _ if side.sent and dice.random() < 0.6:
                    group.deliver(side)
                case _:
                    said += 1
                    group.say(dice.choice(side.members), str(said))
        known = {
            one
            for side in group.sides
            for member in side.members
            for one in group.replicas[member].log + group.replicas[member].waiting
        }
        unsaid = {data.decode() for side in group.sides for _, data, kind in side.sent if kind == 0}
        log = group.settle()
        assert len(set(log)) == len(log)
        assert set(log) == known | unsaid


# At real daemons.


class Live:
    """Replicas as the page runs them, each with its own session."""

    def __init__(self, cluster: Cluster, tasks: asyncio.TaskGroup) -> None:
        self.cluster = cluster
        self.tasks = tasks
        self.replicas: dict[str, Any] = {}
        self.sessions: dict[str, Session] = {}
        self.seen = asyncio.Condition()
        self.armed = False  # Whether `tell` was called; it is called once.

    async def start(
        self, name: str, daemon: str, tell: Callable[[], Coroutine[Any, Any, None]] | None = None
    ) -> None:
        """Starts a member; `tell` replaces the sending of its state."""
        session = await self.cluster.connect(daemon, name=name, reconnect=False)
        self.sessions[name] = session
        replica = self.replicas[name] = programs()["Replica"](session.private_group)
        take = replica.on

        def on(event: object) -> bytes | None:
            state: bytes | None = take(event)
            self.tasks.create_task(self._notify())
            if state is not None and tell is not None and self.armed:
                self.armed = False
                self.tasks.create_task(tell())
                return None
            return state

        replica.on = on
        self.tasks.create_task(self._run(name, replica))

    async def _run(self, name: str, replica: Any) -> None:
        with contextlib.suppress(SessionClosed):
            await programs()["replicate"](self.sessions[name], replica, "log")

    async def _notify(self) -> None:
        async with self.seen:
            self.seen.notify_all()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with self.seen:
            await self.seen.wait_for(condition)

    async def agree(self, *names: str, on: set[str]) -> None:
        """Waits until these replicas are peers and have the same log, with exactly these entries."""

        def agreed() -> bool:
            them = [self.replicas[name] for name in names]
            peers = {self.sessions[name].private_group for name in names}
            return all(set(one.log) == on and one.log == them[0].log and one.peers == peers for one in them)

        await self.until(agreed)

    async def say(self, name: str, data: str) -> None:
        await self.sessions[name].multicast("log", data.encode())


async def live(directory: Path, story: Callable[[Live], Awaitable[None]]) -> None:
    async with (
        asyncio.timeout(60),
        local_cluster({"eu": 2, "us": 2}, trace=False, directory=directory) as cluster,
        asyncio.TaskGroup() as tasks,
    ):
        group = Live(cluster, tasks)
        await story(group)
        for session in group.sessions.values():
            await session.close()


async def split_and_merge(group: Live) -> None:
    for name, daemon in (("anna", "eu1"), ("bert", "eu2"), ("carl", "us1")):
        await group.start(name, daemon)
    await group.agree("anna", "bert", "carl", on=set())
    await group.say("carl", "before")
    await group.agree("anna", "bert", "carl", on={"before"})
    await group.cluster.partition({"eu"}, {"us"})
    await group.agree("anna", "bert", on={"before"})
    await group.agree("carl", on={"before"})
    await group.say("anna", "of eu")
    await group.say("carl", "of us")
    await group.agree("anna", "bert", on={"before", "of eu"})
    await group.agree("carl", on={"before", "of us"})
    await group.start("dora", "us2")
    await group.agree("carl", "dora", on={"before", "of us"})
    await group.cluster.heal()
    await group.say("dora", "after")
    await group.agree("anna", "bert", "carl", "dora", on={"before", "of eu", "of us", "after"})


async def the_speaker_crashes(group: Live) -> None:
    await group.start("anna", "eu1", lambda: group.cluster.crash("eu1"))
    await group.start("bert", "eu2")
    await group.agree("anna", "bert", on=set())
    await group.say("bert", "old")
    await group.agree("anna", "bert", on={"old"})
    group.armed = True  # The next time that anna is to send the state, her daemon crashes, and she with it.
    await group.start("carl", "us1")
    await group.until(lambda: len(group.replicas["bert"].members) == 3)
    await group.say("bert", "while nobody tells")
    await group.agree("bert", "carl", on={"old", "while nobody tells"})
    assert not group.armed
    assert group.replicas["carl"].log == ["old", "while nobody tells"]


@pytest.mark.slow
@pytest.mark.parametrize("story", [split_and_merge, the_speaker_crashes])
def test_the_replicas_of_the_page_agree_at_real_daemons(
    tmp_path: Path, story: Callable[[Live], Awaitable[None]]
) -> None:
    asyncio.run(live(tmp_path, story))
