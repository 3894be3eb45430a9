"""Why a daemon leaves its view, until the next one is installed, and which reason all members of that one give.

Below       failures of the network, messages of members, stalls of the driver.
Above       the membership, which reports the own reason in STATETRANS and installs a view with the agreed one.
Invariants  all members of a view choose among the same reports, so they agree; START and MERGE are never
            taken from others.
"""

from collections.abc import Iterable

from msgspec import structs

from hopring.ids import DaemonId, Process
from hopring.membership.current_network import CurrentNetwork
from hopring.membership.messages import StateTrans
from hopring.reason import (
    NO_FACTS,
    TIME_US_MAX,
    LossFacts,
    ReasonKind,
    ViewReason,
    most_telling,
    reason_of,
)


class LossReasons:
    """The reason of one daemon for its next view change."""

    def __init__(self, me: DaemonId, network: CurrentNetwork) -> None:
        self.own = reason_of(ReasonKind.START, me, "start")
        self._me = me
        self._network = network
        self._noticed_at_us = 0
        self._reported_at_us = 0

    @property
    def text(self) -> str:
        """The own reason as one line."""
        return self.own.text(self._me)

    def note(
        self,
        kind: ReasonKind,
        detail: str,
        now_us: int,
        facts: LossFacts = NO_FACTS,
    ) -> None:
        """The view is lost, or must be left; if a daemon was absent, the cause may be a stall of this one."""
        self.own = reason_of(kind, self._me, detail, facts.peer, facts.silence_us)
        if facts.absence and now_us <= self._network.stall_until_us:
            stall_us = self._network.stall_us
            self.own = reason_of(ReasonKind.STALL, self._me, "did not run", None, stall_us)
        self._noticed_at_us = now_us

    def report(self, now_us: int) -> ViewReason | None:
        """What STATETRANS says: the own reason with its age, if this daemon has lost a view."""
        self._reported_at_us = now_us
        if not self.own.loss:
            return None
        age_us = min(max(now_us - self._noticed_at_us, 0), TIME_US_MAX)
        return structs.replace(self.own, noticed_us=age_us)

    def end(
        self, states: Iterable[StateTrans], before: Iterable[Process], now_us: int
    ) -> tuple[ViewReason, ViewReason]:
        """A view begins, of the senders of these states: its reason, and the one of this daemon alone."""
        told = list(states)
        reasons = self._agreed(told, now_us), self.own
        # A daemon that lost others by its stall says so once more when they meet again.
        lost = not {one.sender for one in told}.issuperset(before)
        if self.own.kind != ReasonKind.STALL or not lost:
            self.own = reason_of(ReasonKind.MERGE, self._me, "merge")
        return reasons

    def _agreed(self, states: Iterable[StateTrans], now_us: int) -> ViewReason:
        """The reason of the view that is installed now; the same at all members, but for its age."""
        told = [one.reason for one in states if one.reason is not None and is_own(one)]
        if not told:
            return self.own
        chosen = most_telling(told)
        age_us = chosen.noticed_us + max(now_us - self._reported_at_us, 0)
        return structs.replace(chosen, noticed_us=min(age_us, TIME_US_MAX))


def is_own(state: StateTrans) -> bool:
    """Whether the reason in a STATETRANS is that of its sender."""
    return state.reason is not None and state.reason.witness == state.sender.daemon
