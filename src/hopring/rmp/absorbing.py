"""Two rings of one name that hear each other: members of the lesser leave it, and join the greater (trap 26).

Invariants  a ring whose minimum is majority or all is never left for another one while it works.
Deviations  the paper's rings never meet again. A suspended member leaves for a ring that went on without it.
"""

from dataclasses import dataclass, field

from hopring.rmp.joining import is_greater
from hopring.rmp.lists.quorum import is_quorate
from hopring.rmp.state import PeerRingState
from hopring.wire.rmp.ids import PeerProcess
from hopring.wire.rmp.lists import PeerList
from hopring.wire.rmp.packets import ListChange, ListChangeRequest

DIRECT = 1
"""The serial of a question that its receiver answers in any case."""


LOST_MAX = 16
"""How many processes that a recovery left out are asked whether they have a ring by now."""

LOST_ASKS_MAX = 128
"""How often each of them is asked at most."""


@dataclass(slots=True)
class Absorbing:
    """What a member knows of other rings."""

    state: PeerRingState
    ask_at_us: int = 0  # Not before then another ring is asked.
    lost: dict[PeerProcess, int] = field(default_factory=dict)
    """Those that may have another ring, and how often to ask them: a recovery left them out, or they did not
    answer before this process founded its ring."""
    lost_at_us: int = 0  # Not before then one of them is asked.

    def note_lost(self, old: PeerList, new: PeerList) -> None:
        """A recovery leaves members out; where some hear no multicast, two rings do not find each other."""
        if all(one.capable for one in (*old.members, *new.members)):
            return
        for process in old.processes:
            if process not in new:
                self.lost[process] = LOST_ASKS_MAX
        while len(self.lost) > LOST_MAX:
            del self.lost[next(iter(self.lost))]

    def note_founded(self) -> None:
        """A ring is founded: members that this process was told to ask may have one, and not hear of it."""
        self.lost |= dict.fromkeys(self.state.wish.via, LOST_ASKS_MAX)

    def ask_lost(self, now_us: int) -> None:
        """Asks those that were left out, one after the other."""
        state = self.state
        if not self.lost or now_us < self.lost_at_us or not state.options.absorb or is_quorate(state.present):
            return
        process = next(iter(self.lost))
        left = self.lost.pop(process) - 1
        # Of those that it was told to ask the nonces are not known.
        if left and not any(one[:2] == process[:2] for one in state.present.processes):
            self.lost[process] = left
            self.lost_at_us = now_us + state.options.absorb_lost_us
            self._ask(process)

    def heard(self, sender: PeerProcess, now_us: int) -> None:
        """A process of another epoch is heard: asks for its list, not too often."""
        state = self.state
        if not state.options.absorb or now_us < self.ask_at_us or sender in state.present:
            return
        self.ask_at_us = now_us + state.options.absorb_ask_us
        self._ask(sender)

    def _ask(self, process: PeerProcess) -> None:
        state = self.state
        who = ListChangeRequest(state.me, ListChange.WHO, state.next_request(), state.group, serial=DIRECT)
        state.unicast(who, process, 0)

    def leaves_for(self, other: PeerList, suspended: bool) -> bool:
        """Whether this member leaves its ring for another one that shows its list."""
        mine = self.state.present
        if not self.state.options.absorb or self.state.me in other:
            return False
        if suspended:
            return is_quorate(other) or not is_quorate(mine)
        return not is_quorate(mine) and not self.state.frozen and is_greater(other, mine)
