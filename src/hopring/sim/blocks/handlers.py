"""Agents that call a handler: of its servers, the holder of the handler's lock answers.

The lock is claimed by the code of the library (blocks/handler_lock.py), on the core of the client's locks.
"""

from collections.abc import Set as AbstractSet
from random import Random
from typing import Final

from hopring.blocks import caller as calling
from hopring.blocks.handler_lock import HandlerLock
from hopring.client.locks.claims import ClaimedLock, LockClaims
from hopring.ids import GroupName, Place
from hopring.session.lock_frames import LockOutput, notice_of
from hopring.sim.block_cluster import BlockKind
from hopring.sim.blocks.calls import CallAgent, CallAgents

HANDLER: Final = 1
DEADLINES_US: Final = (300_000, 1_200_000)
"""Every call has a deadline: on a side without a primary nobody holds the lock."""


class HandlerAgent(CallAgent):
    """One client process that calls the handler, and perhaps is one of its servers."""

    NAME = "handler"
    SERVERS = GroupName("calls?handler1")

    def __init__(self, agents: CallAgents, number: int, serves: bool, dice: Random) -> None:
        super().__init__(agents, number, serves, dice)
        self._claims = LockClaims()
        self._unsaid: list[int] = []  # Serials of claims that are given up, and the daemon does not know.
        self._lock = HandlerLock(self, self.SERVERS, HANDLER) if serves else None

    def drawn_call(self, serial: int) -> calling.StartCall:
        """A call to the handler."""
        deadline_us = self.now_us + self.dice.choice(DEADLINES_US)
        return calling.StartCall(serial, self.SERVERS, 1, deadline_us, handler=True)

    def fence_at(self, place: Place) -> int | None:
        """The fence with which this server holds the handler's lock there."""
        return None if self._lock is None else self._lock.fence_at(place)

    # The part of a session that claims locks.

    @property
    def groups(self) -> AbstractSet[str]:
        """The groups that the session has asked to join."""
        return set() if self.home is None else self.home.sessions.get(self.session, set())

    def may_ask(self) -> bool:
        """Whether the daemon takes a claim now."""
        return self.can_send

    def lock(self, claim: ClaimedLock) -> None:
        """Tells the daemon of a claim."""
        serial = self._claims.begin(claim)
        assert self.home is not None, "look at may_ask first"
        self.home.claim(self.session, GroupName(claim.group), claim.lock, serial, claim.partial)

    def unlock(self, claim: ClaimedLock) -> None:
        """Gives a claim up again."""
        if self._claims.give_up(claim):
            self._unsaid.append(claim.serial)

    def told(self, output: LockOutput) -> None:
        """The daemon's word on the claim arrived."""
        self._claims.now_us = self.now_us
        self._claims.handle(notice_of(output))

    def lost(self) -> None:
        """The lock is gone with the session."""
        self._claims.interrupt()
        self._unsaid.clear()
        super().lost()

    def ticked(self) -> None:
        """Looks at the lease, and claims the lock again."""
        for claim in self._claims.expire(self.now_us):
            self._unsaid.append(claim.serial)
        if self._lock is not None and self.now_us >= self.cluster.quiet_us:
            self._lock.release()
        elif self._lock is not None and self.can_send:
            self._lock.advance(self.now_us)
        while self._unsaid and self.home is not None and self.can_send:
            self.home.release(self.session, self._unsaid.pop())
        super().ticked()


class HandlerAgents(CallAgents):
    """All agents that call the handler."""

    KIND = HandlerAgent


HANDLERS: Final = BlockKind("handlers", 50, HandlerAgents)
