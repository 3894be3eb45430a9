"""A long trace of clients that keeps every promise: many groups, sessions that come and go, changes of network.

Every session is in some of the groups. By turns each group loses a member, which leaves and joins again, and
all groups get a signal and the view of a new network. What is sent to a group all its members deliver, in the
order of the stamps; some messages go to two groups.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final

from hopring.check.trace import (
    AsksJoin,
    AsksLeave,
    ClientDelivered,
    ClientSent,
    Connected,
    Event,
    GroupInstalled,
    GroupSignal,
    GroupViewName,
    Left,
    MessageId,
    Ord,
    Process,
    Recover,
    ViewName,
)
from hopring.services import Service

TURNS: Final = 50
SERVICES: Final = (Service.AGREED, Service.SAFE, Service.FIFO, Service.RELIABLE)


@dataclass
class Group:
    """One group, and who is in it."""

    name: str
    members: set[Process] = field(default_factory=set)
    step: int = 0


class ClientTrace:
    """Makes the history, event by event; each session's are in their order."""

    def __init__(self, daemons: int, sessions: int, groups: int, groups_each: int, seed: int = 1) -> None:
        self._dice = Random(seed)
        self._lives = [Process(f"d{number:02d}", number + 1) for number in range(daemons)]
        self._sessions = [
            self._lives[number % daemons]._replace(session=number // daemons + 1) for number in range(sessions)
        ]
        self._groups = [Group(f"group{number:03d}") for number in range(groups)]
        self._each = groups_each
        self._network = 1
        self._lts = 0
        self._numbers = dict.fromkeys(self._sessions, 0)

    def events(self, deliveries: int) -> Iterator[Event]:
        """About so many deliveries, and what belongs to them."""
        for life in self._lives:
            yield Recover(life, 0)
        for session in self._sessions:
            yield Connected(session, 0, "x", f"#x{session.session}#{session.daemon}")
            for group in self._dice.sample(self._groups, self._each):
                yield AsksJoin(session, 0, group.name)
                yield from self._shown(group, joining=session)
        for _turn in range(TURNS):
            yield from self._traffic(deliveries // TURNS)
            yield from self._churn()
            yield from self._new_network()

    def _shown(self, group: Group, joining: Process | None = None, cause: str = "join") -> Iterator[Event]:
        before = set(group.members)
        group.members |= {joining} if joining else set()
        group.step = 1 if cause == "network" else group.step + 1
        view = GroupViewName(ViewName(self._network, 0, 1), (), group.step)
        members, old = tuple(sorted(group.members)), tuple(sorted(before & group.members))
        for member in members:
            together = (member,) if member == joining else old
            yield GroupInstalled(member, 0, group.name, view, members, together, cause)

    def _traffic(self, deliveries: int) -> Iterator[Event]:
        done = 0
        while done < deliveries:
            targets = self._dice.sample(self._groups, 2 if self._dice.random() < 0.1 else 1)
            receivers = sorted(set().union(*[group.members for group in targets]))
            if not receivers:
                continue
            sender, service = self._dice.choice(receivers), self._dice.choice(SERVICES)
            self._lts += 1
            self._numbers[sender] += 1
            name = MessageId(sender.daemon, sender.incarnation, self._numbers[sender], sender.session)
            to = tuple(group.name for group in targets)
            yield ClientSent(sender, self._lts, to, name, service, 100)
            stamp = Ord(self._lts, 0, ViewName(self._network, 0, 1))
            for receiver in receivers:
                yield ClientDelivered(receiver, self._lts, to, name, service, stamp)
            done += len(receivers)

    def _churn(self) -> Iterator[Event]:
        for group in self._groups:
            if len(group.members) > 1:
                one = self._dice.choice(sorted(group.members))
                yield AsksLeave(one, 0, group.name)
                yield Left(one, 0, group.name)
                group.members.remove(one)
                yield from self._shown(group, cause="leave")
                yield AsksJoin(one, 0, group.name)
                yield from self._shown(group, joining=one)

    def _new_network(self) -> Iterator[Event]:
        self._network += 1
        for group in self._groups:
            view = GroupViewName(ViewName(self._network - 1, 0, 1), (), group.step)
            members = tuple(sorted(group.members))
            for member in members:
                yield GroupSignal(member, 0, group.name, view, members)
            yield from self._shown(group, cause="network")
