"""Members with view synchrony on an ideal group: one order in each side of the network, drawn from a seed.

Each side of the network has a log of views and messages, and each member reads it at its own pace. At a split
both new sides keep a prefix of the log, at least as far as any of their members has read; messages behind it
are put into the log of their sender's side again. Messages of no total service may overtake those of others.
"""

from dataclasses import dataclass, field
from itertools import count
from random import Random

from hopring.blocks.flushing import (
    AgreementArrived,
    AgreeToFlush,
    AskToFlush,
    BaseClosing,
    BaseView,
    DeliverContent,
    ExclusionArrived,
    FlushMember,
    FlushPhase,
    GiveUp,
    Input,
    InstallView,
    Output,
    SendAgreement,
    SendExclusion,
    ViewMessage,
)
from hopring.check.view_synchrony import (
    AgreementSent,
    FlushAgreed,
    FlushAsked,
    FlushEvent,
    SentInView,
    ShownInView,
    StayBegan,
    StayEnded,
    SynchronousView,
)
from hopring.ids import NEVER
from hopring.links.events import Tick


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a log: an event, from a member if it is a message."""

    event: Input
    sender: str = ""
    loose: bool = False


@dataclass(eq=False, slots=True)
class Side:
    """The members that reach each other, with their log."""

    log: list[Entry] = field(default_factory=list)
    members: dict[str, "Member"] = field(default_factory=dict)


class Member:
    """A session in the group, its application, and how far it has read."""

    def __init__(self, world: "FlushWorld", name: str, side: Side) -> None:
        self.world, self.name, self.side = world, name, side
        self.core = FlushMember(patience_us=world.patience_us)
        self.stay = ""
        self.inbox: list[Entry] = []
        self.read = 0  # Entries of the log that are in the inbox or were handled.
        self.asked = False

    def fetch(self) -> None:
        """Moves entries of the log into the inbox; loose ones may overtake those of others."""
        for entry in self.side.log[self.read :]:
            at = len(self.inbox)
            while entry.loose and at and self.world.dice.random() < 0.7:
                before = self.inbox[at - 1]
                if not before.sender or before.sender == entry.sender:
                    break
                at -= 1
            self.inbox.insert(at, entry)
        self.read = len(self.side.log)

    def handle(self) -> None:
        """Handles the next entry."""
        if self.inbox:
            self.step(self.inbox.pop(0).event)

    def step(self, event: Input) -> None:
        for output in self.core.step(event, self.world.now_us):
            self.carry_out(output)

    def carry_out(self, output: Output) -> None:
        world = self.world
        match output:
            case SendAgreement(attempt, leader):
                world.note(AgreementSent(world.now_us, self.stay, attempt))
                self.send(AgreementArrived(self.name, attempt, leader))
            case SendExclusion(attempt):
                self.send(ExclusionArrived(self.name, attempt))
            case AskToFlush():
                self.asked = True
                world.note(FlushAsked(world.now_us, self.stay))
            case InstallView():
                world.note(SynchronousView(world.now_us, self.stay, output.id, output.members, output.together))
            case DeliverContent(_, content):
                assert isinstance(content, str)
                world.note(ShownInView(world.now_us, self.stay, content))
            case GiveUp():
                self.asked = False
                world.note(StayEnded(world.now_us, self.stay))
                world.given_up.append(self)

    def send(self, event: Input, loose: bool = False) -> None:
        self.side.log.append(Entry(event, self.name, loose))

    def multicast(self) -> None:
        """Sends a message, if that is allowed now."""
        if not self.core.may_send:
            return
        content = f"{self.name}:{next(self.world.numbers)}"
        self.world.note(SentInView(self.world.now_us, self.stay, content))
        # Where members are left behind, all messages have a place in the order.
        loose = self.world.patience_us == NEVER and self.world.dice.random() < 0.5
        self.send(ViewMessage(self.name, self.core.sending_view, content), loose)

    def agree(self) -> None:
        """Agrees, if it was asked."""
        if self.asked and self.core.phase is FlushPhase.ASKED:
            self.asked = False
            self.world.note(FlushAgreed(self.world.now_us, self.stay))
            self.step(AgreeToFlush())


class FlushWorld:
    """A group, and the faults of its network."""

    def __init__(self, seed: int, names: str, *, patient: bool = True) -> None:
        self.dice = Random(seed)
        self.names = names
        self.patience_us = NEVER if patient else 150
        self.now_us = 0
        self.history: list[FlushEvent] = []
        self.numbers = count(1)
        self.sides = [Side()]
        self.given_up: list[Member] = []
        self.talking = True

    def note(self, event: FlushEvent) -> None:
        """Adds to the history."""
        self.history.append(event)

    @property
    def members(self) -> list[Member]:
        """All members, of all sides."""
        return [one for side in self.sides for one in side.members.values()]

    # What happens.

    def join(self, name: str) -> None:
        """A session joins on any side."""
        side = self.dice.choice(self.sides)
        before = tuple(sorted(side.members))
        member = Member(self, name, side)
        member.stay = f"{name}/{next(self.numbers)}"
        self.note(StayBegan(self.now_us, member.stay, name))
        # It sees the log from its own view on.
        member.read = len(side.log) + 1
        side.members[name] = member
        view = self._view_name()
        self._views(side, view, before)
        member.inbox.append(Entry(BaseView(view, tuple(sorted(side.members)), frozenset((name,)), False, name)))

    def leave(self, member: Member, *, noted: bool = True) -> None:
        """A member leaves, or its session ends."""
        side = member.side
        del side.members[member.name]
        if noted:
            self.note(StayEnded(self.now_us, member.stay))
        self._views(side, self._view_name(), tuple(sorted(side.members)))

    def split(self) -> None:
        """One side becomes two."""
        side = max(self.sides, key=lambda one: len(one.members))
        if len(side.members) < 2:
            return
        names = sorted(side.members)
        self.dice.shuffle(names)
        cut = self.dice.randint(1, len(names) - 1)
        self.sides.remove(side)
        for part in (names[:cut], names[cut:]):
            self._part(side, [side.members[name] for name in part])

    def _part(self, side: Side, members: list[Member]) -> None:
        least = max(one.read for one in members)
        end = self.dice.randint(least, len(side.log)) if least < len(side.log) else least
        signal = self.dice.randint(least, end)
        names = frozenset(one.name for one in members)
        again = [entry for entry in side.log[end:] if entry.sender in names]
        log = [*side.log[:signal], Entry(BaseClosing(names)), *side.log[signal:end]]
        new = Side(log, {one.name: one for one in members})
        for one in members:
            one.side = new
        self._views(new, self._view_name(), tuple(sorted(names)))
        new.log += again
        self.sides.append(new)

    def merge(self) -> None:
        """Two sides become one."""
        if len(self.sides) < 2:
            return
        one, other = self.dice.sample(self.sides, 2)
        view, names = self._view_name(), tuple(sorted([*one.members, *other.members]))
        new = Side()
        for side in (one, other):
            self.sides.remove(side)
            for member in side.members.values():
                member.fetch()
                member.inbox.append(Entry(BaseView(view, names, frozenset(side.members))))
                member.side, member.read = new, 0
                new.members[member.name] = member
        self.sides.append(new)

    def _views(self, side: Side, view: str, together: tuple[str, ...]) -> None:
        """Puts a view into the log, for those who have been there."""
        side.log.append(Entry(BaseView(view, tuple(sorted(side.members)), frozenset(together))))

    def _view_name(self) -> str:
        return f"v{next(self.numbers)}"

    # Runs.

    def run(self, steps: int) -> None:
        """Runs with faults, and then without until nothing happens any more."""
        for _ in range(steps):
            self.now_us += 1
            self._draw()
        while len(self.sides) > 1:
            self.merge()
        self.talking = False
        for _ in range(20 * steps):
            self.now_us += 1
            self._work()
            if self._quiet():
                return
        raise AssertionError("it does not come to an end")

    def _quiet(self) -> bool:
        idle = all(not one.inbox and one.read == len(one.side.log) for one in self.members)
        settled = all(one.core.phase is FlushPhase.OPEN for one in self.members)
        return idle and settled and not self.given_up

    def _draw(self) -> None:
        dice = self.dice
        chance = dice.random()
        outside = [name for name in self.names if all(one.name != name for one in self.members)]
        if chance < 0.02 and outside:
            self.join(dice.choice(outside))
        elif chance < 0.03 and len(self.members) > 1:
            member = dice.choice(self.members)
            if member not in self.given_up:
                self.leave(member)
        elif chance < 0.045:
            self.split()
        elif chance < 0.06:
            self.merge()
        else:
            self._work()

    def _work(self) -> None:
        dice = self.dice
        for member in self.given_up:
            self.leave(member, noted=False)
            self.join(member.name)
        self.given_up = []
        if not self.members:
            return
        member = dice.choice(self.members)
        chance = dice.random()
        if chance < 0.1 and self.talking:
            member.multicast()
        elif chance < 0.2:
            member.agree()
        elif chance < 0.3:
            if self.now_us >= member.core.wake_at_us:
                member.step(Tick())
        elif chance < 0.6:
            member.fetch()
        else:
            member.handle()
