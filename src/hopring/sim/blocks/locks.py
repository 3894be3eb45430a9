"""Agents that lock: sessions claim a few locks, hold them for a while, and release them or vanish.

The claims are kept by the core of the client library, with its leases.
"""

from dataclasses import dataclass
from random import Random
from typing import Final

from hopring.check.locks import FREE_US, LockAwaited, LockEvent, LockGone, LockTaken, check_locks
from hopring.check.properties.property import Verdict
from hopring.client.locks.claims import ClaimedLock, LockClaims
from hopring.groups.events import LockEnded, LockGranted
from hopring.ids import GroupName
from hopring.session.lock_frames import LockOutput, notice_of
from hopring.sim.block_cluster import BlockAgent, BlockAgents, BlockKind, SimBlockCluster

GROUP: Final = GroupName("locks")
NAMES: Final = ("1", "2", "row")
LONG_UNTIL_US: Final = 3_000_000
"""Holds that begin later are short, so that all has ended at the quiet end."""
HOLD_US: Final = (1_000, 150_000)
LONG_US: Final = 1_200_000
LONG: Final = 0.3
"""The share of locks that are held for `LONG_US`, so that splits and crashes meet holders."""
PARTIAL: Final = 0.2
AWAITED_US: Final = 1_000_000
"""A claim that waits for so long at the quiet end is reported."""


@dataclass(slots=True, eq=False)
class HeldClaim:
    """A claim with what the history has of it."""

    claim: ClaimedLock
    name: str  # Of the claim in the history.
    since_us: int
    taken: bool = False


class LockAgent(BlockAgent):
    """One client process that claims locks."""

    WANTS_VIEWS = False

    def __init__(self, agents: "LockAgents", number: int, dice: Random) -> None:
        super().__init__(agents.cluster, f"lock{number}", dice)
        self._agents = agents
        self._claims = LockClaims()
        self._held: dict[int, HeldClaim] = {}  # By serial.
        self._made = 0
        self._unsaid: list[int] = []  # Serials that are given up, and the daemon does not know.

    def act(self) -> None:
        """Claims a lock, or gives up one that is not granted."""
        home = self.home
        if home is None or not self.can_send:
            return
        waiting = [one for one in self._held.values() if not one.taken]
        if waiting and self.dice.random() < 0.3:
            self._release(self.dice.choice(waiting))
        elif len(self._held) < len(NAMES):
            claim = ClaimedLock(GROUP, self.dice.choice(NAMES), self.dice.random() < PARTIAL)
            serial = self._claims.begin(claim)
            self._made += 1
            self._held[serial] = HeldClaim(claim, f"{self.name}.{self._made}", self.now_us)
            home.claim(self.session, GROUP, claim.lock, serial, claim.partial)

    def connected(self) -> None:
        """Joins the group of all locks."""
        self.join(GROUP)

    def lost(self) -> None:
        """The locks are gone with the session."""
        self._claims.interrupt()
        for one in self._held.values():
            self._gone(one)
        self._held.clear()
        self._unsaid.clear()

    def ticked(self) -> None:
        """Looks at leases that have ended, and tells the daemon what is given up: all locks in the end."""
        for claim in self._claims.expire(self.now_us):
            self._end(claim.serial)
            self._unsaid.append(claim.serial)
        if self.now_us >= self.cluster.quiet_us:
            ended = self._agents.held_at_the_end
            for one in [one for one in self._held.values() if one.taken or one.claim.lock in ended]:
                self._release(one)
        self._say()

    def told(self, output: LockOutput) -> None:
        """The daemon's word on a claim arrived."""
        self._claims.now_us = self.now_us
        self._claims.handle(notice_of(output))
        if isinstance(output, LockGranted) and output.serial in self._held:
            one = self._held[output.serial]
            one.taken = True
            primary = output.place.view in self.cluster.primary_views
            what = one.name, output.lock, *output.fence, primary, one.claim.partial
            self._note(LockTaken(self.now_us, *what))
            long = self.dice.random() < LONG and self.now_us < LONG_UNTIL_US
            delay_us = LONG_US if long else self.dice.randint(*HOLD_US)
            self.cluster.engine.after(delay_us, self._done, one)
        elif isinstance(output, LockEnded):
            self._end(output.serial)

    def _done(self, one: HeldClaim) -> None:
        if self._held.get(one.claim.serial) is one:
            self._release(one)

    def _release(self, one: HeldClaim) -> None:
        self._claims.give_up(one.claim)
        self._end(one.claim.serial)
        self._unsaid.append(one.claim.serial)
        self._say()

    def _say(self) -> None:
        while self._unsaid and self.home is not None and self.can_send:
            self.home.release(self.session, self._unsaid.pop())

    def _end(self, serial: int) -> None:
        one = self._held.pop(serial, None)
        if one is not None:
            self._gone(one)

    def _gone(self, one: HeldClaim) -> None:
        if one.taken:
            self._note(LockGone(self.now_us, one.name, one.claim.lock))

    def _note(self, event: LockEvent) -> None:
        self._agents.history.append(event)

    @property
    def claims(self) -> list[HeldClaim]:
        """The claims that have not ended."""
        return list(self._held.values())

    def late_claims(self) -> list[LockAwaited]:
        """Claims that have waited for long, in a view that may grant locks."""
        home, now_us = self.home, self.now_us
        if home is None or not self.attached or not home.groups.epoch:
            return []
        late = [one for one in self._held.values() if not one.taken and now_us - one.since_us > AWAITED_US]
        return [LockAwaited(now_us, one.name, one.claim.lock) for one in late]


class LockAgents(BlockAgents):
    """All agents of a world that lock, and their history."""

    def __init__(self, cluster: SimBlockCluster) -> None:
        super().__init__(cluster)
        self.history: list[LockEvent] = []
        self.agents: list[LockAgent] = []
        self._held_at_the_end: frozenset[str] | None = None

    def make(self, count: int, dice: Random) -> list[LockAgent]:
        """Makes the agents, all alike."""
        self.agents = [LockAgent(self, number, dice) for number in range(1, count + 1)]
        return self.agents

    @property
    def held_at_the_end(self) -> frozenset[str]:
        """The locks that were held shortly before the end begins: nobody waits for them; L4 has the others."""
        if self._held_at_the_end is None:
            since_us = self.cluster.engine.now_us - FREE_US
            recent = [one.lock for one in self.history if one.at_us > since_us]
            holding = [one.claim.lock for agent in self.agents for one in agent.claims if one.taken]
            self._held_at_the_end = frozenset([*recent, *holding])
        return self._held_at_the_end

    def judge(self, quiet_end: bool) -> list[Verdict]:
        """A verdict for each property of locks."""
        return check_locks(self.record(quiet_end))

    def record(self, quiet_end: bool) -> list[LockEvent]:
        """The history, and who waits at its end."""
        late = [one for agent in self.agents for one in agent.late_claims()] if quiet_end else []
        return [*self.history, *late]


LOCKS: Final = BlockKind("locks", 40, LockAgents)
